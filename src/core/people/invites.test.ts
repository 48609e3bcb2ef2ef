import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createInviteToken } from './invites.ts'

test('the id of an invite never begins with a dash, which a command would take for a flag', () => {
  // In base64url, 0xf8 begins with "-" and 0xfc with "_".
  const starts = [0xf8, 0xfb, 0xfc]
  const random = { bytes: (length: number) => new Uint8Array(length).fill(starts.shift() ?? 0) }
  assert.match(createInviteToken(random), /^_P/)
  assert.deepEqual(starts, [])
})
