import assert from 'node:assert/strict'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fakeClock } from '../../../test/support/clock.ts'
import { openConversationHost } from '../../../test/support/conversation-host.ts'
import { isRefusal } from '../../../test/support/host.ts'
import { run } from '../../../test/support/sql.ts'
import { until } from '../../../test/support/until.ts'
import { addMessagesToChats } from '../../core/chats/chat-events.ts'
import { makeChatHome } from '../../core/chats/chat-home.ts'
import { beginTopicRemoval, mustFindConversation } from '../../core/chats/topic-removal.ts'
import { chatDir, groupDirs } from '../../core/layout.ts'
import { visitorPart } from '../../core/links/visitor-chats.ts'
import { messages } from '../../core/messages/messages.ts'
import { clockChecks } from '../../core/messages/retention-clock.ts'
import { turnLogFile } from '../../core/turns/turn-log-files.ts'
import { turns } from '../../core/turns/turns.ts'
import { readSettings, sourceOf } from '../../lib/settings.ts'
import { audit } from '../../registry/audit.ts'
import { RETENTION_SETTINGS } from '../settings.ts'
import { type RetentionOptions, removeExpired, startRetention } from './retention.ts'

const KEEP_MS = 3_600_000
const DAY_MS = 24 * KEEP_MS

async function opened(t: TestContext, changes: Partial<RetentionOptions> = {}) {
  const on = await openConversationHost(t, 'sqlite')
  const layout = on.host.layout ?? assert.fail('it has no files')
  const logged: object[] = []
  const log = { info: (what: object) => void logged.push(what), warn: (what: object) => assert.fail(String(what)) }
  const options = {
    host: on.host,
    layout,
    log,
    keep: { KEEP_MESSAGES: KEEP_MS, KEEP_TURNS: KEEP_MS, KEEP_AUDIT: 0 },
    ...changes,
  }
  const dirs = groupDirs(layout, 'main')
  mkdirSync(dirs.logs, { recursive: true })
  return {
    ...on,
    logged,
    // Only part of the log interface is used.
    options: options as unknown as RetentionOptions,
    /** Adds an ended turn with its log. */
    turn: async () => {
      await on.ask()
      const { turn } = await on.mustClaim()
      const file = turnLogFile(dirs, turn.id, on.clock.now())
      writeFileSync(file, 'said')
      on.clock.advance(DAY_MS)
      await on.end(turn)
      return file
    },
    left: () => on.read(async (tx) => [await messages.count(tx), await turns.count(tx)]),
  }
}

test('old messages and turns are removed with the logs of the runs', async (t) => {
  const on = await opened(t)
  const old = await on.turn()
  on.clock.advance(2 * KEEP_MS)
  const young = await on.turn()
  await removeExpired(on.options, new AbortController().signal, on.clock.now())
  assert.deepEqual(await on.left(), [0, 1])
  assert.deepEqual([existsSync(old), existsSync(young)], [false, true])
  assert.deepEqual(on.logged, [{ messages: 2, turns: 1 }])
})

test('the directories of a visitor\u2019s chat go with its last message', async (t) => {
  const on = await opened(t)
  const [ann, bob] = [`web:main${visitorPart('ann')}`, `web:main${visitorPart('bob')}`]
  const placesOf = (jid: string) => (['chat', 'work'] as const).map((reach) => ({ folder: 'main', jid, reach }))
  const visit = async (jid: string) => {
    await on.ask('hello', { jid })
    await on.end((await on.mustClaim()).turn)
    for (const place of placesOf(jid)) {
      await using home = await makeChatHome(on.options.layout, place)
      await home.replaceFile('note', 'kept', 0o600)
    }
  }
  for (const jid of [ann, bob, 'web:main']) await visit(jid)
  on.clock.advance(2 * KEEP_MS)
  await visit(bob)
  await removeExpired(on.options, new AbortController().signal, on.clock.now())
  const isLeft = (jid: string): boolean[] =>
    placesOf(jid).map((place) => existsSync(join(chatDir(on.options.layout, place), 'note')))
  assert.deepEqual([ann, bob, 'web:main'].map(isLeft), [
    [false, false],
    [true, true],
    [true, true],
  ])
  const { rows } = await on.read((tx) => run(tx, `select name from storage_use where scope = 'chat' order by name`))
  assert.deepEqual(
    rows.map(({ name }) => name),
    ['web:main', bob],
  )
})

test('the remaining rows of a deleted topic are removed, even if messages are kept forever', async (t) => {
  const on = await opened(t, { keep: { KEEP_MESSAGES: 0, KEEP_TURNS: 0, KEEP_AUDIT: 0 } })
  await on.ask('hello', { topic: 'red' })
  await on.end((await on.mustClaim()).turn)
  const chat = { jid: 'web:main', folder: 'main' }
  await on.write(async (tx) => {
    await addMessagesToChats(tx)
    const conversation = await mustFindConversation(tx, chat, 'red')
    await beginTopicRemoval(tx, on.host.engine.dialect, { ...chat, conversation, now: on.clock.now() })
  })
  assert.equal((await on.left())[0], 1)
  await removeExpired(on.options, new AbortController().signal, on.clock.now())
  assert.equal((await on.left())[0], 0)
})

