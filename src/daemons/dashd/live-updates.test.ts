import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { countedEngine } from '../../../test/support/counted-engine.ts'
import { testHost } from '../../../test/support/host.ts'
import { openStream } from '../../../test/support/link-host.ts'
import { serveHost } from '../../../test/support/served-host.ts'
import { createSession } from '../../core/people/sessions.ts'
import { groupsResource } from '../../resources/groups.ts'
import { sessionCookieName } from '../http/session-cookie.ts'
import { LiveUpdates } from './live-updates.ts'

const PAGES = 20
const DAY_MS = 24 * 3_600_000

/** dashd alone, with open pages of an operator. */
async function openPages(t: TestContext) {
  const counts = { statements: 0, transactions: 0 }
  const on = await testHost(t)
  await on.operator('github:1')
  const host = { ...on.host, engine: countedEngine(on.host.engine, counts) }
  const served = await serveHost(t, { on: { ...on, host }, daemons: ['dashd'] })
  const started = { sub: 'github:1', kind: 'browser', method: 'link', idleMs: DAY_MS, maxMs: DAY_MS } as const
  const { token } = await on.host.engine.transaction((tx) => createSession(tx, on.host, started))
  const Cookie = `${sessionCookieName(on.host)}=${token}`
  const open = () => openStream(t, `${served.url('dashd')}/dash/live`, { Cookie })
  const pages = await Promise.all(Array.from({ length: PAGES }, open))
  // A page that does not say what it shows is told to reload.
  for (const page of pages) assert.equal((await page.count(1))[0]?.event, 'svc:changed')
  return { on, counts, pages }
}

test('a page of an earlier process is told to reload', async (t) => {
  const { host } = await testHost(t)
  const [before, after] = [new LiveUpdates(host), new LiveUpdates(host)]
  for (const live of [before, after]) t.after(() => live.close())
  assert.notEqual(before.version, after.version)
})

test('nothing is read while nothing changes, however long pages are open', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const { counts, pages } = await openPages(t)
  const before = { ...counts }
  for (let minute = 0; minute < 4; minute++) t.mock.timers.tick(15_000)
  for (const page of pages) await page.count(5)
  assert.deepEqual(counts, before)
  for (const { events } of pages)
    assert.deepEqual(
      events.map(({ event }) => event),
      ['svc:changed', ...Array(4).fill('svc:alive')],
    )
})

test('many changes tell an open page to reload once a second at most, and are not read for it', async (t) => {
  const { on, counts, pages } = await openPages(t)
  const { statements } = counts
  const started = performance.now()
  for (let n = 0; n < 50; n++) await on.cli.call(groupsResource.verbs.add, { folder: `g${n}` })
  for (const page of pages) await page.count(2)
  const reloadsMax = 1 + Math.ceil((performance.now() - started) / 1000)
  for (const { events } of pages) assert.ok(events.length <= reloadsMax, `${events.length} of ${reloadsMax}`)
  assert.equal(counts.statements, statements)
})
