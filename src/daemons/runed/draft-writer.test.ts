import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { fakeClock } from '../../../test/support/clock.ts'
import { type ConversationHost, openConversationHost } from '../../../test/support/conversation-host.ts'
import { type EngineName, onEveryEngine } from '../../../test/support/host.ts'
import { until } from '../../../test/support/until.ts'
import { type DraftPiece, isActivity } from '../../core/turns/drafts.ts'
import { readFrames } from '../../core/turns/rounds.ts'
import type { ClaimedTurn } from '../../core/turns/turn-claim.ts'
import { stopTurns } from '../../core/turns/turns.ts'
import { openLog } from '../../lib/log/log.ts'
import { ANSWER_MAX, RunFault } from '../../runtimes/runtime.ts'
import { DraftWriter } from './draft-writer.ts'
import { TurnRunner } from './turn-runner.ts'

type About = Partial<Pick<ClaimedTurn['turn'], 'is_isolated' | 'replies'>>

async function open(t: TestContext, about: About = {}, hasRound = true) {
  const on = await openConversationHost(t, 'sqlite')
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const pieces: DraftPiece[] = []
  on.host.drafts.on((piece) => isActivity(piece) || pieces.push(piece))
  const turn = {
    id: 't',
    fence: 3,
    jid: 'web:main',
    chat_topic: 'news',
    folder: 'main',
    is_isolated: false,
    replies: 0,
  }
  const message = { id: 't', ...(hasRound ? { turn_id: 't' } : {}) }
  const claimed = { turn: { ...turn, ...about }, messages: [{ message }] } as unknown as ClaimedTurn
  const clock = fakeClock(0)
  const writer = new DraftWriter(on.host, claimed, { clock })
  t.after(() => writer.end('dropped'))
  const pass = (ms: number): void => {
    for (let passed = 0; passed < ms; passed += 10) {
      clock.advance(10)
      t.mock.timers.tick(10)
    }
  }
  return { writer, pieces, pass, texts: () => pieces.map(({ from, text, state }) => [from, text, state]) }
}

test('a draft is published with what it answers, at most 50 times a second', async (t) => {
  const { writer, pieces, pass } = await open(t)
  for (let at = 0; at < 50; at++) {
    writer.add(`word ${at} `)
    pass(10)
  }
  pass(20)
  assert.ok(pieces.length >= 24 && pieces.length <= 27, `${pieces.length}`)
  const { text: _, ...about } = pieces[0] ?? assert.fail('nothing was published')
  assert.deepEqual(about, {
    ...{ turn: 't', fence: 3, part: 0, jid: 'web:main', topic: 'news', folder: 'main', rounds: ['t'] },
    ...{ from: 0, state: 'open' },
  })
  assert.match(writer.text, /^word 0 word 1 .* word 49$/)
})

test('the first piece after a pause is published at once, and the next ones together after 20 ms', async (t) => {
  const { writer, pass, texts } = await open(t)
  writer.add('one ')
  assert.deepEqual(texts(), [[0, 'one', 'open']])
  for (const word of ['two ', 'three']) writer.add(word)
  pass(10)
  assert.equal(texts().length, 1)
  pass(10)
  assert.deepEqual(texts().slice(1), [[3, ' two three', 'open']])
  pass(20)
  writer.add(' four')
  assert.deepEqual(texts().slice(2), [[13, ' four', 'open']])
})

test('a piece begins where the one before ended, in code points, and never cuts a character', async (t) => {
  const { writer, pass, texts } = await open(t)
  writer.add('Hi 👍\ud83d')
  pass(20)
  writer.add('\ude00!')
  pass(20)
  assert.deepEqual(texts(), [
    [0, 'Hi 👍', 'open'],
    [4, '😀!', 'open'],
  ])
})

test('a text that begins again is another part, without what was said before', async (t) => {
  const { writer, pieces, pass } = await open(t)
  writer.add('I will look')
  pass(20)
  writer.restart()
  writer.restart()
  pass(20)
  writer.add('Found')
  pass(20)
  assert.deepEqual(
    pieces.map(({ part, from, text }) => [part, from, text]),
    [
      [0, 0, 'I will look'],
      [1, 0, ''],
      [1, 0, 'Found'],
    ],
  )
  assert.equal(writer.text, 'Found')
})

test('a run that begins its text again and again publishes no more than one that writes', async (t) => {
  const { writer, pieces, pass } = await open(t)
  for (let count = 0; count < 10_000; count++) {
    writer.add('x')
    writer.restart()
  }
  // The first at once, and then that it has begun again.
  pass(100)
  assert.equal(pieces.length, 2)
  writer.end('dropped')
  assert.equal(pieces.at(-1)?.state, 'dropped')
})

test('a draft shows a sign of life every second, and its whole text from time to time', async (t) => {
  const { writer, pass, texts } = await open(t)
  writer.add('Hello')
  pass(20)
  pass(3000)
  assert.deepEqual(texts().slice(1), [
    [5, '', 'open'],
    [0, 'Hello', 'open'],
    [5, '', 'open'],
  ])
  writer.add('x'.repeat(100_000))
  pass(20)
  const before = texts().length
  pass(3000)
  for (const [, text] of texts().slice(before)) assert.equal(text, '')
})

