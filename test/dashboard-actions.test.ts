// Every action of every page and folder view of the dashboard, as an operator, as the administrator of one folder and as a
// stranger. An action without a row fails.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import { folderViews } from '../src/daemons/dashd/folder/index.ts'
import { folderPath, type PageAction } from '../src/daemons/dashd/page.ts'
import { pages } from '../src/daemons/dashd/pages/index.ts'
import { shapeOf } from '../src/daemons/dashd/pages/resources.ts'
import { resources } from '../src/resources/index.ts'
import { ACTION_ROWS, type ActionPlace, type ActionRow } from './support/action-rows.ts'
import { type Dashboard, OPERATOR, STRANGER, serveDashboard, TEAM_ADMIN } from './support/dashboard.ts'
import { postForm } from './support/dashboard-forms.ts'
import type { SignedInBrowser } from './support/sign-in.ts'
import { run } from './support/sql.ts'

/** The generic page has the actions of each resource; see below. */
const RESOURCE_PAGE = '/dash/resources/:name'

function declaredActions(): Map<string, PageAction> {
  const ofPages = pages.flatMap(({ path, actions = {} }) =>
    Object.entries(actions).map(([name, action]) => [`${path} ${name}`, action] as const),
  )
  const ofViews = folderViews.flatMap(({ name: view, actions = {} }) =>
    Object.entries(actions).map(([name, action]) => [`${folderPath(':folder', view)} ${name}`, action] as const),
  )
  return new Map([...ofPages, ...ofViews])
}

const ACTIONS = declaredActions()
const REFUSED = [403, 404]

/** One row per change that a person or a program made. */
async function countChanges({ host }: Dashboard): Promise<number> {
  const { rows } = await host.engine.read((tx) =>
    run(tx, `select count(*) as n from audit where category = 'mutation'`),
  )
  return Number(rows[0]?.n)
}

interface Attempt {
  readonly as: SignedInBrowser
  readonly action: string
  readonly place: ActionPlace
  /** The page that gets the form; default: that of the place. */
  readonly path?: string
}

async function attempt(dash: Dashboard, { as, action, place, path = place.path }: Attempt) {
  const before = await countChanges(dash)
  const response = await postForm(as, path, { action, confirmed: 'yes', ...place.fields })
  return { status: response.status, body: await response.text(), changes: (await countChanges(dash)) - before }
}

const offers = (page: string, action: string): boolean => page.includes(`name="action" value="${action}"`)

async function readPage(browser: SignedInBrowser, path: string): Promise<{ status: number; body: string }> {
  const response = await browser.get(path)
  return { status: response.status, body: await response.text() }
}

function assertNoLeak(body: string, remark: string): void {
  assert.doesNotMatch(body, /\bteam\b|\bother\b/, remark)
}