test('audit rows are kept for 400 days unless KEEP_AUDIT says otherwise', async (t) => {
  const KEEP_AUDIT_MS = readSettings(RETENTION_SETTINGS, []).KEEP_AUDIT
  assert.equal(KEEP_AUDIT_MS, 400 * DAY_MS)
  const on = await opened(t, { keep: { KEEP_MESSAGES: 0, KEEP_TURNS: 0, KEEP_AUDIT: KEEP_AUDIT_MS }, stepRows: 2 })
  for (const folder of ['a', 'b', 'c', 'd', 'e']) await on.groups(folder)
  const left = () => on.read((tx) => audit.count(tx))
  const rows = await left()
  assert.ok(rows >= 5)
  on.clock.advance(KEEP_AUDIT_MS)
  await removeExpired(on.options, new AbortController().signal, on.clock.now())
  assert.equal(await left(), rows)
  on.clock.advance(1)
  await removeExpired(on.options, new AbortController().signal, on.clock.now())
  assert.equal(await left(), 0)
  assert.deepEqual(on.logged, [{ audit: rows }])
})

test('runs periodically until it is stopped, and stops between two steps', async (t) => {
  const on = await opened(t, { stepRows: 1, firstMs: 0 })
  for (let at = 0; at < 5; at++) await on.turn()
  on.clock.advance(2 * DAY_MS)
  const { engine } = on.host
  const stopping = new AbortController()
  const transaction = engine.transaction.bind(engine)
  let steps = 0
  engine.transaction = async (work) => {
    if (++steps === 2) stopping.abort()
    return transaction(work)
  }
  await removeExpired(on.options, stopping.signal, on.clock.now())
  assert.deepEqual([steps, await on.left()], [2, [3, 5]])
  await on.write((tx) => clockChecks.append(tx, { wall_ms: on.clock.now(), ran_ms: 0 }))
  const stop = startRetention(on.options)
  t.after(stop)
  await until(async () => (await on.left()).join() === '0,0')
  await stop()
})

test('a clock that jumps ahead removes no row and no log before svc has run for a day', async (t) => {
  const on = await opened(t)
  const warned: unknown[] = []
  const monotonic = fakeClock()
  const start = (): (() => Promise<void>) =>
    startRetention({
      ...on.options,
      monotonic,
      firstMs: 0,
      log: { info: () => {}, warn: (what: unknown) => void warned.push(what) },
    })
  const runs = () => on.read((tx) => clockChecks.count(tx))
  /** One run of a process that starts now. */
  const runOnce = async () => {
    const before = await runs()
    const stop = start()
    await until(async () => (await runs()) > before)
    await stop()
  }
  await on.turn()
  const log = await on.turn()
  on.clock.advance(-DAY_MS)
  await on.write((tx) => clockChecks.append(tx, { wall_ms: on.clock.now(), ran_ms: 0 }))
  await runOnce()
  const kept = await on.left()
  // The clock is wrong while svc runs and when it starts again, and is corrected later.
  on.clock.advance(10 * 365 * DAY_MS)
  await runOnce()
  await runOnce()
  assert.deepEqual([await on.left(), existsSync(log)], [kept, true])
  assert.equal(warned.length, 2)
  on.clock.advance(-10 * 365 * DAY_MS)
  await runOnce()
  assert.deepEqual([await on.left(), warned.length], [kept, 2])
})

test('nothing is removed unless a time is set', async (t) => {
  const on = await opened(t, { keep: { KEEP_MESSAGES: 0, KEEP_TURNS: 0, KEEP_AUDIT: 0 }, firstMs: 0 })
  await on.turn()
  on.clock.advance(1000 * DAY_MS)
  await startRetention(on.options)()
  await removeExpired(on.options, new AbortController().signal, on.clock.now())
  assert.deepEqual(await on.left(), [1, 1])
})

test('the time is 0 (forever) or at least an hour', () => {
  const read = (text?: string) =>
    readSettings(RETENTION_SETTINGS, [sourceOf('.env', new Map(text === undefined ? [] : [['KEEP_TURNS', text]]))])
      .KEEP_TURNS
  assert.deepEqual([undefined, '0', '1h', '8760h'].map(read), [0, 0, KEEP_MS, 8760 * KEEP_MS])
  assert.throws(() => read('59m'), isRefusal('invalid', 'KEEP_TURNS in .env must be 0 (forever) or at least 1h'))
})
