import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type ConversationHost, openConversationHost } from '../../../test/support/conversation-host.ts'
import { fakeChannel, withChannel } from '../../../test/support/fake-channel.ts'
import { type EngineName, freshStore, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { run as runSql } from '../../../test/support/sql.ts'
import { until } from '../../../test/support/until.ts'
import type { TypingState } from '../../core/delivery/channel.ts'
import { outbox } from '../../core/delivery/outbox.ts'
import { sandboxRooms } from '../../core/delivery/sandbox-rooms.ts'
import { groups } from '../../core/groups/groups.ts'
import { decodeContent, messages } from '../../core/messages/messages.ts'
import { secrets } from '../../core/secrets/secrets.ts'
import { conversations } from '../../core/turns/conversations.ts'
import { costLog } from '../../core/turns/costs.ts'
import { type ClaimedTurn, checkClaimable, type WorkspaceAvailability } from '../../core/turns/turn-claim.ts'
import { FAILURE_MESSAGES } from '../../core/turns/turn-failures.ts'
import { stopTurns, type Turn, turns } from '../../core/turns/turns.ts'
import { FAULTS } from '../../lib/fault-boundary.ts'
import { openLog } from '../../lib/log/log.ts'
import { Refusal, TransientRefusal } from '../../lib/refusal.ts'
import { type AgentRunResult, type Job, RunFault } from '../../runtimes/runtime.ts'
import { TurnRunner } from './turn-runner.ts'

const LEASE_MS = 10_000

interface Run extends Job {
  readonly turn: Turn
  readonly text: string
}

interface Running extends ConversationHost {
  /** A runner with this runtime; closed after the test at the latest. */
  start(
    run: (job: Run) => Promise<AgentRunResult>,
    settingsMark?: () => Promise<string>,
    workspaces?: WorkspaceAvailability,
  ): Promise<TurnRunner>
  /** Advances the clock past the retries until the round ends. */
  passing(id: string): Promise<void>
  ended(id: string): Promise<{ status: string; error?: string | undefined; said: string[]; state: string }>
  logged: string[]
  /** Whether tool calls of the run met an unavailable store. */
  outage: { is: boolean }
}

async function open(t: TestContext, engine: EngineName, on?: TestHost): Promise<Running> {
  const here = await openConversationHost(t, engine, on)
  const { host } = here
  const logged: string[] = []
  const outage = { is: false }
  return {
    ...here,
    logged,
    outage,
    ask: async (...asked) => {
      const id = await here.ask(...asked)
      host.signals.emit()
      return id
    },
    start: async (run, settingsMark = async () => '', workspaces) => {
      const log = await openLog({ to: { write: (line) => logged.push(line) } })
      const prepare = async ({ turn, messages: asked }: ClaimedTurn) => {
        const text = asked.map(({ message }) => decodeContent(message.content)).join('\n')
        const job = { ...jobOf(turn), turn, text }
        const runtime = { name: 'test', run: (told: Job) => run({ ...job, ...told }), close: async () => {} }
        return { runtime, job, hadOutage: () => outage.is, close: async () => {} }
      }
      const options = { host, log, prepare, settingsMark, leaseMs: LEASE_MS }
      const runner = new TurnRunner(workspaces ? { ...options, workspaces } : options)
      let closed: Promise<void> | undefined
      const close = runner.close.bind(runner)
      runner.close = () => (closed ??= close())
      t.after(() => runner.close())
      return runner
    },
    passing: (id) =>
      until(async () => {
        const turn = await here.read((tx) => turns.find(tx, { id }))
        // Not while it runs: that would expire its lease.
        if (turn?.state === 'retrying') here.clock.advance(5000)
        host.signals.emit()
        return (await here.round(id)).status !== 'pending'
      }),
    ended: async (id) => {
      await until(async () => (await here.round(id)).status !== 'pending')
      const { status, error } = await here.round(id)
      return { status, error, said: await here.frames(id), state: (await here.state(id)).state }
    },
  }
}

function jobOf(turn: Turn): Omit<Job, 'signal'> {
  const { id, fence, folder, topic, jid, sender } = turn
  const place = { socket: '', home: '', logFile: '', prompt: '', messages: [], env: {} }
  const files = { openHome: () => assert.fail('it has no files'), readText: () => undefined }
  return {
    turnId: id,
    fence,
    folder,
    topic,
    jid,
    sender,
    sentCount: turn.replies,
    deadline: 0,
    hangMs: 0,
    ...place,
    ...files,
  }
}

test('in one process a turn is claimed in the commit that routes its message', async (t) => {
  const { ask, start, ended, state, host } = await open(t, 'sqlite')
  await start(async () => ({ result: 'ok' }))
  await ended(await ask('first'))
  const asking = ask('second')
  host.preCommitSignals.emit([], ['turns'])
  const id = await asking
  assert.notEqual((await state(id)).state, 'waiting')
  assert.deepEqual((await ended(id)).said, ['ok'])
})

test('one announcement has all waiting turns claimed, without a poll', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const on = await testHost(t)
  const { ask } = await openConversationHost(t, 'sqlite', on)
  const { start, host } = await open(t, 'sqlite', on)
  const [started, both] = [new Set<string>(), Promise.withResolvers<void>()]
  await start(async ({ turn }) => {
    if (started.add(turn.topic).size === 2) both.resolve()
    await both.promise
    return { result: 'ok' }
  })
  await Promise.all(['one', 'two'].map((topic) => ask('why?', { topic })))
  host.preCommitSignals.emit([], ['turns'])
  await both.promise
})

