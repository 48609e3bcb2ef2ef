// Passkeys that were stored before must verify after every upgrade: people have no other copy of them.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import type { PasskeyRow } from '../../core/people/passkeys.ts'
import { verifyAuthentication } from './passkey-verification.ts'

const HOST = { webBase: 'https://chat.example' }
const CHALLENGE = 'Zml4ZWQgY2hhbGxlbmdl'

/** A row of the first version, and a response of its authenticator to CHALLENGE. */
const STORED: PasskeyRow = {
  id: '-oldw4D8usGfU30igW68hw',
  sub: 'local:ada',
  user_handle: 'YSBoYW5kbGU',
  public_key: Buffer.from(
    'a501020326200121582080ad4db2f2dd235ba800dc5d13027e9ccd9ae42facf3015d0172e5515d6e3c0d22582063a5bbed7035fb09ae1c3953d6899ca73c46ce7d0c8151aa658f67e04da51afb',
    'hex',
  ),
  counter: 0,
  transports: ['internal'],
  name: 'Laptop',
  is_backup_eligible: false,
  is_backed_up: false,
  created_at: '2026-01-01T00:00:00.000Z',
}

const RESPONSE = {
  id: STORED.id,
  rawId: STORED.id,
  type: 'public-key',
  clientExtensionResults: {},
  response: {
    clientDataJSON:
      'eyJ0eXBlIjoid2ViYXV0aG4uZ2V0IiwiY2hhbGxlbmdlIjoiWm1sNFpXUWdZMmhoYkd4bGJtZGwiLCJvcmlnaW4iOiJodHRwczovL2NoYXQuZXhhbXBsZSIsImNyb3NzT3JpZ2luIjpmYWxzZX0',
    authenticatorData: 'jS6zLZBwGFz565ZvUlxuxlc6Q7mKsRBBnbnSjzOzTjgdAAAABw',
    signature: 'MEUCIGHoellf3O7rPMy0Fm09d9rQDG_wcdVo9LmJsq--BnA6AiEAseDQXwwNZQu1wWe_lK2UZRC9uKo8OAmR8XoRfgvuRtg',
    userHandle: STORED.user_handle,
  },
} as const

suite('a passkey stored earlier', () => {
  test('verifies, also with other backup flags than at registration', async () => {
    assert.deepEqual(await verifyAuthentication(HOST, RESPONSE, CHALLENGE, STORED), {
      id: STORED.id,
      counter: 7,
      is_backup_eligible: true,
      is_backed_up: true,
    })
  })

  test('does not verify at another address or with another challenge', async () => {
    const unverified = isRefusal('invalid', 'could not be verified')
    for (const webBase of ['https://other.example', 'https://chat.example:8443', 'http://localhost:8080'])
      await assert.rejects(verifyAuthentication({ webBase }, RESPONSE, CHALLENGE, STORED), unverified)
    await assert.rejects(verifyAuthentication(HOST, RESPONSE, 'AAAA', STORED), unverified)
    const damaged = { ...STORED, public_key: STORED.public_key.subarray(0, 40) }
    await assert.rejects(verifyAuthentication(HOST, RESPONSE, CHALLENGE, damaged), unverified)
  })

  test('is not asked for where browsers allow no passkeys', async () => {
    const refused = isRefusal('unsupported', 'Passkeys need a host name')
    await assert.rejects(verifyAuthentication({ webBase: 'http://192.168.1.5' }, RESPONSE, CHALLENGE, STORED), refused)
  })
})
