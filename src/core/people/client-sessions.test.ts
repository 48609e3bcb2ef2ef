// Refresh tokens: rotation, repeats, reuse.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { type EngineName, freshStore, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { runs } from '../../../test/support/part.ts'
import { openKeyring } from '../secrets/keyring.ts'
import {
  CLIENT_IDLE_MS,
  CLIENT_MAX_MS,
  REPEAT_MS,
  type RefreshVerdict,
  refreshClientSession,
  startClientSession,
} from './client-sessions.ts'
import { revokeSession, type SessionHost, sessions, sessionTokens, successorOf } from './sessions.ts'

const GRANT = { sub: 'github:1', clientId: 'c', clientName: 'A client', aud: 'svc:test', scope: 'account' }

const start = ({ host }: TestHost) => host.engine.transaction((tx) => startClientSession(tx, host, GRANT))

const refresh = (on: TestHost, token: string, clientId = 'c', as: SessionHost = on.host): Promise<RefreshVerdict> =>
  on.host.engine.transaction((tx) => refreshClientSession(tx, as, { token, clientId }))

async function refreshed(on: TestHost, token: string): Promise<string> {
  const verdict = await refresh(on, token)
  assert.ok(verdict.outcome === 'refreshed', verdict.outcome)
  return verdict.token
}

const statusOf = async ({ host }: TestHost, family_id: string) =>
  (await host.engine.read((tx) => sessions.find(tx, { family_id })))?.status

/** Two processes on one store, with one clock. */
async function processes(t: TestContext, engine: EngineName): Promise<[TestHost, TestHost]> {
  const store = await freshStore(t, engine)
  const [first, second] = [await testHost(t, engine, store), await testHost(t, engine, store)]
  return [first, second]
}

onEveryEngine('refresh tokens', (engine) => {
  test('each use gives a successor, and the session lasts longer', async (t) => {
    const on = await testHost(t, engine)
    const { session, token } = await start(on)
    on.clock.advance(CLIENT_IDLE_MS - 1)
    const second = await refreshed(on, token)
    assert.notEqual(second, token)
    on.clock.advance(CLIENT_IDLE_MS - 1)
    await refreshed(on, second)
    const row = await on.host.engine.read((tx) => sessions.find(tx, { family_id: session.family_id }))
    assert.deepEqual([row?.rotations, row?.status], [2, 'active'])
  })

  test('a token ends after 30 days without use, and after 180 days in any case', async (t) => {
    const on = await testHost(t, engine)
    const unused = await start(on)
    on.clock.advance(CLIENT_IDLE_MS)
    assert.equal((await refresh(on, unused.token)).outcome, 'refused')
    let { token } = await start(on)
    const startedMs = on.clock.now()
    while (on.clock.now() - startedMs + 20 * 24 * 3_600_000 < CLIENT_MAX_MS) {
      on.clock.advance(20 * 24 * 3_600_000)
      token = await refreshed(on, token)
    }
    on.clock.advance(startedMs + CLIENT_MAX_MS - 1 - on.clock.now())
    token = await refreshed(on, token)
    on.clock.advance(1)
    assert.equal((await refresh(on, token)).outcome, 'refused')
  })

  test('a repeat within 60 seconds gets the same successor and starts no second branch', async (t) => {
    const on = await testHost(t, engine)
    const { session, token } = await start(on)
    const successor = await refreshed(on, token)
    on.clock.advance(REPEAT_MS - 1)
    assert.equal(await refreshed(on, token), successor)
    const tokens = await on.host.engine.read((tx) => sessionTokens.list(tx, { family_id: session.family_id }))
    assert.deepEqual(tokens.map(({ generation }) => generation).sort(), [0, 1])
    await refreshed(on, successor)
  })

  test('a later reuse ends the session with every token of it', async (t) => {
    const on = await testHost(t, engine)
    const { session, token } = await start(on)
    const successor = await refreshed(on, token)
    on.clock.advance(REPEAT_MS)
    assert.equal((await refresh(on, token)).outcome, 'reused')
    assert.equal(await statusOf(on, session.family_id), 'revoked')
    for (const each of [token, successor]) assert.equal((await refresh(on, each)).outcome, 'refused')
  })

  test('an older token ends the session as soon as its successor was used', async (t) => {
    const on = await testHost(t, engine)
    const { session, token } = await start(on)
    const second = await refreshed(on, token)
    assert.equal(await refreshed(on, token), second)
    const third = await refreshed(on, second)
    assert.equal((await refresh(on, token)).outcome, 'reused')
    assert.equal(await statusOf(on, session.family_id), 'revoked')
    for (const each of [token, second, third]) assert.equal((await refresh(on, each)).outcome, 'refused')
  })

  test('50 parallel refreshes in two processes give one successor', async (t) => {
    const [first, second] = await processes(t, engine)
    const { session, token } = await start(first)
    const verdicts = await Promise.all(
      Array.from({ length: 50 }, (_, index) => refresh(index % 2 ? first : second, token)),
    )
    const given = new Set(
      verdicts.map((verdict) => (verdict.outcome === 'refreshed' ? verdict.token : verdict.outcome)),
    )
    assert.equal(given.size, 1)
    const row = await first.host.engine.read((tx) => sessions.find(tx, { family_id: session.family_id }))
    assert.equal(row?.rotations, 1)
    const [successor = ''] = given
    await refreshed(second, successor)
  })

  test('a process that dies after the commit leaves the same successor to the next', async (t) => {
    const [first, second] = await processes(t, engine)
    const { token } = await start(first)
    // The answer is lost.
    await refreshed(first, token)
    const successor = await refreshed(second, token)
    assert.notEqual(await refreshed(second, successor), successor)
  })

  test('a token of another client, of a browser, or an unknown one is refused and ends nothing', async (t) => {
    const on = await testHost(t, engine)
    const { session, token } = await start(on)
    assert.equal((await refresh(on, token, 'other')).outcome, 'refused')
    assert.equal((await refresh(on, 'A'.repeat(43))).outcome, 'refused')
    assert.equal((await refresh(on, '')).outcome, 'refused')
    await on.host.engine.transaction((tx) => sessions.update(tx, { family_id: session.family_id }, { kind: 'browser' }))
    assert.equal((await refresh(on, token)).outcome, 'refused')
    assert.equal(await statusOf(on, session.family_id), 'active')
  })

  test('after a change of SECRETS_KEY a repeat starts no second branch', async (t) => {
    const on = await testHost(t, engine)
    const { token } = await start(on)
    await refreshed(on, token)
    const changed = { ...on.host, keyring: openKeyring('another key') }
    assert.notEqual(successorOf(changed.keyring, token), successorOf(on.host.keyring, token))
    assert.equal((await refresh(on, token, 'c', changed)).outcome, 'refused')
    assert.equal(await sessionTokensCount(on), 2)
  })

  test('the store alone does not tell a token or its successor', async (t) => {
    const on = await testHost(t, engine)
    const { token } = await start(on)
    const successor = await refreshed(on, token)
    const rows = await on.host.engine.read(async (tx) => [await sessions.list(tx), await sessionTokens.list(tx)])
    const stored = JSON.stringify(rows, (_, value) =>
      value?.type === 'Buffer' ? Buffer.from(value.data).toString('base64url') : value,
    )
    for (const secret of [token, successor]) assert.ok(!stored.includes(secret))
  })
})