onEveryEngine('the runner', (engine) => {
  test('answers each message and ends its round', async (t) => {
    const { ask, start, ended, say } = await open(t, engine)
    const before = await ask('before it runs')
    await start(async ({ turn, text }) => {
      assert.deepEqual([turn.folder, turn.jid], ['main', 'web:main'])
      await say(turn, 'hm', { kind: 'status' })
      return { result: text, sessionId: 's' }
    })
    assert.deepEqual(await ended(before), {
      status: 'success',
      error: undefined,
      said: ['hm', 'before it runs'],
      state: 'answered',
    })
    const after = await ask('while it runs')
    assert.deepEqual((await ended(after)).said, ['hm', 'while it runs'])
  })

  test('a run without output is silent, and so is one with only internal output', async (t) => {
    const on = await open(t, engine)
    await on.start(async ({ text }) => ({ result: text === 'filler' ? '<think>hm</think>' : undefined }))
    for (const text of ['nothing', 'filler']) {
      const { status, said, state } = await on.ended(await on.ask(text))
      assert.deepEqual([status, said, state], ['success', [], 'silent'], text)
    }
  })

  test('a failure is retried, then the round fails; only operators see the cause', async (t) => {
    const on = await open(t, engine)
    const runs: string[] = []
    await on.start(async ({ text }) => {
      runs.push(text)
      if (text === 'fault') throw new RunFault('retryable', 'the model is asleep')
      // A statement of the store that fails for a reason that svc does not know.
      if (text === 'statement') await on.read((tx) => runSql(tx, 'select secret from nowhere'))
      throw new Error('secret of the code')
    })
    for (const [text, cause] of [
      ['statement', 'internal error; see the log'],
      ['fault', 'the model is asleep'],
      ['bug', 'internal error: secret of the code'],
    ] as const) {
      const id = await on.ask(text)
      await on.passing(id)
      const end = await on.ended(id)
      assert.deepEqual([end.status, end.error, end.state], ['failed', FAILURE_MESSAGES.failed, 'failed'])
      assert.equal((await on.state(id)).reason, cause)
      assert.equal(runs.filter((run) => run === text).length, 3)
    }
    assert.ok(on.logged.join('').includes('secret of the code'))
  })

  test('a run that cannot start is not retried, and the platform chat gets a notice', async (t) => {
    const on = await open(t, engine)
    let runs = 0
    await on.start(async () => {
      runs++
      throw new RunFault('terminal', 'program not found')
    })
    const id = await on.ask('hi', { jid: 'sandbox:a', hasRound: false, target_folder: undefined })
    await until(async () => (await on.state(id)).state === 'failed')
    assert.equal(runs, 1)
    const [notice] = await on.read((tx) => outbox.list(tx))
    assert.equal(notice?.jid, 'sandbox:a')
    const message = await on.read((tx) => messages.find(tx, { seq: notice?.message_seq ?? 0 }))
    assert.equal(decodeContent(message?.content ?? new Uint8Array()), 'The agent cannot answer at the moment.')
    const turn = await on.read((tx) => turns.find(tx, { id }))
    assert.equal(turn?.reason, 'program not found')
  })

  test('shows a typing indicator in a platform chat while the turn runs', async (t) => {
    const on = await open(t, engine)
    const isTyping = async () => (await on.read((tx) => sandboxRooms.find(tx, { jid: 'sandbox:a' })))?.is_typing
    await on.start(async () => {
      await until(async () => (await isTyping()) === true)
      return { result: 'yes' }
    })
    const id = await on.ask('hi', { jid: 'sandbox:a', hasRound: false, target_folder: undefined })
    await until(async () => (await on.state(id)).state === 'answered')
    await until(async () => (await isTyping()) === false)
  })

  test('shows typing in the topic that a turn works in, for two topics of a chat at once', async (t) => {
    const here = await testHost(t, engine)
    const shown: string[] = []
    const typing = async ({ threadId, on }: TypingState): Promise<void> => {
      shown.push(`${threadId} ${on ? 'on' : 'off'}`)
    }
    const channels = withChannel(here.host.channels, { ...fakeChannel(), actions: { typing } })
    const on = await open(t, engine, { ...here, host: { ...here.host, channels } })
    const news = Promise.withResolvers<void>()
    await on.start(async ({ text }) => {
      if (text === 'news') await news.promise
      return { result: 'yes' }
    })
    const ask = (topic: string | undefined, content: string) =>
      on.ask(content, { jid: 'fake:a', topic, hasRound: false, target_folder: undefined })
    await ask('news', 'news')
    await until(async () => shown.length === 1)
    await ask('help', 'help')
    await until(async () => shown.length === 3)
    assert.deepEqual(shown, ['news on', 'help on', 'help off'])
    news.resolve()
    await until(async () => shown.length === 4)
    await ask(undefined, 'main')
    await until(async () => shown.length === 6)
    assert.deepEqual(shown.slice(3), ['news off', 'undefined on', 'undefined off'])
  })

  test('a slow platform does not keep the typing indicator', async (t) => {
    const here = await testHost(t, engine)
    const [over, hidden] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const shown: boolean[] = []
    const typing = async ({ on }: { on: boolean }): Promise<void> => {
      if (on) await over.promise
      shown.push(on)
      if (!on) hidden.resolve()
    }
    const slow = { ...fakeChannel(), actions: { typing } }
    const host = { ...here.host, channels: withChannel(here.host.channels, slow) }
    const on = await open(t, engine, { ...here, host })
    await on.start(async () => ({ result: 'yes' }))
    const id = await on.ask('hi', { jid: 'fake:a', hasRound: false, target_folder: undefined })
    await until(async () => (await on.state(id)).state === 'answered')
    over.resolve()
    await hidden.promise
    await new Promise(setImmediate)
    assert.deepEqual(shown, [true, false])
  })

  test('a lost session is replaced by a new one, with a note', async (t) => {
    const on = await open(t, engine)
    const notes: (string | undefined)[] = []
    await on.start(async ({ turn }) => {
      const conversation = await on.read((tx) => conversations.find(tx, { folder: 'main', topic: '' }))
      notes.push(conversation?.note)
      if (turn.attempts === 1) throw new RunFault('session', 'no such session')
      return { result: 'fresh' }
    })
    const id = await on.ask()
    await until(async () => {
      on.host.signals.emit()
      return (await on.round(id)).status !== 'pending'
    })
    assert.deepEqual((await on.ended(id)).said, ['fresh'])
    assert.equal(notes[0], undefined)
    assert.equal(notes[1], 'The previous session could not be resumed; this is a new one.')
  })

  test('a fault of the host costs no attempt, and the pause doubles up to five minutes, also across restarts', async (t) => {
    const on = await open(t, engine)
    const full = Object.assign(new Error('write: no space left on device'), { code: 'ENOSPC' })
    const faults = [
      new RunFault('unavailable', 'its cell could not be set up: hand over: Too many references'),
      new Refusal('unavailable', 'cannot write /x: the disk is full'),
      new TransientRefusal('the store does not answer'),
      full,
    ]
    let runs = 0
    const run = async () => {
      if (++runs <= 10) throw faults[(runs - 1) % faults.length]
      return { result: 'now' }
    }
    let runner = await on.start(run)
    const id = await on.ask()
    const turn = () => on.read((tx) => turns.find(tx, { id }))
    const isClaimable = (now: number) => on.read(async (tx) => checkClaimable(tx, { now, leaseMs: LEASE_MS }))
    const pauses: number[] = []
    for (let at = 0; at < 10; at++) {
      await until(async () => {
        const { postponed, state } = (await turn()) ?? {}
        return postponed === at + 1 && state === 'retrying'
      })
      const { run_after = 0, attempts, reason } = (await turn()) ?? {}
      const fault = faults[at % faults.length]
      assert.deepEqual([attempts, reason], [0, fault?.message])
      pauses.push(run_after - on.clock.now())
      if (at === 6) {
        await runner.close()
        runner = await on.start(run)
      }
      // A time further ahead than the longest pause means that the clock was set back.
      for (const [now, expected] of [
        [run_after - 300_001, true],
        [run_after - 300_000, false],
        [run_after - 1, false],
        [run_after, true],
      ] as const)
        assert.equal((await isClaimable(now)).hasClaimable, expected)
      on.clock.advance(run_after - on.clock.now())
      on.host.signals.emit()
    }
    assert.deepEqual(
      pauses,
      [2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map((seconds) => seconds * 1000),
    )
    const end = await on.ended(id)
    assert.deepEqual([end.status, end.said, runs], ['success', ['now'], 11])
    assert.ok(on.logged.some((line) => line.includes('turn cannot run yet') && line.includes('Too many references')))
    assert.ok(!on.logged.some((line) => line.includes('internal error')))
  })

  test('a failure of the agent counts after a fault of the host, whose pause starts anew', async (t) => {
    const on = await open(t, engine)
    const kinds = ['unavailable', 'retryable', 'unavailable', 'retryable', 'unavailable', 'retryable'] as const
    const seen: unknown[] = []
    await on.start(async ({ turn }) => {
      const kind = kinds[seen.length] ?? assert.fail('it ran too often')
      seen.push([turn.attempts, turn.postponed])
      throw new RunFault(kind, kind)
    })
    const id = await on.ask()
    await on.passing(id)
    assert.deepEqual((await on.ended(id)).status, 'failed')
    assert.deepEqual(seen, [
      [1, undefined],
      [1, 1],
      [2, undefined],
      [2, 1],
      [3, undefined],
      [3, 1],
    ])
  })

  test('a turn whose process died is run again with its attempts left; after twenty deaths it fails', async (t) => {
    const on = await open(t, engine)
    const [lost, deadly] = [await on.ask('lost', { topic: 'a' }), await on.ask('deadly', { topic: 'b' })]
    await on.mustClaim()
    await on.mustClaim()
    for (const [id, deaths] of [
      [lost, 19],
      [deadly, 20],
    ] as const)
      await on.write((tx) => turns.update(tx, { id }, { deaths, leased_until: 0 }))
    let runs = 0
    await on.start(async ({ text }) => {
      assert.equal(text, 'lost')
      if (++runs < 3) throw new RunFault('retryable', 'the model is asleep')
      return { result: 'here I am' }
    })
    await on.passing(lost)
    assert.deepEqual((await on.ended(lost)).said, ['here I am'])
    const { status, error, said } = await on.ended(deadly)
    assert.deepEqual([status, error, said], ['failed', FAILURE_MESSAGES.failed, []])
    assert.match((await on.state(deadly)).reason ?? '', /ended 20 times/)
  })

  test('a folder without its workspace waits, also when it vanishes during a turn, and continues when it is back', async (t) => {
    const here = new Set<string>()
    const workspaces = {
      has: (folder: string) => here.has(folder),
      missing: () => ['main', 'team'].filter((folder) => !here.has(folder)),
    }
    const on = await open(t, engine)
    let runs = 0
    await on.start(
      async ({ turn }) => {
        if (turn.folder === 'other') return { result: 'other' }
        if (++runs === 2) return { result: 'here' }
        here.delete('main')
        return assert.fail('there are no files')
      },
      undefined,
      workspaces,
    )
    here.add('other')
    const id = await on.ask()
    const others = async () => on.ended(await on.ask('x', { folder: 'other' }))
    await others()
    // On PostgreSQL another machine may have it.
    const reason = engine === 'sqlite' ? 'the directory of its folder is missing' : undefined
    const isExplained = async (message: string) => (await on.state(message)).reason === reason
    await until(() => isExplained(id))
    assert.equal((await on.state(id)).state, 'waiting')
    for (const text of ['first', 'second']) {
      const other = await on.ask(text, { folder: 'team' })
      await until(() => isExplained(other))
    }
    here.add('main')
    on.host.signals.emit()
    await until(async () => (await on.read((tx) => turns.find(tx, { id })))?.state === 'retrying')
    assert.deepEqual([(await on.state(id)).state, (await on.state(id)).reason], ['running', undefined])
    on.clock.advance(60_000)
    await others()
    assert.deepEqual([(await on.turn(id)).state, runs], ['retrying', 1])
    here.add('main')
    on.host.signals.emit()
    assert.deepEqual([(await on.ended(id)).said, (await on.turn(id)).attempts], [['here'], 1])
  })

  test('an outage of the store does not count as an attempt', async (t) => {
    const on = await open(t, engine)
    let runs = 0
    const faults = [new TransientRefusal('the store is busy'), new RunFault('retryable', 'exit code 1')]
    await on.start(async () => {
      const fault = faults[runs++ % 2]
      on.outage.is = fault instanceof RunFault
      if (fault && runs < 6) throw fault
      return { result: 'now' }
    })
    const id = await on.ask()
    await on.passing(id)
    assert.deepEqual([(await on.ended(id)).said, runs, (await on.turn(id)).attempts], [['now'], 6, 1])
  })

  test('a run continues when the clock is set forward by more than its lease', async (t) => {
    const on = await open(t, engine)
    const [began, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let runs = 0
    await on.start(async ({ signal }) => {
      runs++
      began.resolve()
      await release.promise
      signal.throwIfAborted()
      return { result: 'once' }
    })
    const id = await on.ask()
    await began.promise
    on.clock.advance(600_000)
    const other = on.ask('meanwhile', { folder: 'other' })
    await until(async () => (await on.state(await other)).state === 'running')
    release.resolve()
    assert.deepEqual((await on.ended(id)).said, ['once'])
    await on.ended(await other)
    assert.deepEqual([runs, (await on.turn(id)).fence], [2, 1])
  })

  test('a submitted run is not repeated when its end was not recorded', async (t) => {
    const on = await open(t, engine)
    const id = await on.ask()
    const { turn } = await on.mustClaim()
    await on.submit('main', { turn_id: id, fence: turn.fence, result: 'done' })
    on.clock.advance(LEASE_MS + 1)
    let runs = 0
    await on.start(async () => {
      runs++
      return {}
    })
    const end = await on.ended(id)
    assert.deepEqual([end.status, end.said, runs], ['success', ['done'], 0])
  })

  test('a short outage of the store does not prevent the end of a turn', async (t) => {
    const on = await open(t, engine)
    const { transaction } = on.host.engine
    t.after(() => Object.assign(on.host.engine, { transaction }))
    await on.start(async () => {
      let left = 3
      Object.assign(on.host.engine, {
        transaction: async (work: Parameters<typeof transaction>[0]) => {
          if (left-- > 0 && left !== 2) throw new TransientRefusal('the store is busy')
          return transaction.call(on.host.engine, work)
        },
      })
      return { result: 'said' }
    })
    const end = await on.ended(await on.ask())
    assert.deepEqual([end.status, end.said], ['success', ['said']])
  })

  test('a shutdown aborts the run, and the next process runs it again, once', async (t) => {
    const on = await open(t, engine)
    const id = await on.ask()
    const began = Promise.withResolvers<void>()
    const first = await on.start(async ({ turn, signal }) => {
      await on.say(turn, 'one')
      began.resolve()
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    })
    await began.promise
    await first.close()
    const { state, attempts } = await on.turn(id)
    assert.deepEqual([state, attempts], ['retrying', 0])
    await on.start(async ({ turn, sentCount }) => {
      assert.equal(sentCount, 1)
      await on.say(turn, 'two')
      return {}
    })
    assert.deepEqual((await on.ended(id)).said, ['one', 'two'])
  })

  test('the stop command stops it', async (t) => {
    const on = await open(t, engine)
    const began = Promise.withResolvers<void>()
    await on.start(async ({ signal }) => {
      began.resolve()
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    })
    const id = await on.ask()
    await began.promise
    await on.write((tx) => stopTurns(tx, { folder: 'main' }))
    on.host.signals.emit()
    const { status, error } = await on.ended(id)
    assert.deepEqual([status, error], ['failed', 'stopped'])
  })

  test('the stop command ends one that waits for its next try, without another run', async (t) => {
    const on = await open(t, engine)
    let runs = 0
    await on.start(async () => {
      runs++
      throw new RunFault('unavailable', 'the host has no room')
    })
    const id = await on.ask()
    await until(async () => (await on.read((tx) => turns.find(tx, { id })))?.state === 'retrying')
    assert.equal(await on.write((tx) => stopTurns(tx, { folder: 'main' })), 1)
    on.host.signals.emit([], ['turns'])
    const { status, error } = await on.ended(id)
    assert.deepEqual([status, error, runs], ['failed', 'stopped', 1])
  })

  test('a run that lost its turn to another process records nothing', async (t) => {
    const on = await open(t, engine)
    const id = await on.ask()
    const [began, taken, tried] = [
      Promise.withResolvers<void>(),
      Promise.withResolvers<void>(),
      Promise.withResolvers<string>(),
    ]
    const runner = await on.start(async ({ turnId, fence }) => {
      began.resolve()
      await taken.promise
      await on.submit('main', { turn_id: turnId, fence, result: 'late' }).then(
        () => tried.resolve('said'),
        (error) => tried.resolve(error instanceof Refusal ? error.code : 'bug'),
      )
      return { result: 'late' }
    })
    await began.promise
    // As if another process had claimed it.
    const leased_until = on.clock.now() + LEASE_MS
    await on.write((tx) => turns.update(tx, { id }, { fence: 2, leased_until }))
    taken.resolve()
    assert.equal(await tried.promise, 'conflict')
    await runner.close()
    assert.equal((await on.round(id)).status, 'pending')
    on.clock.advance(LEASE_MS + 1)
    await on.start(async () => ({ result: 'mine' }))
    assert.deepEqual((await on.ended(id)).said, ['mine'])
  })

  test('an exhausted budget refuses the turn with a notice', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    await on.write((tx) => groups.update(tx, { folder: 'main' }, { cost_cap_cents_per_day: 1 }))
    await on.start(async ({ onUsage }) => {
      onUsage?.([{ model: 'm', input: 0, output: 0, cents: 1.1 }])
      return { result: 'ok' }
    })
    assert.equal((await on.ended(await on.ask('first'))).status, 'success')
    const { status, error, state } = await on.ended(await on.ask('second'))
    assert.deepEqual([status, state], ['failed', 'refused'])
    const day = new Date(on.clock.now() + 86_400_000).toISOString().slice(0, 10)
    assert.equal(error, `the agent is paused until ${day} 00:00 UTC`)
  })

  test('the costs of all attempts are added up in fractions of a cent and rounded up once', async (t) => {
    const on = await open(t, engine)
    await on.start(async ({ turn, onUsage }) => {
      onUsage?.([{ model: 'm', input: 7, output: 1, cents: 0.1 }])
      onUsage?.([{ model: 'm', input: 10, output: 3, cents: 0.4 }])
      if (turn.attempts < 3) throw new RunFault('retryable', 'it broke')
      return { result: 'ok' }
    })
    const id = await on.ask()
    await on.passing(id)
    const costs = await on.read((tx) => costLog.list(tx))
    assert.deepEqual(
      costs.map(({ turn_id, input_tokens, output_tokens, cost_cents, microcents }) => [
        ...[turn_id, input_tokens, output_tokens, cost_cents, microcents],
      ]),
      [[id, 30, 9, 2, 1_200_000]],
    )
  })

  test('a stopped turn has cost what it had used', async (t) => {
    const on = await open(t, engine)
    const started = Promise.withResolvers<void>()
    await on.start(async ({ signal, onUsage }) => {
      onUsage?.([{ model: 'm', input: 1, output: 1, cents: 2.5 }])
      started.resolve()
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      return {}
    })
    const id = await on.ask()
    await started.promise
    await on.write((tx) => stopTurns(tx, { id }))
    on.host.signals.emit()
    assert.equal((await on.ended(id)).status, 'failed')
    assert.deepEqual(
      (await on.read((tx) => costLog.list(tx))).map(({ cost_cents }) => cost_cents),
      [3],
    )
  })

  test('a renewal of the lease writes what the turn has cost so far', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    const on = await open(t, engine)
    const [started, done] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    await on.start(async ({ onUsage }) => {
      onUsage?.([{ model: 'm', input: 1, output: 1, cents: 3 }])
      started.resolve()
      await done.promise
      onUsage?.([{ model: 'm', input: 1, output: 1, cents: 3.2 }])
      return { result: 'ok' }
    })
    const id = await on.ask()
    await started.promise
    const cents = async (): Promise<number[]> =>
      (await on.read((tx) => costLog.list(tx))).map(({ cost_cents }) => cost_cents)
    assert.deepEqual(await cents(), [])
    t.mock.timers.tick(LEASE_MS / 3 + 1)
    await until(async () => (await cents()).length > 0)
    assert.deepEqual(await cents(), [3])
    done.resolve()
    await on.ended(id)
    assert.deepEqual(await cents(), [4])
  })

  test('two runners on one store run each turn once, and never two of one conversation', async (t) => {
    const store = await freshStore(t, engine)
    const on = await testHost(t, engine, store)
    const also = await testHost(t, engine, store)
    also.host.random.bytes(777)
    const [one, other] = [await open(t, engine, on), await open(t, engine, also)]
    const runs: string[] = []
    const inside = new Set<string>()
    const run = async ({ turn, text }: Run): Promise<AgentRunResult> => {
      const place = `${turn.folder} ${turn.topic}`
      assert.ok(!inside.has(place), 'two at once')
      inside.add(place)
      runs.push(...text.split('\n'))
      await new Promise(setImmediate)
      inside.delete(place)
      return { result: 'x' }
    }
    await Promise.all([one.start(run), other.start(run)])
    const ids = await Promise.all(
      Array.from({ length: 10 }, (_, at) => (at % 2 ? one : other).ask(`${at}`, { folder: `f${at % 3}` })),
    )
    for (const id of ids) assert.equal((await one.ended(id)).status, 'success')
    assert.deepEqual([...runs].sort(), ids.map((_, at) => `${at}`).sort())
  })
})