test('the end of a draft says whether its message was stored', async (t) => {
  for (const state of ['stored', 'dropped'] as const) {
    const { writer, texts } = await open(t)
    writer.add('Hello')
    writer.complete()
    writer.complete()
    writer.end(state)
    writer.end('dropped')
    writer.add(' again')
    assert.deepEqual(texts(), [
      [0, 'Hello', 'open'],
      [5, '', 'complete'],
      [5, '', state],
    ])
    t.mock.timers.reset()
  }
})

test('the end of a draft that no reader has seen is not published', async (t) => {
  const { writer, pieces } = await open(t)
  writer.add('<think>hm')
  writer.end('dropped')
  assert.deepEqual(pieces, [])
})

test('an isolated task, a turn that has answered and one without a round have no draft', async (t) => {
  for (const [about, hasRound] of [
    [{ is_isolated: true }, true],
    [{ replies: 1 }, true],
    [{}, false],
  ] as const) {
    const { writer, pieces, pass } = await open(t, about, hasRound)
    writer.add('Hello')
    pass(1000)
    writer.complete()
    writer.end('stored')
    assert.deepEqual([pieces, writer.text], [[], ''])
    t.mock.timers.reset()
  }
})

test('a draft ends at the length of the longest answer', async (t) => {
  const { writer } = await open(t)
  writer.add('x'.repeat(ANSWER_MAX))
  writer.add('y')
  assert.equal(writer.text.length, ANSWER_MAX + 1)
  writer.add('z')
  assert.equal(writer.text.length, ANSWER_MAX + 1)
})

async function startRunner(
  t: TestContext,
  on: ConversationHost,
  run: (job: {
    readonly draft?: DraftWriter | undefined
    readonly turn: ClaimedTurn['turn']
    readonly signal: AbortSignal
  }) => Promise<string>,
): Promise<DraftPiece[]> {
  const pieces: DraftPiece[] = []
  on.host.drafts.on((piece) => isActivity(piece) || pieces.push(piece))
  const prepare = async ({ turn }: ClaimedTurn) => ({
    runtime: {
      name: 'test',
      run: async ({ draft, signal }: { draft?: unknown; signal: AbortSignal }) => ({
        result: await run({ draft: draft as DraftWriter, turn, signal }),
      }),
      close: async () => {},
    },
    job: {} as never,
    close: async () => {},
  })
  const runner = new TurnRunner({ host: on.host, log: await openLog({ to: { write: () => true } }), prepare })
  t.after(() => runner.close())
  return pieces
}

onEveryEngine('the draft of a turn', (engine: EngineName) => {
  test('ends as stored with its message, and as dropped if the run fails', async (t) => {
    const on = await openConversationHost(t, engine)
    const pieces = await startRunner(t, on, async ({ draft }) => {
      const published = pieces.length
      draft?.add('The answer')
      if (published === 0) return 'The answer'
      await until(() => pieces.length > published)
      throw new RunFault('terminal', 'no')
    })
    for (const status of ['success', 'failed']) {
      const id = await on.ask('why?')
      on.host.signals.emit()
      await until(async () => (await on.round(id)).status === status)
      await until(() => pieces.at(-1)?.turn === id && /stored|dropped/.test(pieces.at(-1)?.state ?? ''))
    }
    assert.deepEqual(
      pieces.map(({ text, state }) => [text, state]),
      [
        ['The answer', 'open'],
        ['', 'complete'],
        ['', 'stored'],
        ['The answer', 'open'],
        ['', 'dropped'],
      ],
    )
  })

  test('becomes a partial message when the turn is stopped', async (t) => {
    const on = await openConversationHost(t, engine)
    const pieces = await startRunner(t, on, async ({ draft, signal }) => {
      draft?.add('The answer <thin')
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    })
    const id = await on.ask('why?')
    on.host.signals.emit()
    await until(() => pieces.length > 0)
    await on.write((tx) => stopTurns(tx, { id }))
    on.host.signals.emit()
    await until(() => pieces.at(-1)?.state === 'stored')
    const { status, error } = await on.round(id)
    const frames = await on.read((tx) => readFrames(tx, id, 0, 10))
    assert.deepEqual(
      [status, error, frames.map(({ content, partial }) => [content, partial])],
      ['failed', 'stopped', [['The answer', true]]],
    )
    assert.ok(pieces.every(({ state }) => state !== 'dropped'))
  })

  test('ends when the run writes in its chat with a tool', async (t) => {
    const on = await openConversationHost(t, engine)
    const [shown, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const pieces = await startRunner(t, on, async ({ draft, turn }) => {
      draft?.add('I write')
      await shown.promise
      await on.say(turn, 'by tool')
      on.host.signals.emit([turn.jid])
      await over.promise
      draft?.add(' more')
      return 'I write more'
    })
    const id = await on.ask('why?')
    on.host.signals.emit()
    await until(() => pieces.length > 0)
    shown.resolve()
    await until(() => pieces.at(-1)?.state === 'dropped')
    const before = pieces.length
    over.resolve()
    await until(async () => (await on.round(id)).status === 'success')
    assert.deepEqual([pieces.length, await on.frames(id)], [before, ['by tool']])
  })
})
