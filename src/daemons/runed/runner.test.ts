import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, freshStore, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { addLink, postOf } from '../../../test/support/rows.ts'
import { until } from '../../../test/support/until.ts'
import { work } from '../../core/ingest.ts'
import { textOf } from '../../core/messages.ts'
import { claimRounds, framesAfter, type Round, rounds } from '../../core/rounds.ts'
import { openLog } from '../../lib/log.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Runtime, Turn } from '../../runtimes/runtime.ts'
import { Runner } from './runner.ts'

interface Running extends TestHost {
  ask(content?: string): Promise<string>
  /** A runner with this runtime; closed after the test at the latest. */
  start(run: Runtime['run'], turnsMax?: number): Promise<Runner>
  round(id: string): Promise<Round>
  ended(id: string): Promise<Round>
  said(id: string): Promise<string[]>
  logged: string[]
}

async function open(t: TestContext, engine: EngineName, on?: TestHost): Promise<Running> {
  const here = on ?? (await testHost(t, engine))
  if (!on) await here.groups('main')
  const { host } = here
  const link = await addLink(here, 'web:main')
  const logged: string[] = []
  const round = async (id: string): Promise<Round> =>
    (await host.engine.read((tx) => rounds.find(tx, { id }))) ?? assert.fail('no such round')
  return {
    ...here,
    logged,
    round,
    ask: async (content = 'why?') => {
      const post = postOf(here, link, { content: Buffer.from(content), hasRound: true })
      await host.engine.transaction((tx) => work.run(tx, host.engine.dialect, [post]))
      await host.engine.transaction((tx) => work.tidy(tx, host.engine.dialect))
      host.signals.emit()
      return post.id
    },
    start: async (run, turnsMax = 4) => {
      const log = await openLog({ to: { write: (line) => logged.push(line) } })
      const runner = new Runner({ host, log, runtime: { name: 'test', run }, turnsMax })
      let closed: Promise<void> | undefined
      const close = runner.close.bind(runner)
      runner.close = () => (closed ??= close())
      t.after(() => runner.close())
      return runner
    },
    ended: async (id) => {
      await until(async () => (await round(id)).status !== 'pending')
      return round(id)
    },
    said: async (id) => (await host.engine.read((tx) => framesAfter(tx, id, 0, 100))).map(({ content }) => content),
  }
}

