import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openConversationHost } from '../../../test/support/conversation-host.ts'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { until } from '../../../test/support/until.ts'
import { type Channel, ChannelError, type DraftState } from '../../core/delivery/channel.ts'
import { sandboxRooms } from '../../core/delivery/sandbox-rooms.ts'
import { groups } from '../../core/groups/groups.ts'
import { decodeContent, messages } from '../../core/messages/messages.ts'
import type { ClaimedTurn } from '../../core/turns/turn-claim.ts'
import { stopTurns, type Turn } from '../../core/turns/turns.ts'
import { openLog } from '../../lib/log/log.ts'
import { RunFault } from '../../runtimes/runtime.ts'
import { ChatDraft } from './chat-draft.ts'
import type { DraftWriter } from './draft-writer.ts'
import { TurnRunner } from './turn-runner.ts'

const TURN = { id: 'turn', jid: 'telegram:group/42', chat_topic: 'news', folder: 'main' } as Turn

async function open(t: TestContext, draft?: (state: DraftState) => Promise<void>) {
  const { host } = await testHost(t, 'sqlite')
  const group = { folder: 'main', name: 'Ada', product: 'assistant', open: true, added_at: '2026-01-01T00:00:00Z' }
  await host.engine.transaction((tx) => groups.insert(tx, group))
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const shown: DraftState[] = []
  const show = async (state: DraftState): Promise<void> => {
    shown.push(state)
    await draft?.(state)
  }
  const channel = { actions: { draft: show } } as Partial<Channel> as Channel
  const chat = new ChatDraft(host, TURN, Promise.resolve(channel))
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 500) {
      t.mock.timers.tick(500)
      for (let turns = 0; turns < 5; turns++) await new Promise(setImmediate)
    }
  }
  await pass(0)
  return { chat, shown, pass, texts: () => shown.map(({ content }) => content) }
}

test('a draft is sent at most once a second, with the newest text and the name of the agent', async (t) => {
  const { chat, shown, pass, texts } = await open(t)
  for (let at = 1; at <= 50; at++) {
    chat.show('word '.repeat(at))
    await pass(100)
  }
  assert.ok(texts().length <= 26 && texts().length >= 2, String(texts().length))
  await pass(2000)
  assert.equal(texts().at(-1), 'word '.repeat(50))
  assert.deepEqual(shown[0], {
    ...{ jid: TURN.jid, key: 'turn', threadId: 'news', isDone: false, agentName: 'Ada' },
    content: texts()[0],
  })
})

test('an answer that takes less than a second has no draft', async (t) => {
  const { chat, pass, texts } = await open(t)
  chat.show('short')
  chat.end(true)
  await pass(5000)
  assert.deepEqual([texts(), chat.isShown], [[], false])
})

test('a platform that hangs has one request, and gets the newest text when it answers', async (t) => {
  const first = Promise.withResolvers<void>()
  const { chat, pass, texts } = await open(t, () => first.promise)
  chat.show('one')
  await pass(1000)
  for (let at = 0; at < 1000; at++) chat.show(`text ${at}`)
  await pass(60_000)
  assert.deepEqual(texts(), ['one'])
  first.resolve()
  await pass(2000)
  assert.deepEqual(texts(), ['one', 'text 999'])
})

test('an error ends the draft, and a limit of the platform pauses it', async (t) => {
  const failing = await open(t, async () => {
    throw new ChannelError('transient', 'teled answers 503')
  })
  failing.chat.show('one')
  await failing.pass(1000)
  failing.chat.show('two')
  await failing.pass(60_000)
  assert.deepEqual(failing.texts(), ['one'])
  failing.chat.end(false)
  await failing.pass(0)
  assert.deepEqual(
    failing.shown.map(({ isDone }) => isDone),
    [false, true],
  )
  t.mock.timers.reset()
  const limited = await open(t, async ({ content }) => {
    if (content === 'one') throw new ChannelError('transient', 'teled answers 429', 30_000)
  })
  limited.chat.show('one')
  await limited.pass(1000)
  limited.chat.show('two')
  await limited.pass(29_000)
  assert.deepEqual(limited.texts(), ['one'])
  await limited.pass(2000)
  assert.deepEqual(limited.texts(), ['one', 'two'])
})