/** Returns what is wrong. */
async function checkRow(dash: Dashboard, key: string, row: ActionRow): Promise<void> {
  const action = key.slice(key.lastIndexOf(' ') + 1)
  const { status: expected = 303, admin: ofAdmin = expected, isOffered = true, isOwn = false, actsOnPage = false } = row
  const place = (as: string, folder: string): Promise<ActionPlace> =>
    row.make(dash, { as, folder, mark: randomUUID().slice(0, 8) })
  const isConfirmed = ACTIONS.get(key)?.confirm !== undefined

  const own = await place(OPERATOR, 'team')
  const shown = await readPage(dash.operator, own.path)
  assert.equal(shown.status, 200, `${key}: the page of an operator`)
  assert.equal(offers(shown.body, action), isOffered, `${key}: offered to an operator`)
  if (isConfirmed) {
    const before = await countChanges(dash)
    const question = await postForm(dash.operator, own.path, { action, ...own.fields })
    assert.match(await question.text(), /<h1>Are you sure\?<\/h1>/, `${key}: asks first`)
    assert.equal(await countChanges(dash), before, `${key}: changes nothing before the confirmation`)
  }
  const done = await attempt(dash, { as: dash.operator, action, place: own })
  assert.equal(done.status, expected, `${key}: an operator\n${done.body}`)

  const within = await place(TEAM_ADMIN, 'team')
  const seen = await readPage(dash.admin, within.path)
  const isAllowed = !REFUSED.includes(ofAdmin)
  assert.equal(seen.status === 200 && offers(seen.body, action), isAllowed && isOffered, `${key}: offered in the team`)
  const inTeam = await attempt(dash, { as: dash.admin, action, place: within })
  assert.equal(inTeam.status, ofAdmin, `${key}: the administrator in the team\n${inTeam.body}`)
  if (REFUSED.includes(ofAdmin)) assert.equal(inTeam.changes, 0, `${key}: refused without a change`)

  if (!isOwn) {
    const outside = await place(OPERATOR, 'other')
    const elsewhere = await attempt(dash, { as: dash.admin, action, place: outside })
    assert.ok(REFUSED.includes(elsewhere.status), `${key}: the administrator elsewhere: ${elsewhere.status}`)
    assert.equal(elsewhere.changes, 0, `${key}: refused elsewhere without a change`)
    if (isAllowed && !actsOnPage && outside.path !== within.path) {
      // A form of an own page that names something of another folder.
      const crossed = await attempt(dash, { as: dash.admin, action, place: outside, path: within.path })
      assert.ok([400, ...REFUSED].includes(crossed.status), `${key}: across folders: ${crossed.status}`)
      assert.equal(crossed.changes, 0, `${key}: refused across folders without a change`)
    }
  }

  const foreign = await place(isOwn ? STRANGER : OPERATOR, 'team')
  const strange = await attempt(dash, { as: dash.stranger, action, place: foreign })
  if (isOwn) return assert.equal(strange.status, expected, `${key}: a stranger, for themselves\n${strange.body}`)
  assert.deepEqual([strange.status, strange.changes], [404, 0], `${key}: a stranger`)
  assertNoLeak(strange.body, `${key}: what a stranger reads`)
  const hidden = await readPage(dash.stranger, foreign.path)
  assert.equal(hidden.status, 404, `${key}: the page of a stranger`)
  assertNoLeak(hidden.body, `${key}: the page of a stranger`)
}

suite('actions of the dashboard', () => {
  test('have a row each', () => {
    assert.deepEqual([...ACTIONS.keys()].toSorted(), Object.keys(ACTION_ROWS).toSorted())
    const others = pages.filter(({ actionsOf }) => actionsOf !== undefined).map(({ path }) => path)
    assert.deepEqual(others, ['/dash/folders/:folder{.+}', RESOURCE_PAGE])
  })

  test('work for operators, within their folder for administrators, and do not exist for strangers', async (t) => {
    // No daemon routes messages or runs turns, so that rows stay as they are made.
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    writeFileSync(dash.host.layout?.env ?? '', '')
    const faults: string[] = []
    for (const [key, row] of Object.entries(ACTION_ROWS))
      await checkRow(dash, key, row).catch((error: unknown) => faults.push(String(error)))
    assert.deepEqual(faults, [])
  })

  test('of the generic page refuse forms without input, and do not exist for strangers', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    const faults: string[] = []
    for (const resource of resources) {
      const { create, update, remove } = shapeOf(resource) ?? {}
      const path = RESOURCE_PAGE.replace(':name', resource.name)
      for (const [action, verb] of Object.entries({ create, update, remove })) {
        if (!verb) continue
        const place = { path, fields: {} }
        const people = verb.input.safeParse({}).success ? {} : { operator: dash.operator, admin: dash.admin }
        for (const [name, as] of Object.entries(people)) {
          const { status, changes } = await attempt(dash, { as, action, place })
          if (status < 400 || status >= 500 || changes > 0)
            faults.push(`${resource.name} ${action} as ${name}: ${status}`)
        }
        const { status, changes, body } = await attempt(dash, { as: dash.stranger, action, place })
        if (status !== 404 || changes > 0) faults.push(`${resource.name} ${action} as a stranger: ${status}`)
        assertNoLeak(body, resource.name)
      }
    }
    assert.deepEqual(faults, [])
  })
})
