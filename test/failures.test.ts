// What a visitor of a link learns of a failure, whatever its cause says: one of a few plain sentences.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { FAILURES, knownFailure } from '../src/core/failures.ts'
import { readHistory } from '../src/core/history.ts'
import { messageStory } from '../src/core/message-states.ts'
import { rounds } from '../src/core/rounds.ts'
import { turns } from '../src/core/turns.ts'
import { Runner } from '../src/daemons/runed/runner.ts'
import { followChat, followRound } from '../src/daemons/webd/following.ts'
import { pageOfRound, polledRound } from '../src/daemons/webd/round-view.ts'
import { openLog } from '../src/lib/log.ts'
import { Refusal } from '../src/lib/refusal.ts'
import { mustHaveSucceeded } from '../src/runtimes/process.ts'
import { RunFault } from '../src/runtimes/runtime.ts'
import { run } from '../src/store/statement.ts'
import { type Conversing, conversing } from './support/conversation.ts'
import { type EngineName, onEveryEngine } from './support/host.ts'
import { until } from './support/until.ts'

interface Failing extends Conversing {
  /** What the runtime does from now on. */
  fail(how: () => never): void
  logged(): string
}

async function failing(t: TestContext, engine: EngineName): Promise<Failing> {
  const here = await conversing(t, engine)
  const lines: string[] = []
  let how: () => never = () => assert.fail('it is not said how to fail')
  const log = await openLog({ to: { write: (line) => lines.push(line) } })
  const runner = new Runner({
    host: here.host,
    log,
    prepare: async () => {
      const runtime = { name: 'test', run: async () => how(), close: async () => {} }
      // Nothing of it is looked at: the runtime fails.
      return { runtime, job: {} as never, close: async () => {} }
    },
  })
  t.after(() => runner.close())
  return {
    ...here,
    fail: (next) => {
      how = next
    },
    logged: () => lines.join(''),
  }
}

/** Everything that a link shows of a round. */
async function seenAtLink({ read }: Conversing, id: string): Promise<string> {
  return read(async (tx) => {
    const round = (await rounds.find(tx, { id })) ?? assert.fail()
    const { jid } = round
    const seen = [
      await polledRound(tx, round, 0),
      await pageOfRound(tx, round, 'svc'),
      await followRound(id).read(tx, 0),
      await followChat(jid).read(tx, 0),
      await readHistory(tx, { jid, folder: 'main', limit: 100 }),
    ]
    return JSON.stringify(seen)
  })
}

const CAUSES = fc.oneof(
  fc.constantFrom(
    'the model gpt-secret at http://10.1.2.3:8000/v1 answers 401: no such key',
    "bwrap: Can't find source path /srv/data/svc_demo/groups/main",
    'the disk under /srv/data/svc_demo/store/svc.db is full',
    'Traceback: File "/home/node/agent.py", line 7',
  ),
  fc.string({ minLength: 12, maxLength: 60, unit: fc.constantFrom(...'abcdefghijklmnopqrstuvwxyz/.:') }),
)

const FAULTS: Record<string, (cause: string) => never> = {
  'a fault of the runtime': (cause) => {
    throw new RunFault('terminal', cause)
  },
  'the last line of stderr': (cause) => mustHaveSucceeded({ code: 1, lastError: cause }) as never,
  'a refusal of the store': (cause) => {
    throw new Refusal('unavailable', cause, cause)
  },
  'a bug': (cause) => {
    throw new Error(cause)
  },
}

onEveryEngine('a failed round', (engine) => {
  test('tells nothing of its cause at the link, and all of it to operators', async (t) => {
    const on = await failing(t, engine)
    await fc.assert(
      fc.asyncProperty(CAUSES, fc.constantFrom(...Object.values(FAULTS)), async (cause, fault) => {
        on.fail(() => fault(cause))
        // Failures in a row close the folder for a minute.
        on.clock.advance(120_000)
        const id = await on.ask('why?')
        await until(async () => {
          const turn = await on.read((tx) => turns.find(tx, { id }))
          if (turn?.state === 'retrying') on.clock.advance(5000)
          on.host.signals.emit()
          return (await on.round(id)).status !== 'pending'
        })
        const { error = '' } = await on.round(id)
        assert.ok(Object.values<string>(FAILURES).includes(error), error)
        const seen = await seenAtLink(on, id)
        assert.ok(!seen.includes(JSON.stringify(cause).slice(1, -1)), seen)
        assert.ok(seen.includes(error))
        const story = await on.read((tx) => messageStory(tx, id))
        assert.ok(story?.reason?.includes(cause), String(story?.reason))
        await until(() => on.logged().includes(JSON.stringify(cause).slice(1, -1)))
      }),
      { numRuns: 15 },
    )
  })

  test('of an earlier version loses its cause', async (t) => {
    const on = await conversing(t, engine)
    const id = await on.ask()
    await on.end((await on.mustClaim()).turn, { outcome: 'failed', reason: 'the cause', told: 'the cause' })
    const step = rounds.storage.at(-1)
    await on.write((tx) => run(tx, typeof step === 'string' ? step : assert.fail('a step of another kind')))
    assert.equal((await on.round(id)).error, FAILURES.failed)
    assert.equal((await on.state(id)).reason, 'the cause')
  })
})

test('a program can name one of the known failures and no other', () => {
  assert.equal(knownFailure('late'), 'late')
  fc.assert(
    fc.property(fc.anything(), (name) => {
      const known = knownFailure(name)
      assert.ok(known === undefined || known === name)
    }),
  )
  for (const name of ['toString', '__proto__', '', undefined, {}]) assert.equal(knownFailure(name), undefined)
})