const sessionTokensCount = ({ host }: TestHost): Promise<number> => host.engine.read((tx) => sessionTokens.count(tx))

type Step = { readonly kind: 'use' | 'revoke'; readonly back: number; readonly waitMs: number }

/** `back`: how many generations before the newest token. */
const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('use', 'use', 'use', 'use', 'use', 'revoke') as fc.Arbitrary<Step['kind']>,
  back: fc.constantFrom(0, 0, 0, 1, 1, 2),
  waitMs: fc.constantFrom(0, 1000, 30_000, REPEAT_MS - 1, REPEAT_MS, CLIENT_IDLE_MS / 2, CLIENT_IDLE_MS),
})

test('any sequence of uses keeps one living branch and follows the model', async (t) => {
  const on = await testHost(t)
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
      const { session, token } = await start(on)
      const chain = [token]
      const usedAt: number[] = []
      let isActive = true
      let expiresMs = on.clock.now() + CLIENT_IDLE_MS
      const endsMs = on.clock.now() + CLIENT_MAX_MS
      for (const { kind, back, waitMs } of steps) {
        on.clock.advance(waitMs)
        const now = on.clock.now()
        if (kind === 'revoke') {
          await on.host.engine.transaction((tx) => revokeSession(tx, session.family_id))
          isActive = false
          continue
        }
        const index = Math.max(0, chain.length - 1 - back)
        const verdict = await refresh(on, chain[index] ?? '')
        const first = usedAt[index]
        if (!isActive || now >= expiresMs || now >= endsMs) {
          assert.equal(verdict.outcome, 'refused')
        } else if (first === undefined) {
          assert.ok(verdict.outcome === 'refreshed')
          assert.ok(!chain.includes(verdict.token))
          chain.push(verdict.token)
          usedAt[index] = now
          expiresMs = Math.min(now + CLIENT_IDLE_MS, endsMs)
        } else if (now - first < REPEAT_MS && usedAt[index + 1] === undefined) {
          assert.ok(verdict.outcome === 'refreshed')
          assert.equal(verdict.token, chain[index + 1])
        } else {
          assert.equal(verdict.outcome, 'reused')
          isActive = false
        }
        const rows = await on.host.engine.read((tx) => sessionTokens.list(tx, { family_id: session.family_id }))
        assert.equal(rows.length, chain.length)
        assert.equal(rows.filter(({ replaced_at }) => replaced_at === undefined).length, 1)
      }
    }),
    { numRuns: runs(60, 500) },
  )
})
