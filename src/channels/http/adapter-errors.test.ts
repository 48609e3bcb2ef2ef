import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ChannelError } from '../../core/delivery/channel.ts'
import { Refusal } from '../../lib/refusal.ts'
import { redactAddress } from './adapter-errors.ts'

const redactMessage = (url: string, text: string): string => {
  const error = redactAddress(new ChannelError('transient', text, 5), { name: 'teled', url })
  assert.ok(error instanceof ChannelError && error.kind === 'transient' && error.retryAfterMs === 5)
  return error.message
}

test('replaces every spelling of an address with the name of the adapter', () => {
  const CASES: [url: string, text: string, shown: string][] = [
    ['http://127.0.0.1:9/base', 'at http://127.0.0.1:9/base/send', 'at teled/send'],
    ['http://127.0.0.1:9/base', 'http://127.0.0.1:9 did not answer', 'teled did not answer'],
    ['http://127.0.0.1:9', '127.0.0.1:9, 127.0.0.1', 'teled, teled'],
    ['http://[::1]:9', 'connect [::1]:9 ::1:9 ::1', 'connect teled teled teled'],
    ['http://localhost:9', 'localhost:9 on localhost', 'teled on localhost'],
    ['https://bridge.internal', 'getaddrinfo ENOTFOUND bridge.internal', 'getaddrinfo ENOTFOUND teled'],
  ]
  for (const [url, text, shown] of CASES) assert.equal(redactMessage(url, text), shown)
})

test('keeps the code of a refusal and does not change other errors', () => {
  const at = { name: 'teled', url: 'http://127.0.0.1:9' }
  const refusal = redactAddress(new Refusal('unsupported', 'no 127.0.0.1', 'ask 127.0.0.1:9'), at)
  assert.ok(refusal instanceof Refusal)
  assert.deepEqual([refusal.code, refusal.message, refusal.hint], ['unsupported', 'no teled', 'ask teled'])
  const bug = new TypeError('127.0.0.1')
  assert.equal(redactAddress(bug, at), bug)
})
