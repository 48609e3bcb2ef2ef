// The errors that a link shows to visitors: one of a few fixed messages, never the text of the cause.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { readChatHistory } from '../src/core/chats/chat-history.ts'
import { readMessageDetails } from '../src/core/messages/message-states.ts'
import { rounds } from '../src/core/turns/rounds.ts'
import { FAILURE_MESSAGES, parseFailure } from '../src/core/turns/turn-failures.ts'
import { turns } from '../src/core/turns/turns.ts'
import { TurnRunner } from '../src/daemons/runed/turn-runner.ts'
import { chatFeed, roundFeed } from '../src/daemons/webd/event-feeds.ts'
import { pollRound, renderRoundPage } from '../src/daemons/webd/round-view.ts'
import { openLog } from '../src/lib/log/log.ts'
import { Refusal } from '../src/lib/refusal.ts'
import { requireSuccess } from '../src/runtimes/agent-process.ts'
import { RunFault } from '../src/runtimes/runtime.ts'
import { ENGLISH } from '../src/web/texts/texts.ts'
import { type ConversationHost, openConversationHost } from './support/conversation-host.ts'
import { type EngineName, onEveryEngine } from './support/host.ts'
import { run } from './support/sql.ts'
import { until } from './support/until.ts'

interface FailingHost extends ConversationHost {
  /** Sets how the runtime fails from now on. */
  failWith(how: () => never): void
  logged(): string
}

async function openFailingHost(t: TestContext, engine: EngineName): Promise<FailingHost> {
  const here = await openConversationHost(t, engine)
  const lines: string[] = []
  let how: () => never = () => assert.fail('failWith was not called')
  const log = await openLog({ to: { write: (line) => lines.push(line) } })
  const runner = new TurnRunner({
    host: here.host,
    log,
    prepare: async () => {
      const runtime = { name: 'test', run: async () => how(), close: async () => {} }
      // The runtime fails before it reads the job.
      return { runtime, job: {} as never, close: async () => {} }
    },
  })
  t.after(() => runner.close())
  return {
    ...here,
    failWith: (next) => {
      how = next
    },
    logged: () => lines.join(''),
  }
}

/** Everything that a link shows about a round. */
async function readPublicView({ read }: ConversationHost, id: string): Promise<string> {
  return read(async (tx) => {
    const round = (await rounds.find(tx, { id })) ?? assert.fail()
    const { jid } = round
    const seen = [
      await pollRound(tx, round, 0),
      await renderRoundPage(tx, round, { agent: { name: 'svc', tint: '#4f5bd5' }, texts: ENGLISH }),
      await roundFeed(id).read(tx, 0),
      await chatFeed(jid).read(tx, 0),
      await readChatHistory(tx, { jid, folder: 'main', limit: 100 }),
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
  'the last line of stderr': (cause) => requireSuccess({ code: 1, lastError: cause }) as never,
  'a refusal': (cause) => {
    throw new Refusal('conflict', cause, cause)
  },
  'a bug': (cause) => {
    throw new Error(cause)
  },
}

onEveryEngine('a failed round', (engine) => {
  test('hides its cause at the link and shows it to operators', async (t) => {
    const on = await openFailingHost(t, engine)
    await fc.assert(
      fc.asyncProperty(CAUSES, fc.constantFrom(...Object.values(FAULTS)), async (cause, fault) => {
        on.failWith(() => fault(cause))
        // Consecutive failures block the folder for a minute.
        on.clock.advance(120_000)
        const id = await on.ask('why?')
        await until(async () => {
          const turn = await on.read((tx) => turns.find(tx, { id }))
          if (turn?.state === 'retrying') on.clock.advance(5000)
          on.host.signals.emit()
          return (await on.round(id)).status !== 'pending'
        })
        const { error = '' } = await on.round(id)
        assert.ok(Object.values<string>(FAILURE_MESSAGES).includes(error), error)
        const seen = await readPublicView(on, id)
        assert.ok(!seen.includes(JSON.stringify(cause).slice(1, -1)), seen)
        assert.ok(seen.includes(error))
        const details = await on.read((tx) => readMessageDetails(tx, id))
        assert.ok(details?.reason?.includes(cause), String(details?.reason))
        await until(() => on.logged().includes(JSON.stringify(cause).slice(1, -1)))
      }),
      { numRuns: 15 },
    )
  })

  test('of an earlier version loses its cause in the migration', async (t) => {
    const on = await openConversationHost(t, engine)
    const id = await on.ask()
    await on.end((await on.mustClaim()).turn, { outcome: 'failed', reason: 'the cause', publicReason: 'the cause' })
    const step = rounds.storage.find((each) => String(each).startsWith('update rounds set error'))
    await on.write((tx) => run(tx, typeof step === 'string' ? step : assert.fail('a step of another kind')))
    assert.equal((await on.round(id)).error, FAILURE_MESSAGES.failed)
    assert.equal((await on.state(id)).reason, 'the cause')
  })
})

test('a program can report only known failures', () => {
  assert.equal(parseFailure('late'), 'late')
  fc.assert(
    fc.property(fc.anything(), (name) => {
      const known = parseFailure(name)
      assert.ok(known === undefined || known === name)
    }),
  )
  for (const name of ['toString', '__proto__', '', undefined, {}]) assert.equal(parseFailure(name), undefined)
})
