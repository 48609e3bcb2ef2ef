// The commands that pages of the dashboard show are commands of svc, and a page without rows says what to do next.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { svcCommands } from '../src/cli/commands/index.ts'
import { folderViews } from '../src/daemons/dashd/folder/index.ts'
import { folderPath } from '../src/daemons/dashd/page.ts'
import { pages } from '../src/daemons/dashd/pages/index.ts'
import { runProgram } from '../src/lib/command-line/program.ts'
import { type Dashboard, OPERATOR, serveDashboard } from './support/dashboard.ts'

const PATHS = [
  ...pages.flatMap(({ path, nav }) => (nav === undefined ? [] : [path])),
  ...[
    '/dash/messages?state=failed',
    '/dash/messages?q=nothing',
    '/dash/turns?state=running',
    '/dash/people?search=none',
  ],
  ...[
    '/dash/folders?search=none',
    '/dash/admissions?view=all',
    '/dash/admissions?view=gates',
    '/dash/channels?kind=waiting',
  ],
  ...['/dash/access?folder=team', '/dash/settings?q=none', '/dash/audit?actor=none', '/dash/resources/routes'],
  ...[`/dash/person?sub=${OPERATOR}`],
]

async function readPages(dash: Dashboard, paths: readonly string[]): Promise<[path: string, body: string][]> {
  const found: [string, string][] = []
  for (const path of paths) {
    const response = await dash.operator.get(path)
    assert.equal(response.status, 200, path)
    found.push([path, await response.text()])
  }
  return found
}

/** The words of a shell command with plain and single-quoted words; placeholders become words. */
function wordsOf(command: string): string[] {
  return [...command.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(([, single, double, word]) =>
    (single ?? double ?? word ?? '').replace(/^<(.*)>$/, '$1'),
  )
}

/** What svc says about the usage of this command; empty if it would run. */
async function usageFault(command: string): Promise<string> {
  const said: string[] = []
  const stream = { write: (text: string) => said.push(text) > 0, isTTY: false }
  const code = await runProgram({ name: 'svc', commands: svcCommands, run: async () => 0 }, wordsOf(command).slice(1), {
    stdout: stream,
    stderr: stream,
    environment: {},
  } as never)
  return code === 0 ? '' : said.join('')
}

const DECODED: Readonly<Record<string, string>> = {
  '&#39;': "'",
  '&quot;': '"',
  '&lt;': '<',
  '&gt;': '>',
  '&amp;': '&',
}

suite('what pages of the dashboard suggest', () => {
  test('are commands that svc has', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    const faults: string[] = []
    const views = folderViews.map(({ name }) => folderPath('team', name))
    for (const [path, body] of await readPages(dash, [...PATHS, ...views]))
      for (const [, text = ''] of body.matchAll(/data-copy="(svc [^"]*)"/g)) {
        const command = text.replace(/&[#a-z0-9]+;/g, (entity) => DECODED[entity] ?? entity)
        const fault = await usageFault(command)
        if (fault !== '') faults.push(`${path}: ${command}: ${fault}`)
      }
    assert.deepEqual(faults, [])
  })

  test('is for operators: people without a shell see none', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    const named: string[] = []
    const views = folderViews.map(({ name }) => folderPath('team', name))
    const shown = pages.flatMap(({ path, nav }) => (nav === undefined ? [] : [path]))
    for (const path of [...shown, ...views]) {
      const response = await dash.admin.get(path)
      const text = await response.text()
      if (/(?<![\w/.-])svc [a-z]|In a terminal/.test(text)) named.push(path)
    }
    assert.deepEqual(named, [])
  })

  test('is there on every empty list', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    const silent: string[] = []
    for (const [path, body] of await readPages(dash, PATHS))
      for (const [, text = ''] of body.matchAll(/<div class="empty">([\s\S]*?)<\/div>/g))
        if (!/<a |data-copy=/.test(text)) silent.push(`${path}: ${text.replace(/<[^>]*>/g, '')}`)
    assert.deepEqual(silent, [])
  })
})