onEveryEngine('a folder whose turns have failed three times in a row', (engine) => {
  async function broken(t: TestContext) {
    const on = await open(t, engine)
    await on.groups('main', 'team', 'team/sub')
    const agent = { fault: 'no such key' as string | undefined, settings: 'one', runs: 0 }
    await on.start(
      async ({ turn }) => {
        if (turn.folder === 'team/sub') agent.runs++
        if (agent.fault !== undefined && turn.folder === 'team/sub') throw new RunFault('terminal', agent.fault)
        return { result: 'well' }
      },
      async () => agent.settings,
    )
    const ask = (folder = 'team/sub') => on.ask('hello', { folder })
    for (let count = 0; count < 3; count++) assert.equal((await on.ended(await ask())).status, 'failed')
    assert.equal(agent.runs, 3)
    return { ...on, agent, ask, waiting: await ask() }
  }
  /** Waits until another folder is answered, after two checks of this one. */
  async function mustWait(on: Awaited<ReturnType<typeof broken>>, id: string): Promise<void> {
    for (let count = 0; count < 2; count++) assert.equal((await on.ended(await on.ask('main'))).status, 'success')
    assert.equal((await on.state(id)).state, 'waiting')
  }
  const secret = (owner: string, key: string) => ({
    scope_kind: 'folder' as const,
    owner,
    key,
    value: Buffer.from('sealed bytes'),
    created_at: '2026-01-01T00:00:00.000Z',
  })

  test('is paused for a minute; its messages are answered after that', async (t) => {
    const on = await broken(t)
    const later = await on.ask()
    on.clock.advance(59_999)
    await mustWait(on, on.waiting)
    on.agent.fault = undefined
    on.clock.advance(1)
    on.host.signals.emit()
    for (const id of [on.waiting, later]) assert.deepEqual((await on.ended(id)).said, ['well'])
    assert.equal(on.agent.runs, 4)
  })

  test('is paused again when the next turn fails, and not for longer when the clock is set back', async (t) => {
    const on = await broken(t)
    on.clock.advance(60_000)
    on.host.signals.emit()
    assert.equal((await on.ended(on.waiting)).status, 'failed')
    const next = await on.ask()
    await mustWait(on, next)
    on.agent.fault = undefined
    on.clock.advance(-600_000)
    on.host.signals.emit()
    assert.deepEqual((await on.ended(next)).said, ['well'])
  })

  const MENDS: Record<string, (on: Awaited<ReturnType<typeof broken>>) => Promise<unknown>> = {
    'its config': (on) => on.write((tx) => groups.update(tx, { folder: 'team/sub' }, { config: '{"model":"x"}' })),
    'a secret of the folder above': (on) => on.write((tx) => secrets.insert(tx, secret('team', 'OPENAI_API_KEY'))),
    'the settings of the instance': async (on) => {
      on.agent.settings = 'two'
    },
  }
  for (const [what, mend] of Object.entries(MENDS))
    test(`is retried soon when ${what} changed`, async (t) => {
      const on = await broken(t)
      on.agent.fault = undefined
      await mend(on)
      assert.deepEqual((await on.ended(on.waiting)).said, ['well'])
    })

  test('stays paused when another folder changed, and fails three more times with a changed config', async (t) => {
    const on = await broken(t)
    await on.write((tx) => secrets.insert(tx, secret('main', 'OPENAI_API_KEY')))
    await on.write((tx) => groups.update(tx, { folder: 'team' }, { config: '{"model":"x"}' }))
    await mustWait(on, on.waiting)
    await on.write((tx) => groups.update(tx, { folder: 'team/sub' }, { config: '{"model":"x"}' }))
    assert.equal((await on.ended(on.waiting)).status, 'failed')
    for (let count = 0; count < 2; count++) assert.equal((await on.ended(await on.ask())).status, 'failed')
    assert.equal(on.agent.runs, 6)
    await mustWait(on, await on.ask())
  })
})

