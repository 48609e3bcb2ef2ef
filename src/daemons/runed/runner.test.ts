import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Conversing, conversing } from '../../../test/support/conversation.ts'
import { fakeChannel, withChannel } from '../../../test/support/fake-channel.ts'
import { type EngineName, freshStore, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { until } from '../../../test/support/until.ts'
import type { ClaimedTurn } from '../../core/claim.ts'
import { conversations } from '../../core/conversations.ts'
import { costLog } from '../../core/costs.ts'
import { FAILURES } from '../../core/failures.ts'
import { groups } from '../../core/groups.ts'
import { messages, textOf } from '../../core/messages.ts'
import { outbox } from '../../core/outbox.ts'
import { sandboxRooms } from '../../core/sandbox.ts'
import { secrets } from '../../core/secrets.ts'
import { stopTurns, type Turn, turns } from '../../core/turns.ts'
import { openLog } from '../../lib/log.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { type Job, type Ran, RunFault } from '../../runtimes/runtime.ts'
import { Runner } from './runner.ts'

const LEASE_MS = 10_000

interface Run extends Job {
  readonly turn: Turn
  readonly text: string
}

interface Running extends Conversing {
  /** A runner with this runtime; closed after the test at the latest. */
  start(run: (job: Run) => Promise<Ran>, settingsMark?: () => Promise<string>): Promise<Runner>
  /** Time passes while the turn waits to be tried again, until its round is over. */
  passing(id: string): Promise<void>
  ended(id: string): Promise<{ status: string; error?: string | undefined; said: string[]; state: string }>
  logged: string[]
}

async function open(t: TestContext, engine: EngineName, on?: TestHost): Promise<Running> {
  const here = await conversing(t, engine, on)
  const { host } = here
  const logged: string[] = []
  return {
    ...here,
    logged,
    ask: async (...asked) => {
      const id = await here.ask(...asked)
      host.signals.emit()
      return id
    },
    start: async (run, settingsMark = async () => '') => {
      const log = await openLog({ to: { write: (line) => logged.push(line) } })
      const prepare = async ({ turn, asked }: ClaimedTurn) => {
        const text = asked.map(({ message }) => textOf(message.content)).join('\n')
        const job = { ...jobOf(turn), turn, text }
        const runtime = { name: 'test', run: (told: Job) => run({ ...job, ...told }), close: async () => {} }
        return { runtime, job, close: async () => {} }
      }
      const runner = new Runner({ host, log, prepare, settingsMark, leaseMs: LEASE_MS })
      let closed: Promise<void> | undefined
      const close = runner.close.bind(runner)
      runner.close = () => (closed ??= close())
      t.after(() => runner.close())
      return runner
    },
    passing: (id) =>
      until(async () => {
        const turn = await here.read((tx) => turns.find(tx, { id }))
        // Not while it runs: then its lease would be over.
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
    said: turn.replies,
    deadline: 0,
    hangMs: 0,
    ...place,
    ...files,
  }
}

test('in one process a turn is claimed in the commit that its message is routed by', async (t) => {
  const { ask, start, ended, state, host } = await open(t, 'sqlite')
  await start(async () => ({ result: 'ok' }))
  await ended(await ask('first'))
  const asking = ask('second')
  host.routing.emit()
  const id = await asking
  assert.notEqual((await state(id)).state, 'waiting')
  assert.deepEqual((await ended(id)).said, ['ok'])
})

onEveryEngine('the runner', (engine) => {
  test('answers each message, and ends its round', async (t) => {
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

  test('a run that says nothing is silent, and one whose words are for nobody too', async (t) => {
    const on = await open(t, engine)
    await on.start(async ({ text }) => ({ result: text === 'filler' ? '<think>hm</think>' : undefined }))
    for (const text of ['nothing', 'filler']) {
      const { status, said, state } = await on.ended(await on.ask(text))
      assert.deepEqual([status, said, state], ['success', [], 'silent'], text)
    }
  })

  test('L14: a failure is tried again, and then the round fails; its cause is told to operators alone', async (t) => {
    const on = await open(t, engine)
    const runs: string[] = []
    await on.start(async ({ text }) => {
      runs.push(text)
      if (text === 'fault') throw new RunFault('again', 'the model is asleep')
      throw new Error('secret of the code')
    })
    for (const [text, cause] of [
      ['fault', 'the model is asleep'],
      ['bug', 'internal error: secret of the code'],
    ] as const) {
      const id = await on.ask(text)
      await on.passing(id)
      const end = await on.ended(id)
      assert.deepEqual([end.status, end.error, end.state], ['failed', FAILURES.failed, 'failed'])
      assert.equal((await on.state(id)).reason, cause)
      assert.equal(runs.filter((run) => run === text).length, 3)
    }
    assert.ok(on.logged.join('').includes('secret of the code'))
  })

  test('what cannot even start is not tried again, and the chat of a platform is told', async (t) => {
    const on = await open(t, engine)
    let runs = 0
    await on.start(async () => {
      runs++
      throw new RunFault('terminal', 'there is no such program')
    })
    const id = await on.ask('hi', { jid: 'sandbox:a', hasRound: false, target_folder: undefined })
    await until(async () => (await on.state(id)).state === 'failed')
    assert.equal(runs, 1)
    const [notice] = await on.read((tx) => outbox.list(tx))
    assert.equal(notice?.jid, 'sandbox:a')
    const said = await on.read((tx) => messages.find(tx, { seq: notice?.message_seq ?? 0 }))
    assert.equal(textOf(said?.content ?? new Uint8Array()), 'The agent cannot answer at the moment.')
    const { asked } = { asked: await on.read((tx) => turns.find(tx, { id })) }
    assert.equal(asked?.reason, 'there is no such program')
  })

  test('in the chat of a platform it shows that somebody is typing, for as long as the turn runs', async (t) => {
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

  test('a platform that is slow to show the typing does not go on showing it', async (t) => {
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

  test('a session that is gone is started afresh, with a note', async (t) => {
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
    assert.match(notes[1] ?? '', /fresh/)
  })

  test('C9: what is missing around the agent is no failure of the agent', async (t) => {
    const on = await open(t, engine)
    let runs = 0
    await on.start(async () => {
      if (++runs <= 5) throw new RunFault('unavailable', 'the socket does not answer')
      return { result: 'now' }
    })
    const id = await on.ask()
    await on.passing(id)
    const end = await on.ended(id)
    assert.deepEqual([end.status, end.said, runs], ['success', ['now'], 6])
  })

  test('T2: a turn whose holder is gone is taken again, and given up after three tries', async (t) => {
    const on = await open(t, engine)
    const [lost, hopeless] = [await on.ask('lost', { topic: 'a' }), await on.ask('hopeless', { topic: 'b' })]
    for (let time = 0; time < 3; time++) {
      await on.mustClaim()
      await on.mustClaim()
      on.clock.advance(LEASE_MS + 1)
    }
    await on.write((tx) => turns.update(tx, { id: lost }, { attempts: 1 }))
    await on.start(async () => ({ result: 'here I am' }))
    assert.deepEqual((await on.ended(lost)).said, ['here I am'])
    const { status, error, said } = await on.ended(hopeless)
    assert.deepEqual([status, error, said], ['failed', FAILURES.failed, []])
    assert.match((await on.state(hopeless)).reason ?? '', /tried 3 times/)
  })

  test('a run that has said how it went is not run again when its end was lost', async (t) => {
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

  test('a store that does not answer for a moment does not keep a turn from its end', async (t) => {
    const on = await open(t, engine)
    const { transaction } = on.host.engine
    t.after(() => Object.assign(on.host.engine, { transaction }))
    await on.start(async () => {
      let left = 3
      Object.assign(on.host.engine, {
        transaction: async (work: Parameters<typeof transaction>[0]) => {
          if (left-- > 0 && left !== 2) refuse('unavailable', 'the store is busy')
          return transaction.call(on.host.engine, work)
        },
      })
      return { result: 'said' }
    })
    const end = await on.ended(await on.ask())
    assert.deepEqual([end.status, end.said], ['success', ['said']])
  })

  test('a stop of the process breaks off, and the next one goes on where it was, once', async (t) => {
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
    await on.start(async ({ turn, said }) => {
      assert.equal(said, 1)
      await on.say(turn, 'two')
      return {}
    })
    assert.deepEqual((await on.ended(id)).said, ['one', 'two'])
  })

  test('somebody who says stop stops it', async (t) => {
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
    assert.deepEqual([status, error], ['failed', 'it was stopped'])
  })

  test('a run whose turn somebody else has says nothing of it', async (t) => {
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
    // As another process would have it.
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

  test('a budget that is spent refuses, and says so', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    await on.write((tx) => tx.builder().updateTable('groups').set({ cost_cap_cents_per_day: 1 }).execute())
    const models = [{ model: 'm', input_tokens: 0, output_tokens: 0, cost_cents: 2 }]
    await on.start(async () => ({ result: 'ok', models }))
    assert.equal((await on.ended(await on.ask('first'))).status, 'success')
    const { status, error, state } = await on.ended(await on.ask('second'))
    assert.deepEqual([status, state], ['failed', 'refused'])
    assert.match(error ?? '', /budget is spent \(2 of 1 cents\)/)
  })

  test('a try that failed has cost what it has cost', async (t) => {
    const on = await open(t, engine)
    const models = [{ model: 'm', input_tokens: 0, output_tokens: 0, cost_cents: 3 }]
    await on.start(async ({ turn }) => {
      if (turn.attempts === 1) throw new RunFault('again', 'it broke', models)
      return { result: 'ok', models }
    })
    const id = await on.ask()
    await on.passing(id)
    const costs = await on.read((tx) => costLog.list(tx))
    assert.deepEqual(
      costs.map(({ cost_cents, folder }) => [cost_cents, folder]),
      [
        [3, 'main'],
        [3, 'main'],
      ],
    )
  })

  test('two runners on one store run each turn once, and never two of one conversation', async (t) => {
    const store = await freshStore(t, engine)
    const on = await testHost(t, engine, store)
    const also = await testHost(t, engine, store)
    also.host.random.bytes(777)
    const [one, other] = [await open(t, engine, on), await open(t, engine, also)]
    const runs: string[] = []
    const inside = new Set<string>()
    const run = async ({ turn, text }: Run): Promise<Ran> => {
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
  const TOLD = /^the agent here has failed several times in a row; try again in \d+ seconds$/
  async function broken(t: TestContext) {
    const on = await open(t, engine)
    await on.groups('main', 'team', 'team/sub')
    const state = { fault: 'no such key' as string | undefined, settings: 'one' }
    await on.start(
      async () => {
        if (state.fault !== undefined) throw new RunFault('terminal', state.fault)
        return { result: 'well' }
      },
      async () => state.settings,
    )
    const next = async (folder = 'team/sub') => on.ended(await on.ask('hello', { folder }))
    for (let count = 0; count < 3; count++) assert.equal((await next()).status, 'failed')
    assert.match((await next()).error ?? '', TOLD)
    return { ...on, state, next }
  }
  const secret = (owner: string, key: string) => ({
    scope_kind: 'folder' as const,
    owner,
    key,
    value: Buffer.from('sealed bytes'),
    created_at: '2026-01-01T00:00:00.000Z',
  })

  const MENDS: Record<string, (on: Awaited<ReturnType<typeof broken>>) => Promise<unknown>> = {
    'its config': (on) => on.write((tx) => groups.update(tx, { folder: 'team/sub' }, { config: '{"model":"x"}' })),
    'a secret of the folder above': (on) => on.write((tx) => secrets.insert(tx, secret('team', 'OPENAI_API_KEY'))),
    'the settings of the instance': async (on) => {
      on.state.settings = 'two'
    },
  }
  for (const [what, mend] of Object.entries(MENDS))
    test(`is asked again at once when ${what} changed`, async (t) => {
      const on = await broken(t)
      on.state.fault = undefined
      await mend(on)
      assert.deepEqual((await on.next()).said, ['well'])
    })

  test('stays refused when another folder changed, and fails three times anew with a changed config', async (t) => {
    const on = await broken(t)
    await on.write((tx) => secrets.insert(tx, secret('main', 'OPENAI_API_KEY')))
    await on.write((tx) => groups.update(tx, { folder: 'team' }, { config: '{"model":"x"}' }))
    assert.match((await on.next()).error ?? '', TOLD)
    await on.write((tx) => groups.update(tx, { folder: 'team/sub' }, { config: '{"model":"x"}' }))
    for (let count = 0; count < 3; count++) assert.doesNotMatch((await on.next()).error ?? '', TOLD)
    assert.match((await on.next()).error ?? '', TOLD)
  })
})