test('a text that begins again stays until there is another, and a long one is cut', async (t) => {
  const { chat, pass, texts } = await open(t)
  chat.show('I will look')
  await pass(1000)
  chat.show('')
  await pass(2000)
  chat.show(`${'😀'.repeat(10_000)}`)
  await pass(2000)
  chat.show(`${'😀'.repeat(10_001)}`)
  await pass(2000)
  assert.deepEqual(texts(), ['I will look', '😀'.repeat(8192)])
})

async function startRunner(t: TestContext, engine: EngineName, run: (on: RunningDraft) => Promise<string>) {
  const on = await openConversationHost(t, engine)
  const jid = 'sandbox:lobby'
  const drafts = async () => {
    const room = await on.read((tx) => sandboxRooms.find(tx, { jid }))
    return Object.values(room?.drafts ?? {}).map(({ content }) => content)
  }
  const prepare = async ({ turn }: ClaimedTurn) => ({
    runtime: {
      name: 'test',
      run: async ({ draft, signal }: { draft?: unknown; signal: AbortSignal }) => ({
        result: await run({ draft: draft as DraftWriter, signal, turn, drafts }),
      }),
      close: async () => {},
    },
    job: {} as never,
    close: async () => {},
  })
  const runner = new TurnRunner({ host: on.host, log: await openLog({ to: { write: () => true } }), prepare })
  t.after(() => runner.close())
  const ask = async (over: object = {}) => {
    const id = await on.ask('why?', { jid, hasRound: false, target_folder: undefined, ...over })
    on.host.signals.emit()
    return id
  }
  const said = async (): Promise<string[]> =>
    (await on.read((tx) => messages.list(tx, { jid, direction: 'out' }))).map(({ content }) => decodeContent(content))
  return { ...on, jid, ask, drafts, said }
}

interface RunningDraft {
  readonly draft: DraftWriter
  readonly signal: AbortSignal
  readonly turn: ClaimedTurn['turn']
  drafts(): Promise<string[]>
}

onEveryEngine('the draft of a turn in a chat of a platform', (engine) => {
  test('is shown without what the filter holds back, and removed if the run fails', async (t) => {
    const on = await startRunner(t, engine, async ({ draft, drafts }) => {
      draft.add('Here it is <think>secret thoughts')
      await until(async () => (await drafts()).length > 0)
      assert.deepEqual(await drafts(), ['Here it is'])
      throw new RunFault('terminal', 'no')
    })
    const id = await on.ask()
    await until(async () => (await on.state(id)).state === 'failed')
    await until(async () => (await on.drafts()).length === 0)
  })

  test('becomes a partial message when the turn is stopped', async (t) => {
    const on = await startRunner(t, engine, async ({ draft, signal, turn, drafts }) => {
      draft.add('The answer <thin')
      await until(async () => (await drafts()).length > 0)
      await on.write((tx) => stopTurns(tx, { id: turn.id }))
      on.host.signals.emit()
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    })
    const id = await on.ask()
    await until(async () => (await on.state(id)).state === 'failed')
    assert.deepEqual((await on.said())[0], 'The answer')
  })

  test('ends when the run writes in its chat with a tool', async (t) => {
    const on = await startRunner(t, engine, async ({ draft, turn, drafts }) => {
      draft.add('I write')
      await until(async () => (await drafts()).length > 0)
      await on.say(turn, 'by tool', { jid: turn.jid })
      on.host.signals.emit([turn.jid])
      await until(async () => (await drafts()).length === 0)
      draft.add(' more')
      return 'I write more'
    })
    const id = await on.ask()
    await until(async () => (await on.state(id)).state === 'answered')
    assert.deepEqual(await on.said(), ['by tool'])
  })
})
