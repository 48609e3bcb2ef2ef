// Hostile texts on every page of the dashboard: they are there, and only as text.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { postForm } from './support/dashboard-forms.ts'
import { type HostileDashboard, serveHostileDashboard } from './support/hostile-dashboard.ts'

/** Markup that no page has, unless a text brought it. */
const INJECTED = [
  /<img/i,
  /<script(?! src="\/dash\/assets\/)/i,
  /<b hx-/i,
  /<svg\/onload/i,
  /"'>/,
  /\son[a-z]+="/i,
  /hx-get="\/hacked/,
  /\b(?:href|src|action|formaction|data|hx-[a-z:-]+)="\s*javascript:/i,
  /<textarea[^>]*>(?:(?!<\/textarea>)[\s\S])*<\/textarea>"/,
]

function findInjected(body: string): string[] {
  return INJECTED.flatMap((pattern) => {
    const found = pattern.exec(body)
    return found ? [`${pattern}: …${body.slice(Math.max(0, found.index - 60), found.index + 80)}…`] : []
  })
}

/** Ids that a page has twice, links to places that it does not have, and values that are missing. */
function findWrongIds(body: string): string[] {
  const all = (pattern: RegExp): string[] => [...body.matchAll(pattern)].map(([, name = '']) => name)
  const ids = all(/\sid="([^"]*)"/g)
  const places = all(/\shref="#([^"]+)"/g)
  return [
    ...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `has the id ${id} twice`),
    ...all(/="([\w-]*\bundefined)"/g).map((value) => `has the value ${value}`),
    ...places.filter((place) => !ids.includes(place)).map((place) => `has no place #${place}`),
  ]
}

async function collectFaults(dash: HostileDashboard, paths: readonly string[]): Promise<Map<string, string>> {
  const [bodies, faults] = [new Map<string, string>(), [] as string[]]
  for (const path of paths) {
    const response = await dash.operator.get(path)
    const body = await response.text()
    bodies.set(path, body)
    if (response.status >= 500) faults.push(`${path} is ${response.status}`)
    faults.push(...[...findInjected(body), ...findWrongIds(body)].map((fault) => `${path}: ${fault}`))
  }
  assert.deepEqual(faults, [])
  return bodies
}

/** Each form of the pages once, with the names of its fields. */
function formsOf(bodies: ReadonlyMap<string, string>): Map<string, { path: string; names: string[] }> {
  const forms = new Map<string, { path: string; names: string[] }>()
  for (const [path, body] of bodies)
    for (const [form] of body.matchAll(/<form[^>]*method="post"[\s\S]*?<\/form>/g)) {
      const names = [...form.matchAll(/ name="([^"]+)"/g)].map(([, name = '']) => name)
      const [, action = ''] = /name="action" value="([^"]*)"/.exec(form) ?? []
      forms.set(`${path} ${action}`, { path, names })
    }
  return forms
}

const CONTROL = new Set(['csrf', 'action', 'form', 'form_key', 'confirmed'])
const TYPED = `typed"'><img src=x onerror=hacked()></textarea><script>hacked()</script>`

suite('hostile texts', () => {
  test('are shown by every page that has them, escaped', async (t) => {
    const dash = await serveHostileDashboard(t)
    const bodies = await collectFaults(dash, dash.paths)
    const all = [...bodies.values()].join('\n')
    // Some resources have no list.
    const missing = [...bodies].filter(([path, body]) => !/resources/.test(path) && /<h1>Not found/i.test(body))
    assert.deepEqual(
      missing.map(([path]) => path),
      [],
    )
    const isShown = (name: string): boolean => all.includes(`${name}&quot;`) || all.includes(`${name}%22`)
    assert.deepEqual(
      dash.names.filter((name) => !isShown(name)),
      [],
    )
  })

  test('do not come back from the query of a page', async (t) => {
    const dash = await serveHostileDashboard(t)
    await collectFaults(dash, dash.reflecting)
  })

  test('do not come back from a form, neither in its fault nor in its question', async (t) => {
    const dash = await serveHostileDashboard(t)
    const forms = formsOf(await collectFaults(dash, dash.paths))
    assert.ok(forms.size > 50, String(forms.size))
    const faults: string[] = []
    for (const [key, { path, names }] of forms) {
      const fields = Object.fromEntries(names.filter((name) => !CONTROL.has(name)).map((name) => [name, TYPED]))
      const action = key.slice(key.lastIndexOf(' ') + 1)
      const response = await postForm(dash.operator, path, { ...fields, action })
      const body = await response.text()
      if (response.status >= 500) faults.push(`${key} is ${response.status}`)
      faults.push(...findInjected(body).map((fault) => `${key}: ${fault}`))
    }
    assert.deepEqual(faults, [])
  })
})
