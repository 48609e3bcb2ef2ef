import assert from 'node:assert/strict'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { countedEngine } from '../../../test/support/counted-engine.ts'
import { isRefusal, testHost } from '../../../test/support/host.ts'
import { openStream } from '../../../test/support/link-host.ts'
import { serveHost } from '../../../test/support/served-host.ts'
import { until } from '../../../test/support/until.ts'
import { createSession } from '../../core/people/sessions.ts'
import { groupsResource } from '../../resources/groups.ts'
import { sessionCookieName } from '../http/session-cookie.ts'
import { LiveUpdates, PAGES_PER_PERSON_MAX } from './live-updates.ts'

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

/** The response of a browser that does not read. */
function openUnread(live: LiveUpdates, seen?: string, person = 'local:ops'): ServerResponse {
  const response = new ServerResponse(new IncomingMessage(new Socket()))
  live.open(response, person, seen)
  return response
}

async function openLive(t: TestContext) {
  t.mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  const { host } = await testHost(t)
  const live = new LiveUpdates(host)
  t.after(() => live.close())
  return { live, change: () => host.signals.emit() }
}

test('a page that shows the current version is not told to reload', async (t) => {
  const { live, change } = await openLive(t)
  const [current, old] = [openUnread(live, live.version), openUnread(live, 'old')]
  assert.ok(current.writableLength < old.writableLength)
  const before = live.version
  change()
  assert.equal(openUnread(live, before).writableLength, old.writableLength)
})

test('pages reload once a second, and less often if more than 50 are open', async (t) => {
  const { live, change } = await openLive(t)
  const pages = Array.from({ length: 75 }, () => openUnread(live, live.version))
  const [page] = pages
  assert.ok(page)
  const isToldAfter = (ms: number): boolean => {
    const before = page.writableLength
    change()
    t.mock.timers.tick(ms - 1)
    assert.equal(page.writableLength, before)
    t.mock.timers.tick(1)
    return page.writableLength > before
  }
  assert.ok(isToldAfter(1500))
  for (const each of pages.slice(1, 30)) each.destroy()
  await setImmediate()
  assert.ok(isToldAfter(1000))
})

test('a person has at most 1000 live pages; one that is closed makes room, and other people are not affected', async (t) => {
  const { live } = await openLive(t)
  const [first] = Array.from({ length: PAGES_PER_PERSON_MAX }, () => openUnread(live))
  const isFull = isRefusal('rate_limited', 'you have 1000 live pages open')
  assert.throws(() => openUnread(live), isFull)
  openUnread(live, undefined, 'local:other')
  first?.destroy()
  await setImmediate()
  openUnread(live)
  assert.throws(() => openUnread(live), isFull)
})

test('a page that was closed before its stream opened is not counted', async (t) => {
  const { live } = await openLive(t)
  const response = new ServerResponse(new IncomingMessage(new Socket()))
  response.destroy()
  await setImmediate()
  for (let n = 0; n < PAGES_PER_PERSON_MAX; n++) live.open(response, 'local:ops', undefined)
  assert.equal(openUnread(live).destroyed, false)
})

test('a browser that does not read is disconnected, and the others when the daemon stops', async (t) => {
  const { live, change } = await openLive(t)
  const unread = openUnread(live)
  let unsent = 0
  while (!unread.destroyed && unsent < 100_000) {
    unsent = unread.writableLength
    change()
    t.mock.timers.tick(1000)
  }
  assert.ok(unsent > 16 * 1024 && unsent < 17 * 1024, String(unsent))
  const other = openUnread(live)
  live.close()
  assert.ok(other.writableEnded)
})

test('an exception in the stream of one page ends it, and the others are told', async (t) => {
  const { host, faults } = await testHost(t)
  const live = new LiveUpdates(host)
  t.after(() => live.close())
  const written: string[] = []
  const [odd, good] = [0, 1].map(() => new ServerResponse(new IncomingMessage(new Socket())))
  if (!odd || !good) return
  live.open(odd, 'github:1', live.version)
  live.open(good, 'github:1', live.version)
  odd.write = () => assert.fail('odd stream')
  good.write = (text: unknown) => written.push(String(text)) > 0
  host.signals.emit()
  await until(() => written.length > 0)
  assert.match(written[0] ?? '', /^id: \d+\nevent: svc:changed/)
  assert.deepEqual([odd.destroyed, good.destroyed], [true, false])
  assert.deepEqual(faults, [{ place: 'stream', message: 'odd stream' }])
})
