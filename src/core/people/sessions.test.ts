import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seededRandom } from '../../../test/support/clock.ts'
import { onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { hashToken } from '../links/link-token.ts'
import { openKeyring } from '../secrets/keyring.ts'
import {
  createSession,
  findToken,
  isLive,
  revokeOtherSessions,
  revokeSession,
  rotateToken,
  sessions,
  sessionTokens,
  successorOf,
} from './sessions.ts'

const HOUR_MS = 3_600_000

const begin = ({ host }: TestHost, sub = 'local:ada') =>
  host.engine.transaction((tx) =>
    createSession(tx, host, { sub, kind: 'browser', method: 'link', idleMs: HOUR_MS, maxMs: 10 * HOUR_MS }),
  )

onEveryEngine('sessions', (engine) => {
  test('the store alone is not enough to make a token: it has hashes, and successors need SECRETS_KEY', async (t) => {
    const on = await testHost(t, engine)
    const { token } = await begin(on)
    const rows = await on.host.engine.read(async (tx) => [await sessions.list(tx), await sessionTokens.list(tx)])
    const stored = JSON.stringify(rows, (_, value) =>
      value instanceof Uint8Array ? Buffer.from(value).toString('base64url') : value,
    )
    assert.ok(!stored.includes(token))
    const successor = successorOf(on.host.keyring, token)
    assert.notEqual(successorOf(openKeyring('another key', seededRandom()), token), successor)
    assert.equal(successorOf(on.host.keyring, token), successor)
    assert.throws(() => successorOf(openKeyring(undefined), token), /SECRETS_KEY is not set/)
    // A hash presented as a token is hashed again.
    const [row] = await on.host.engine.read((tx) => sessionTokens.list(tx))
    const shown = Buffer.from(row?.token_hash ?? []).toString('base64url')
    assert.equal(await on.host.engine.read((tx) => findToken(tx, hashToken(shown))), undefined)
  })

  test('tokens are 256 random bits, different for each session', async (t) => {
    const on = await testHost(t, engine)
    const tokens = new Set<string>()
    for (let n = 0; n < 20; n++) tokens.add((await begin(on)).token)
    assert.equal(tokens.size, 20)
    for (const token of tokens) assert.equal(Buffer.from(token, 'base64url').length, 32)
  })

  test('fifty parallel rotations of one token make one successor', async (t) => {
    const on = await testHost(t, engine)
    const { token, session } = await begin(on)
    const rotate = () =>
      on.host.engine.transaction(async (tx) => {
        const found = await findToken(tx, hashToken(token))
        assert.ok(found)
        return rotateToken(tx, on.host, token, found, { keepsHistory: true })
      })
    const made = await Promise.all(Array.from({ length: 50 }, rotate))
    assert.equal(new Set(made).size, 1)
    const rows = await on.host.engine.read((tx) => sessionTokens.list(tx, { family_id: session.family_id }))
    assert.deepEqual(rows.map(({ generation }) => generation).sort(), [0, 1])
  })

  test('keeps the hashes of earlier tokens only if asked to', async (t) => {
    const on = await testHost(t, engine)
    for (const keepsHistory of [true, false]) {
      const { token, session } = await begin(on)
      let current = token
      for (let n = 0; n < 5; n++)
        current = await on.host.engine.transaction(async (tx) => {
          const found = await findToken(tx, hashToken(current))
          assert.ok(found)
          return rotateToken(tx, on.host, current, found, { keepsHistory })
        })
      const rows = await on.host.engine.read((tx) => sessionTokens.list(tx, { family_id: session.family_id }))
      assert.equal(rows.length, keepsHistory ? 6 : 2)
    }
  })

  test('revoking all others keeps the named session and those of other people', async (t) => {
    const on = await testHost(t, engine)
    const [kept, , , ben] = [await begin(on), await begin(on), await begin(on), await begin(on, 'local:ben')]
    const { engine: store } = on.host
    assert.equal(await store.transaction((tx) => revokeOtherSessions(tx, 'local:ada', kept.session.family_id)), 2)
    const live = async (token: string) => {
      const found = await store.read((tx) => findToken(tx, hashToken(token)))
      return found !== undefined && isLive(found, on.clock.now())
    }
    assert.deepEqual([await live(kept.token), await live(ben.token)], [true, true])
    assert.equal(await store.transaction((tx) => revokeSession(tx, kept.session.family_id)), true)
    assert.equal(await store.transaction((tx) => revokeSession(tx, kept.session.family_id)), false)
    assert.equal(await live(kept.token), false)
  })
})
