import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { groups } from '../groups/groups.ts'
import { recordInbound } from '../messages/inbound.ts'
import { inbox } from '../messages/inbox.ts'
import { compileRoutes } from '../routing/route-table.ts'
import { conversations } from '../turns/conversations.ts'
import type { TurnRules } from '../turns/turn-rules.ts'
import { type ObservedBatch, readObservedMessages } from './observed-messages.ts'

interface ObservedTest extends TestHost {
  write<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Adds an inbox row and returns its sequence number. */
  add(folder: string, content: string, state?: 'observed' | 'answered'): Promise<number>
  observe(
    folder: string,
    over?: { topic?: string; rules?: Partial<TurnRules>; routes?: object[] },
  ): Promise<ObservedBatch>
}

const RULES = { observeMessages: 3, observeChars: 100 }

async function open(t: TestContext, engine: EngineName): Promise<ObservedTest> {
  const on = await testHost(t, engine)
  await on.groups('main', 'team', 'team/a', 'team/b', 'team/b/deep', 'other')
  const { host, clock } = on
  const writeContext = { dialect: host.engine.dialect, clock, random: host.random }
  const write: ObservedTest['write'] = (work) => host.engine.transaction(work)
  return {
    ...on,
    write,
    add: (folder, content, state = 'observed') =>
      write(async (tx) => {
        const { id, seq } = await recordInbound(tx, writeContext, {
          jid: 'telegram:42',
          sender: 'telegram:7',
          content,
          reach: 'all',
        })
        await inbox.insert(tx, {
          message_seq: seq,
          id,
          jid: 'telegram:42',
          folder,
          topic: '',
          chat_topic: '',
          sender: 'telegram:7',
          verb: 'message',
          state,
          updated_at: timestamp(clock.now()),
        })
        return seq
      }),
    observe: (folder, { topic = '', rules = {}, routes = [] } = {}) => {
      const rows = routes.map((route, id) => ({ id, seq: id, match: '', target: '', ...route }))
      return write((tx) =>
        readObservedMessages(tx, { folder, topic, routes: compileRoutes(rows), rules: { ...RULES, ...rules } }),
      )
    },
  }
}

const texts = ({ rows }: ObservedBatch): string[] => rows.map(({ text }) => text)

onEveryEngine('observed messages', (engine) => {
  test('are those observed for the folder, oldest first', async (t) => {
    const { add, observe } = await open(t, engine)
    await add('team', 'one')
    await add('other', 'not ours')
    await add('team', 'asked', 'answered')
    await add('team', ' \n')
    await add('team', '')
    const last = await add('team', 'two')
    const observed = await observe('team')
    assert.deepEqual(texts(observed), ['one', 'two'])
    assert.equal(observed.seq, last)
  })

  test('are shown once per conversation, including those that did not fit', async (t) => {
    const { add, observe, write } = await open(t, engine)
    for (const each of ['one', 'two', 'three', 'four']) await add('team', each)
    const { seq, ...first } = await observe('team')
    assert.deepEqual(texts({ seq, ...first }), ['two', 'three', 'four'])
    const row = { folder: 'team', topic: '', waiting: 0, observed_seq: seq, updated_at: '2026-01-01T00:00:00.000Z' }
    await write((tx) => conversations.insert(tx, row))
    assert.deepEqual(await observe('team'), { rows: [], seq })
    assert.deepEqual(texts(await observe('team', { topic: 'bills' })), ['two', 'three', 'four'])
    await add('team', 'five')
    assert.deepEqual(texts(await observe('team')), ['five'])
  })

  test('are the newest that fit, counted in characters; a single one is cut', async (t) => {
    const { add, observe } = await open(t, engine)
    await add('team', 'a'.repeat(60))
    await add('team', '😀'.repeat(50))
    await add('team', 'b'.repeat(40))
    assert.deepEqual(texts(await observe('team')), ['😀'.repeat(50), 'b'.repeat(40)])
    assert.deepEqual(texts(await observe('team', { rules: { observeChars: 10 } })), [`${'b'.repeat(9)}…`])
    assert.deepEqual(texts(await observe('team', { rules: { observeChars: 0 } })), [])
    assert.deepEqual(texts(await observe('team', { rules: { observeMessages: 0 } })), [])
  })

  test('fill a window larger than a page', async (t) => {
    const { add, observe } = await open(t, engine)
    for (let at = 0; at < 60; at++) await add('team', String(at))
    const observed = await observe('team', { rules: { observeMessages: 55, observeChars: 1000 } })
    assert.deepEqual(
      texts(observed),
      Array.from({ length: 55 }, (_, at) => String(at + 5)),
    )
  })

  test('use the window of the route, then of the group, then of the instance', async (t) => {
    const { add, observe, write } = await open(t, engine)
    for (const each of ['one', 'two', 'three', 'four']) await add('team', each)
    await write((tx) => groups.update(tx, { folder: 'team' }, { observe_window_messages: 2 }))
    assert.deepEqual(texts(await observe('team')), ['three', 'four'])
    const routes = [{ target: 'team#observe', observe_window_messages: 1 }]
    assert.deepEqual(texts(await observe('team', { routes })), ['four'])
    await write((tx) => groups.update(tx, { folder: 'team' }, { observe_window_messages: 0 }))
    assert.deepEqual(texts(await observe('team')), [])
  })

  test('include those of a sibling while both folders are open', async (t) => {
    const { add, observe, write } = await open(t, engine)
    await add('team/b', 'from b')
    await add('team/b/deep', 'from below b')
    await add('team', 'from the parent')
    await add('other', 'from elsewhere')
    const setOpen = (folder: string, isOpen: boolean) => write((tx) => groups.update(tx, { folder }, { open: isOpen }))
    for (const [a, b, expected] of [
      [true, true, ['from b']],
      [true, false, []],
      [false, true, []],
      [false, false, []],
    ] as const) {
      await setOpen('team/a', a)
      await setOpen('team/b', b)
      assert.deepEqual(texts(await observe('team/a')), expected, `a ${a}, b ${b}`)
    }
    await setOpen('other', true)
    await setOpen('team', true)
    assert.deepEqual(texts(await observe('team')), ['from the parent'])
  })
})
