// The rules of the verbs; src/daemons/authd/passkey-routes.test.ts calls them over HTTP.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, person, testHost } from '../../test/support/host.ts'
import { isCounterFall, type PasskeyRow, passkeys, takeChallenge } from '../core/people/passkeys.ts'
import { passkeysResource } from './passkeys.ts'

const { add, list, remove, rename } = passkeysResource.verbs

const row = (id: string, sub: string, created_at = '2026-01-01T00:00:00.000Z'): PasskeyRow => ({
  id,
  sub,
  user_handle: `handle-${id}`,
  public_key: Buffer.from('key'),
  counter: 0,
  transports: ['internal', 'hybrid'],
  name: id,
  is_backup_eligible: true,
  is_backed_up: false,
  created_at,
})

onEveryEngine('passkeys', (engine) => {
  test('are listed to their owner and to operators, without key and handle', async (t) => {
    const s = await testHost(t, engine)
    await s.operator('local:root')
    await s.host.engine.transaction(async (tx) => {
      for (const added of [
        row('b', 'local:ada', '2026-01-02T00:00:00.000Z'),
        row('c', 'local:ada'),
        row('x', 'local:bob'),
      ])
        await passkeys.insert(tx, added)
    })
    const { user_handle: _, public_key: __, ...shown } = row('c', 'local:ada')
    const { passkeys: own } = await s.as(person('local:ada')).call(list, {})
    assert.deepEqual([own[0], own.map(({ id }) => id)], [shown, ['c', 'b']])
    const ids = async (sub: string, of: string) =>
      (await s.as(person(sub)).call(list, { sub: of })).passkeys.map(({ id }) => id)
    assert.deepEqual(await ids('local:root', 'local:bob'), ['x'])
    await assert.rejects(ids('local:ada', 'local:bob'), isRefusal('forbidden', 'only your own'))
  })

  test('are changed only by their owner; operators may remove them', async (t) => {
    const s = await testHost(t, engine)
    await s.operator('local:root')
    await s.host.engine.transaction((tx) => passkeys.insert(tx, row('a', 'local:ada')))
    const unknown = isRefusal('not_found', 'there is no such passkey')
    for (const sub of ['local:bob', 'local:root'])
      await assert.rejects(s.as(person(sub)).call(rename, { id: 'a', name: 'n' }), unknown)
    await assert.rejects(s.as(person('local:bob')).call(remove, { id: 'a' }), unknown)
    await s.as(person('local:root')).call(remove, { id: 'a' })
    await assert.rejects(s.as(person('local:root')).call(remove, { id: 'a' }), unknown)
  })

  test('are not added with a bearer or with a session that is not there', async (t) => {
    const s = await testHost(t, engine)
    const { sub: _, created_at: __, ...input } = row('a', 'local:ada')
    const raw = { ...input, challenge: 'c', expires_ms: s.clock.now() + 1 }
    await assert.rejects(s.as(person('local:ada')).call(add, raw), isRefusal('forbidden', 'not a bearer'))
    const caller = { kind: 'person', sub: 'local:ada', session: 'none' } as const
    await assert.rejects(s.as(caller, 'dash').call(add, raw), isRefusal('forbidden', 'the last 15 minutes'))
  })

  test('of parallel uses of one challenge, one is the first', async (t) => {
    const s = await testHost(t, engine)
    const take = () => s.host.engine.transaction((tx) => takeChallenge(tx, 'c', 2_000, 1_000))
    const taken = await Promise.all([take(), take(), take()])
    assert.equal(taken.filter(Boolean).length, 1)
  })
})

test('a counter must rise unless the authenticator does not count', () => {
  const isFall = (stored: number, presented: number) => isCounterFall({ counter: stored }, presented)
  assert.deepEqual([isFall(0, 0), isFall(0, 1), isFall(4, 5)], [false, false, false])
  assert.deepEqual([isFall(4, 4), isFall(4, 3), isFall(4, 0)], [true, true, true])
})
