import assert from 'node:assert/strict'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { isRunFault, openRuntime } from '../../../test/support/runtimes.ts'
import {
  type FakeTool,
  messagesOf,
  ToolRefusal,
  type ToolSocket,
  TransientToolRefusal,
  toolSocket,
} from '../../../test/support/tool-socket.ts'
import { until } from '../../../test/support/until.ts'
import type { AgentRunResult, Job, Runtime } from '../runtime.ts'

interface Demo extends ToolSocket {
  runtime: Runtime
  tell(text: string, given?: Partial<Job>): Promise<AgentRunResult>
}

async function demo(t: TestContext, tools?: Record<string, FakeTool>): Promise<Demo> {
  const socket = await toolSocket(t, tools)
  const runtime = await openRuntime(t, 'demo')
  return { ...socket, runtime, tell: (text, given) => runtime.run(socket.job({ ...messagesOf(text), ...given })) }
}

test('repeats a message through its socket, as its turn', async (t) => {
  const { tell, said, asked, turns } = await demo(t)
  const { result, sessionId } = await tell('hello\nthere')
  assert.deepEqual([result, sessionId], [undefined, 'demo-t1'])
  assert.match(said[0] ?? '', /`main`[\s\S]*> hello\n> there[\s\S]*11 bytes from `anon:1`/)
  assert.match(asked[0] ?? '', /^submit_status .*"turn_id":"t1"/)
  assert.match(asked[1] ?? '', /^reply \{"chatJid":"web:main"/)
  assert.deepEqual(turns, [{ 'svc/turn': 't1', 'svc/fence': 7 }])
})

test('sends a status only to web chats, and does not answer prompts of isolated tasks', async (t) => {
  const { tell, said, asked } = await demo(t)
  await tell('hello', { jid: 'slack:C1' })
  assert.deepEqual([said.length, asked.length], [1, 1])
  await tell('/compact-memories diary', { sender: 'timed-isolated:main-mem-3' })
  await tell('note', { sender: 'timed-isolated:task-1' })
  assert.equal(said.length, 1)
  await tell('Reminder: tea', { sender: 'timed' })
  assert.deepEqual([said[1], asked.length], ['⏰ tea', 2])
})

test('performs a script', async (t) => {
  const { tell, asked, said } = await demo(t, { add: ({ a, b }) => ({ sum: Number(a) + Number(b) }) })
  await tell('/status a\n/wait 1ms\n/say b {sender}\n/tool add {"a": 1, "b": 2}\n/tool nothing\n/result over')
  assert.deepEqual(said.slice(0, 2), ['b anon:1', '{"sum":3}'])
  assert.match(said[2] ?? '', /^refused: .*nothing/)
  assert.match(asked.at(-1) ?? '', /^submit_turn .*"result":"over"/)
})

test('reports the turn as failed for /fail and for an invalid script', async (t) => {
  const { tell, said, asked } = await demo(t)
  await tell('/say a\n/fail no luck\n/say never')
  assert.deepEqual(said, ['a'])
  assert.match(asked.at(-1) ?? '', /^submit_turn \{"turn_id":"t1","status":"error","error":"no luck"\}/)
  await tell('/wait forever')
  assert.match(asked.at(-1) ?? '', /^submit_turn .*"error":"wait: /)
})

test('ends the run when a reply fails temporarily, so that it is retried', async (t) => {
  let count = 0
  const { tell, asked } = await demo(t, {
    reply: () => {
      if (++count === 2) throw new TransientToolRefusal('the store is busy')
      return 'ok'
    },
  })
  await assert.rejects(tell('/say one\n/say two\n/say three'), isRunFault('unavailable', /reply: the store is busy/))
  assert.equal(count, 2)
  await tell('/say one\n/say two\n/say three', { sentCount: 1 })
  assert.deepEqual(
    asked.map((each) => JSON.parse(each.slice('reply '.length)).text),
    ['one', 'two', 'two', 'three'],
  )
})

test('does not repeat messages that an earlier attempt sent', async (t) => {
  const { tell, said } = await demo(t)
  await tell('/status s\n/say a\n/say b\n/say c', { sentCount: 2 })
  assert.deepEqual(said, ['c'])
})

test('a crash fails only its own turn', async (t) => {
  const { tell, said, runtime } = await demo(t)
  await tell('/say one')
  await tell('/say two')
  await assert.rejects(tell('/say three\n/crash'), isRunFault('retryable', /exited early/))
  await tell('/say four')
  assert.deepEqual(said, ['one', 'two', 'three', 'four'])
  assert.equal(runtime.name, 'demo')
})

test('runs several turns concurrently', async (t) => {
  const { tell, said } = await demo(t)
  const slow = tell('/say slow\n/wait 60s')
  slow.catch(() => undefined)
  await until(() => said.includes('slow'))
  await tell('/say quick')
  assert.deepEqual(said, ['slow', 'quick'])
})

test('stops an aborted turn and its process', async (t) => {
  const { tell, said } = await demo(t)
  const stop = new AbortController()
  const running = tell('/say a\n/wait 50s\n/say b', { signal: stop.signal })
  await until(() => said.length > 0)
  stop.abort()
  await assert.rejects(running, isRunFault('retryable', /stopped/))
  await tell('/say after')
  assert.deepEqual(said, ['a', 'after'])
})

test('stops a turn that hangs or reaches its deadline', async (t) => {
  const { tell } = await demo(t)
  await assert.rejects(tell('/hang', { hangMs: 100 }), isRunFault('retryable', /no activity for 100ms/))
  await assert.rejects(tell('/hang', { deadline: Date.now() + 100 }), isRunFault('terminal', /past its deadline/))
})

test('counts use of the socket as activity', async (t) => {
  const { tell, said } = await demo(t)
  let checks = 0
  const seenAt = (): number => (++checks < 5 ? Date.now() : 0)
  await assert.rejects(tell('/hang', { hangMs: 50, lastActivityAt: seenAt }), isRunFault('retryable', /no activity/))
  assert.equal(checks, 5)
  assert.deepEqual(said, [])
})

test('reports a socket that does not answer as unavailable', async (t) => {
  const { runtime, job, tell, drop, said } = await demo(t, { leave: () => drop() })
  await assert.rejects(
    runtime.run(job({ socket: '/nowhere/gated.sock' })),
    isRunFault('unavailable', /does not answer/),
  )
  await assert.rejects(tell('/say a\n/tool leave\n/say b'), isRunFault('unavailable', /closed/))
  assert.deepEqual(said, ['a'])
})

test('returns replies that the tool refused as the result', async (t) => {
  const { tell, home } = await demo(t, {
    reply: () => {
      throw new ToolRefusal('reply: not permitted')
    },
  })
  assert.equal((await tell('/say a\n/say b')).result, 'a\n\nb')
  const log = join(home, 'logs', 't1.log')
  await until(() => existsSync(log))
  assert.match(readFileSync(log, 'utf8'), /not permitted/)
  assert.equal(statSync(log).mode & 0o777, 0o600)
})

test('performs demo.script of the workspace', async (t) => {
  const { tell, home, said, asked } = await demo(t)
  writeFileSync(join(home, 'demo.script'), '# a test\n/say {text}, {folder}!\n\nwhen bad day\n/say oh\n/silent\n')
  await tell('hello')
  await tell('What a BAD DAY')
  assert.deepEqual(said, ['hello, main!', 'oh'])
  writeFileSync(join(home, 'demo.script'), 'say something')
  await tell('hello')
  assert.match(asked.at(-1) ?? '', /^submit_turn .*"error":"demo.script has a line/)
})
