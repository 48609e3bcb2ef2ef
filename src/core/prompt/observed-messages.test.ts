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

interface Opened extends TestHost {
  write<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Something overheard; its number. */
  hear(folder: string, content: string, state?: 'observed' | 'answered'): Promise<number>
  watch(
    folder: string,
    over?: { topic?: string; rules?: Partial<TurnRules>; routes?: object[] },
  ): Promise<ObservedBatch>
}

const RULES = { observeMessages: 3, observeChars: 100 }

async function open(t: TestContext, engine: EngineName): Promise<Opened> {
  const on = await testHost(t, engine)
  await on.groups('main', 'team', 'team/a', 'team/b', 'team/b/deep', 'other')
  const { host, clock } = on
  const speaking = { dialect: host.engine.dialect, clock, random: host.random }
  const write: Opened['write'] = (work) => host.engine.transaction(work)
  return {
    ...on,
    write,
    hear: (folder, content, state = 'observed') =>
      write(async (tx) => {
        const { id, seq } = await recordInbound(tx, speaking, {
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
    watch: (folder, { topic = '', rules = {}, routes = [] } = {}) => {
      const rows = routes.map((route, id) => ({ id, seq: id, match: '', target: '', ...route }))
      return write((tx) =>
        readObservedMessages(tx, { folder, topic, routes: compileRoutes(rows), rules: { ...RULES, ...rules } }),
      )
    },
  }
}

const texts = ({ rows }: ObservedBatch): string[] => rows.map(({ text }) => text)

onEveryEngine('observed', (engine) => {
  test('a folder overhears what is observed for it, oldest first, and nothing else', async (t) => {
    const { hear, watch } = await open(t, engine)
    await hear('team', 'one')
    await hear('other', 'not ours')
    await hear('team', 'asked', 'answered')
    await hear('team', ' \n')
    await hear('team', '')
    const last = await hear('team', 'two')
    const observed = await watch('team')
    assert.deepEqual(texts(observed), ['one', 'two'])
    assert.equal(observed.seq, last)
  })

  test('each conversation is shown it once, also what did not fit', async (t) => {
    const { hear, watch, write } = await open(t, engine)
    for (const each of ['one', 'two', 'three', 'four']) await hear('team', each)
    const { seq, ...first } = await watch('team')
    assert.deepEqual(texts({ seq, ...first }), ['two', 'three', 'four'])
    const row = { folder: 'team', topic: '', waiting: 0, observed_seq: seq, updated_at: '2026-01-01T00:00:00.000Z' }
    await write((tx) => conversations.insert(tx, row))
    assert.deepEqual(await watch('team'), { rows: [], seq })
    assert.deepEqual(texts(await watch('team', { topic: 'bills' })), ['two', 'three', 'four'])
    await hear('team', 'five')
    assert.deepEqual(texts(await watch('team')), ['five'])
  })

  test('the newest are shown as long as they fit, counted in characters, and one alone is cut', async (t) => {
    const { hear, watch } = await open(t, engine)
    await hear('team', 'a'.repeat(60))
    await hear('team', '😀'.repeat(50))
    await hear('team', 'b'.repeat(40))
    assert.deepEqual(texts(await watch('team')), ['😀'.repeat(50), 'b'.repeat(40)])
    assert.deepEqual(texts(await watch('team', { rules: { observeChars: 10 } })), [`${'b'.repeat(9)}…`])
    assert.deepEqual(texts(await watch('team', { rules: { observeChars: 0 } })), [])
    assert.deepEqual(texts(await watch('team', { rules: { observeMessages: 0 } })), [])
  })

  test('a window larger than a page is filled', async (t) => {
    const { hear, watch } = await open(t, engine)
    for (let at = 0; at < 60; at++) await hear('team', String(at))
    const observed = await watch('team', { rules: { observeMessages: 55, observeChars: 1000 } })
    assert.deepEqual(
      texts(observed),
      Array.from({ length: 55 }, (_, at) => String(at + 5)),
    )
  })

  test('the window of a route beats that of the group, and that beats the instance', async (t) => {
    const { hear, watch, write } = await open(t, engine)
    for (const each of ['one', 'two', 'three', 'four']) await hear('team', each)
    await write((tx) => groups.update(tx, { folder: 'team' }, { observe_window_messages: 2 }))
    assert.deepEqual(texts(await watch('team')), ['three', 'four'])
    const routes = [{ target: 'team#observe', observe_window_messages: 1 }]
    assert.deepEqual(texts(await watch('team', { routes })), ['four'])
    await write((tx) => groups.update(tx, { folder: 'team' }, { observe_window_messages: 0 }))
    assert.deepEqual(texts(await watch('team')), [])
  })

  test('siblings overhear each other while both are open', async (t) => {
    const { hear, watch, write } = await open(t, engine)
    await hear('team/b', 'from b')
    await hear('team/b/deep', 'from below b')
    await hear('team', 'from the parent')
    await hear('other', 'from elsewhere')
    const openness = (folder: string, isOpen: boolean) => write((tx) => groups.update(tx, { folder }, { open: isOpen }))
    for (const [a, b, heard] of [
      [true, true, ['from b']],
      [true, false, []],
      [false, true, []],
      [false, false, []],
    ] as const) {
      await openness('team/a', a)
      await openness('team/b', b)
      assert.deepEqual(texts(await watch('team/a')), heard, `a ${a}, b ${b}`)
    }
    await openness('other', true)
    await openness('team', true)
    assert.deepEqual(texts(await watch('team')), ['from the parent'])
  })
})