test('an internal error beside the runtime fails its turn with the reason, and no other', async (t) => {
  const { ask, passing, ended, state, host, logged, clock } = await open(t, 'sqlite')
  const log = await openLog({ to: { write: (line) => logged.push(line) } })
  const prepare = async ({ turn, messages: asked }: ClaimedTurn) => {
    const text = asked.map(({ message }) => decodeContent(message.content)).join()
    const fault = new AbortController()
    const run = async ({ signal }: Job): Promise<AgentRunResult> => {
      if (text !== 'odd') return { result: `you said ${text}` }
      const { promise, reject } = Promise.withResolvers<never>()
      signal.addEventListener('abort', () => reject(new RunFault('retryable', 'it was stopped')))
      fault.abort(new TypeError('odd report'))
      return promise
    }
    const runtime = { name: 'test', run, close: async () => {} }
    return { runtime, job: jobOf(turn), fault: fault.signal, close: async () => {} }
  }
  const runner = new TurnRunner({ host, log, prepare, leaseMs: LEASE_MS })
  t.after(() => runner.close())
  const odd = await ask('odd')
  await passing(odd)
  assert.equal((await ended(odd)).status, 'failed')
  assert.match((await state(odd)).reason ?? '', /^internal error: odd report/)
  clock.advance(120_000)
  assert.deepEqual((await ended(await ask('hello'))).said, ['you said hello'])
  const attempts = host.metrics.count(FAULTS, { place: 'turn' })
  assert.ok(attempts > 1)
  const lines = logged
    .join('')
    .split('\n')
    .filter((line) => line.includes('"internal error"'))
  assert.equal(lines.length, attempts)
  assert.match(lines[0] ?? '', /odd report/)
})
