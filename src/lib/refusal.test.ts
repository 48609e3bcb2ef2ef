import assert from 'node:assert/strict'
import { test } from 'node:test'
import { digestOf } from './log/redact.ts'
import { Refusal } from './refusal.ts'

test('does not repeat a credential in its message', () => {
  const token = 'Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE'
  const { message, hint } = new Refusal('not_found', `there is no task ${token}`, `look at /chat/${token}/`)
  assert.deepEqual([message, hint], [`there is no task ${digestOf(token)}`, `look at /chat/${digestOf(token)}/`])
})