onEveryEngine('the runner', (engine) => {
  test('answers each message, and ends its round', async (t) => {
    const { ask, start, ended, said } = await open(t, engine)
    const before = await ask('before it runs')
    await start(async (turn: Turn) => {
      assert.deepEqual([turn.folder, turn.jid, turn.messages.length, turn.said], ['main', 'web:main', 1, 0])
      await turn.say('status', 'hm')
      await turn.say('message', Buffer.from(turn.messages[0]?.content ?? []).toString())
    })
    const after = await ask('while it runs')
    assert.deepEqual([(await ended(before)).status, await said(before)], ['success', ['hm', 'before it runs']])
    assert.deepEqual([(await ended(after)).status, await said(after)], ['success', ['hm', 'while it runs']])
  })

  test('L14: what a runtime refuses is how the round failed; a bug is told to nobody but the log', async (t) => {
    const { ask, start, ended, logged } = await open(t, engine)
    await start(async ({ messages: [message] }) => {
      if (message && textOf(message.content) === 'refuse') refuse('unavailable', 'the model is asleep')
      throw new Error('secret of the code')
    })
    const [refused, broken] = [await ask('refuse'), await ask('break')]
    assert.deepEqual([(await ended(refused)).status, (await ended(refused)).error], ['failed', 'the model is asleep'])
    const { status, error } = await ended(broken)
    assert.deepEqual([status, error], ['failed', 'something went wrong while it was answered'])
    assert.ok(logged.join('').includes('secret of the code'))
  })

  test('T2: a round whose holder is gone is taken again, and given up after three tries', async (t) => {
    const { ask, start, ended, said, host, clock } = await open(t, engine)
    const [lost, hopeless] = [await ask(), await ask()]
    const claim = (limit: number) =>
      host.engine.transaction((tx) => claimRounds(tx, { now: clock.now(), forMs: 10_000 }, limit))
    await claim(2)
    for (let time = 0; time < 2; time++) {
      clock.advance(10_001)
      await claim(2)
    }
    // The third try of both is lost; of the first one, the counter is set back.
    await host.engine.transaction((tx) => rounds.update(tx, { id: lost }, { attempts: 1 }))
    clock.advance(10_001)
    await start((turn) => turn.say('message', 'here I am'))
    assert.deepEqual([(await ended(lost)).status, await said(lost)], ['success', ['here I am']])
    const { status, error } = await ended(hopeless)
    assert.deepEqual([status, error, await said(hopeless)], ['failed', 'given up after 3 tries', []])
  })

  test('a store that does not answer for a moment is no end of a round: it is tried again', async (t) => {
    const { ask, start, ended, said, round, host, clock } = await open(t, engine)
    const { transaction } = host.engine
    const failing = (times: number): void => {
      let left = times
      const flaky: typeof transaction = async (work) => {
        if (left-- > 0) refuse('unavailable', 'the store is busy')
        return transaction.call(host.engine, work) as ReturnType<typeof work>
      }
      Object.assign(host.engine, { transaction: flaky })
    }
    t.after(() => Object.assign(host.engine, { transaction }))
    let runs = 0
    await start(async (turn) => {
      runs++
      for (const text of ['one', 'two'].slice(turn.said)) {
        if (runs === 1 && text === 'two') failing(1)
        await turn.say('message', text)
      }
      if (runs === 2) failing(1)
    })
    const id = await ask()
    // The first try breaks at a frame, the second at the end.
    for (let attempt = 1; attempt <= 3; attempt++) {
      await until(async () => runs === attempt && (await round(id)).fence === attempt)
      await new Promise((resolve) => setTimeout(resolve, 50))
      if (attempt < 3) assert.equal((await round(id)).status, 'pending')
      clock.advance(10_001)
      host.signals.emit()
    }
    assert.equal((await ended(id)).status, 'success')
    assert.deepEqual(await said(id), ['one', 'two'])
  })

  test('a stop breaks off, and the next one goes on where it was, once', async (t) => {
    const { ask, start, ended, said, round } = await open(t, engine)
    const id = await ask()
    const began = Promise.withResolvers<void>()
    const first = await start(async (turn) => {
      await turn.say('message', 'one')
      began.resolve()
      await new Promise((_, reject) => turn.signal.addEventListener('abort', () => reject(turn.signal.reason)))
    })
    await began.promise
    await first.close()
    const { status, attempts, leased_until } = await round(id)
    assert.deepEqual([status, attempts, leased_until], ['pending', 0, 0])
    await start(async (turn) => {
      assert.equal(turn.said, 1)
      await turn.say('message', 'two')
    })
    await ended(id)
    assert.deepEqual(await said(id), ['one', 'two'])
  })

  test('nothing is said in a turn that somebody else has', async (t) => {
    const { ask, start, ended, said, host, clock } = await open(t, engine)
    const id = await ask()
    const taken = Promise.withResolvers<void>()
    const tried = Promise.withResolvers<string>()
    const runner = await start(async (turn) => {
      await taken.promise
      await turn.say('message', 'late').then(
        () => tried.resolve('said'),
        (error) => {
          tried.resolve(error.code)
          throw error
        },
      )
    })
    await until(async () => (await host.engine.read((tx) => rounds.find(tx, { id })))?.fence === 1)
    clock.advance(10_001)
    const [held] = await host.engine.transaction((tx) => claimRounds(tx, { now: clock.now(), forMs: 60_000 }, 1))
    taken.resolve()
    assert.equal(await tried.promise, 'conflict')
    await runner.close()
    assert.equal(held?.id, id)
    assert.deepEqual(await said(id), [])
    assert.equal((await host.engine.read((tx) => rounds.find(tx, { id })))?.status, 'pending')
    clock.advance(60_001)
    await start((turn) => turn.say('message', 'mine'))
    await ended(id)
    assert.deepEqual(await said(id), ['mine'])
  })

  test('R3: every one of many messages gets its own end, and no more run at once than may', async (t) => {
    const { ask, start, ended, said } = await open(t, engine)
    let [running, most] = [0, 0]
    await start(async (turn) => {
      most = Math.max(most, ++running)
      await turn.say('message', turn.id)
      running--
    }, 2)
    const ids = await Promise.all(Array.from({ length: 9 }, () => ask()))
    for (const id of ids) {
      assert.equal((await ended(id)).status, 'success')
      assert.deepEqual(await said(id), [id])
    }
    assert.ok(most <= 2)
  })

  test('two runners on one store run each round once', async (t) => {
    const store = await freshStore(t, engine)
    const on = await testHost(t, engine, store)
    await on.groups('main')
    const also = await testHost(t, engine, store)
    also.host.random.bytes(777)
    const [one, other] = [await open(t, engine, on), await open(t, engine, also)]
    const runs: string[] = []
    const run = async (turn: Turn): Promise<void> => {
      runs.push(turn.id)
      await turn.say('message', 'x')
    }
    await Promise.all([one.start(run), other.start(run)])
    const ids = await Promise.all(Array.from({ length: 10 }, (_, at) => (at % 2 ? one : other).ask()))
    for (const id of ids) await one.ended(id)
    assert.deepEqual([...runs].sort(), [...ids].sort())
  })
})
