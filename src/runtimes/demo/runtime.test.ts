import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refused } from '../../../test/support/host.ts'
import type { Message } from '../../core/messages.ts'
import { demo } from './runtime.ts'

function turn(text: string, options: { said?: number; signal?: AbortSignal } = {}) {
  const said: string[] = []
  const message: Message = {
    seq: 1,
    id: 'm',
    jid: 'web:main',
    direction: 'in',
    kind: 'message',
    sender: 'anon:1',
    content: Buffer.from(text),
    created_at: '2026-01-01T00:00:00.000Z',
  }
  const running = demo.run({
    id: 'm',
    folder: 'main',
    jid: 'web:main',
    topic: undefined,
    messages: [message],
    said: options.said ?? 0,
    signal: options.signal ?? new AbortController().signal,
    say: async (kind, content) => void said.push(`${kind}: ${content}`),
  })
  return { said, running }
}

test('the demo tells what arrived: a status, then a message that quotes it', async () => {
  const { said, running } = turn('hello\nthere')
  await running
  assert.equal(said.length, 2)
  assert.match(said[0] ?? '', /^status: /)
  assert.match(said[1] ?? '', /^message: .*`main`[\s\S]*> hello\n> there[\s\S]*11 bytes from `anon:1`/)
})

test('the demo does what a script says', async () => {
  const { said, running } = turn('/status a\n/wait 1ms\n/say b')
  await running
  assert.deepEqual(said, ['status: a', 'message: b'])
})

test('a script that fails fails with its sentence, and so does one that is wrong', async () => {
  const failing = turn('/say a\n/fail no luck')
  await assert.rejects(failing.running, refused('unavailable', 'no luck'))
  assert.deepEqual(failing.said, ['message: a'])
  await assert.rejects(turn('/wait forever').running, refused('invalid', 'wait'))
})

test('what an earlier try has said is not said again', async () => {
  const { said, running } = turn('/say a\n/say b\n/say c', { said: 2 })
  await running
  assert.deepEqual(said, ['message: c'])
})

test('a turn that is broken off stops', async () => {
  const stop = new AbortController()
  const { said, running } = turn('/say a\n/wait 50s\n/say b', { signal: stop.signal })
  setImmediate(() => stop.abort())
  await assert.rejects(running)
  assert.deepEqual(said, ['message: a'])
})

test('a long message is quoted in part', async () => {
  const { said, running } = turn('😀'.repeat(1000))
  await running
  assert.ok((said[1] ?? '').includes(`${'😀'.repeat(400)} …`))
  assert.ok(!(said[1] ?? '').includes('😀'.repeat(401)))
})
