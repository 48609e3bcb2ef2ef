// Codes of authorizations and devices, and registrations.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, type TestHost, testHost } from '../../test/support/host.ts'
import { run } from '../../test/support/sql.ts'
import { authorizationCodes, CODE_TTL_MS } from '../core/people/authorization-codes.ts'
import { DEVICE_CODE_TTL_MS, DEVICE_CODES, deviceCodes } from '../core/people/device-codes.ts'
import {
  findRegisteredClient,
  oauthClients,
  REGISTRATIONS,
  UNUSED_REGISTRATION_MS,
  USED_REGISTRATION_MS,
} from '../core/people/oauth-clients.ts'
import { sessions } from '../core/people/sessions.ts'
import { audit } from '../registry/audit.ts'
import { oauthClientsResource } from './oauth-clients.ts'

const { allow, decide_device, exchange_code, poll_device, refresh, register, request_device, revoke } =
  oauthClientsResource.verbs

const VERIFIER = 'v'.repeat(43)
const ADA = { kind: 'person', sub: 'github:1', session: 's' } as const
const CLIENT = { client_id: 'client-a', client_name: 'A' }
const TARGET = { aud: 'svc:test', scope: 'account' }
const GRANT = {
  ...CLIENT,
  ...TARGET,
  redirect_uri: 'http://127.0.0.1:1/cb',
  challenge: hash('sha256', VERIFIER, 'base64url'),
}

function exchangeOf(code: string, changes: object = {}) {
  const { client_id, redirect_uri } = GRANT
  return { client_id, redirect_uri, code, code_verifier: VERIFIER, ...changes }
}

const codeOf = async (on: TestHost): Promise<string> => (await on.as(ADA, 'dash').call(allow, GRANT)).code
const client = (on: TestHost) => on.as({ kind: 'service', sub: 'service:authd' })
const auditOf = ({ host }: TestHost, action: string) => host.engine.read((tx) => audit.list(tx, { action }))

onEveryEngine('an authorization code', (engine) => {
  /** Each condition alone refuses; together with any other they refuse as well. */
  test('is refused for each wrong condition, alone and with others', async (t) => {
    const CONDITIONS = {
      'wrong client': { client_id: 'client-b' },
      'wrong redirect': { redirect_uri: 'http://127.0.0.1:2/cb' },
      'wrong verifier': { code_verifier: 'w'.repeat(43) },
    }
    const names = [...Object.keys(CONDITIONS), 'expired', 'used']
    const on = await testHost(t, engine)
    for (let mask = 0; mask < 2 ** names.length; mask++) {
      const wrong = names.filter((_, bit) => mask & (1 << bit))
      const code = await codeOf(on)
      if (wrong.includes('used'))
        assert.equal((await client(on).call(exchange_code, exchangeOf(code))).error, undefined)
      if (wrong.includes('expired')) on.clock.advance(CODE_TTL_MS)
      const changes = Object.entries(CONDITIONS).map(([name, change]) => (wrong.includes(name) ? change : {}))
      const reply = await client(on).call(exchange_code, exchangeOf(code, Object.assign({}, ...changes)))
      assert.equal(reply.error, wrong.length > 0 ? 'invalid_grant' : undefined, wrong.join(', '))
      assert.equal(reply.refresh_token === undefined, wrong.length > 0, wrong.join(', '))
    }
  })

  test('needs the verifier of its challenge in the S256 form', async (t) => {
    const on = await testHost(t, engine)
    const code = await codeOf(on)
    const wrong = ['', GRANT.challenge, 'v'.repeat(42), `${VERIFIER} `, 'v'.repeat(129), 'é'.repeat(43)]
    for (const code_verifier of wrong) {
      const reply = await client(on).call(exchange_code, exchangeOf(code, { code_verifier }))
      assert.equal(reply.error, 'invalid_grant', code_verifier)
    }
    await on.host.engine.transaction((tx) =>
      authorizationCodes.update(tx, { client_id: 'client-a' }, { challenge_method: 'plain', challenge: VERIFIER }),
    )
    assert.equal((await client(on).call(exchange_code, exchangeOf(code))).error, 'invalid_grant')
  })

  test('works for 60 seconds', async (t) => {
    const on = await testHost(t, engine)
    const code = await codeOf(on)
    on.clock.advance(CODE_TTL_MS - 1)
    assert.equal((await client(on).call(exchange_code, exchangeOf(code))).error, undefined)
  })

  test('its reuse ends the session that it started, is audited, and is recognized for a day', async (t) => {
    const on = await testHost(t, engine)
    const code = await codeOf(on)
    const { family_id = '' } = await client(on).call(exchange_code, exchangeOf(code))
    on.clock.advance(CODE_TTL_MS + 20 * 3_600_000)
    await codeOf(on)
    assert.equal((await client(on).call(exchange_code, exchangeOf(code))).error, 'invalid_grant')
    const session = await on.host.engine.read((tx) => sessions.find(tx, { family_id }))
    assert.equal(session?.status, 'revoked')
    const rows = await auditOf(on, 'oauth_clients.exchange_code')
    assert.deepEqual(
      rows.map(({ params_summary }) => params_summary.includes('is_reused')),
      [false, true],
    )
    assert.doesNotMatch(JSON.stringify(rows), new RegExp(`${code}|${VERIFIER}`))
    on.clock.advance(5 * 3_600_000)
    await codeOf(on)
    assert.equal(await on.host.engine.read((tx) => authorizationCodes.count(tx)), 2)
  })

  test('of parallel exchanges at most one gets tokens', async (t) => {
    const on = await testHost(t, engine)
    const code = await codeOf(on)
    const replies = await Promise.all(
      Array.from({ length: 10 }, () => client(on).call(exchange_code, exchangeOf(code))),
    )
    assert.equal(replies.filter(({ refresh_token }) => refresh_token !== undefined).length, 1)
    assert.equal((await on.host.engine.read((tx) => sessions.list(tx))).length, 1)
  })

  test('is bound to its resource, and a request for another does not use it up', async (t) => {
    const on = await testHost(t, engine)
    const code = await codeOf(on)
    const other = exchangeOf(code, { aud: 'http://localhost:8080/mcp' })
    assert.equal((await client(on).call(exchange_code, other)).error, 'invalid_target')
    assert.equal((await client(on).call(exchange_code, exchangeOf(code, { aud: 'svc:test' }))).aud, 'svc:test')
  })

  test('is given to people with a browser session only', async (t) => {
    const on = await testHost(t, engine)
    for (const caller of [
      { kind: 'person', sub: 'github:1' },
      { kind: 'service', sub: 'service:x' },
    ] as const) {
      await assert.rejects(on.as(caller).call(allow, GRANT), isRefusal('forbidden', 'needs a browser session'))
      const decision = { user_code: 'BBBBBBBB', is_allowed: true }
      await assert.rejects(on.as(caller).call(decide_device, decision), isRefusal('forbidden'))
    }
    await codeOf(on)
    const [denied, , row] = await auditOf(on, 'oauth_clients.allow')
    assert.deepEqual([denied?.outcome, row?.actor, row?.key], ['denied', 'github:1', 'client-a'])
  })

  test('the store alone does not tell it', async (t) => {
    const on = await testHost(t, engine)
    const code = await codeOf(on)
    const [row] = await on.host.engine.read((tx) => authorizationCodes.list(tx))
    assert.notEqual(Buffer.from(row?.code_hash ?? []).toString('base64url'), code)
  })
})

onEveryEngine('a device code', (engine) => {
  const requested = (on: TestHost, address?: string) =>
    client(on).call(request_device, { ...CLIENT, ...TARGET, address })
  const poll = (on: TestHost, device_code: string, client_id = CLIENT.client_id) =>
    client(on).call(poll_device, { client_id, device_code })
  const decide = (on: TestHost, user_code: string, is_allowed: boolean) =>
    on.as(ADA, 'dash').call(decide_device, { user_code: user_code.replace('-', ''), is_allowed })

  test('is pending, slowed down when polled too fast, and used once after it was allowed', async (t) => {
    const on = await testHost(t, engine)
    const { device_code, user_code } = await requested(on)
    assert.match(user_code, /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/)
    assert.equal((await poll(on, device_code)).error, 'authorization_pending')
    on.clock.advance(4999)
    assert.equal((await poll(on, device_code)).error, 'slow_down')
    on.clock.advance(9999)
    assert.equal((await poll(on, device_code)).error, 'slow_down')
    on.clock.advance(15_000)
    assert.equal((await poll(on, device_code)).error, 'authorization_pending')
    assert.equal((await poll(on, device_code, 'client-b')).error, 'invalid_grant')
    const elsewhere = { client_id: CLIENT.client_id, device_code, aud: 'http://localhost:8080/mcp' }
    assert.equal((await client(on).call(poll_device, elsewhere)).error, 'invalid_target')
    await decide(on, user_code, true)
    await assert.rejects(decide(on, user_code, false), isRefusal('not_found'))
    on.clock.advance(15_000)
    assert.equal((await poll(on, device_code)).sub, 'github:1')
    assert.equal((await poll(on, device_code)).error, 'invalid_grant')
    const [decided] = await auditOf(on, 'oauth_clients.decide_device')
    assert.match(decided?.params_summary ?? '', /client-a/)
  })

  test('of parallel polls one gets the session', async (t) => {
    const on = await testHost(t, engine)
    const { device_code, user_code } = await requested(on)
    await decide(on, user_code, true)
    const replies = await Promise.all(Array.from({ length: 10 }, () => poll(on, device_code)))
    assert.equal(replies.filter(({ refresh_token }) => refresh_token !== undefined).length, 1)
    assert.equal((await on.host.engine.read((tx) => sessions.list(tx))).length, 1)
  })

  test('is denied, or expires after 10 minutes', async (t) => {
    const on = await testHost(t, engine)
    const [denied, late] = [await requested(on), await requested(on)]
    await decide(on, denied.user_code, false)
    assert.equal((await poll(on, denied.device_code)).error, 'access_denied')
    on.clock.advance(DEVICE_CODE_TTL_MS - 1)
    assert.equal((await poll(on, late.device_code)).error, 'authorization_pending')
    on.clock.advance(1)
    assert.equal((await poll(on, late.device_code)).error, 'expired_token')
    await assert.rejects(decide(on, late.user_code, true), isRefusal('not_found', 'this code is not valid'))
  })

  test('is one of at most 1,000, and old ones make room', async (t) => {
    const on = await testHost(t, engine)
    await requested(on)
    on.clock.advance(DEVICE_CODE_TTL_MS + 3_600_001)
    const { device_code } = await requested(on)
    assert.equal(await on.host.engine.read((tx) => deviceCodes.count(tx)), 1)
    const [row] = await on.host.engine.read((tx) => deviceCodes.list(tx))
    assert.ok(row)
    await on.host.engine.transaction(async (tx) => {
      for (let index = 1; index < DEVICE_CODES.max; index++) {
        const id = Buffer.from(`${index}`)
        await deviceCodes.insert(tx, { ...row, device_hash: id, user_code_hash: id, status: 'denied' })
      }
    })
    // The only unused one gives way, then none is left.
    const last = await requested(on, '192.0.2.1')
    assert.equal((await poll(on, device_code)).error, 'invalid_grant')
    await decide(on, last.user_code, true)
    await assert.rejects(requested(on), isRefusal('rate_limited', 'too many device codes'))
  })

  test('of a flood from many networks gives way, oldest first; those of others stay', async (t) => {
    const on = await testHost(t, engine)
    const mine = await requested(on, '2001:db8:ffff::1')
    const other = await requested(on, '192.0.2.7')
    const flood = async (network: number, count: number): Promise<string[]> => {
      const codes: string[] = []
      for (let index = 0; index < count; index++) {
        on.clock.advance(1)
        codes.push((await requested(on, `2001:db8:${network}:${index}::1`)).device_code)
      }
      return codes
    }
    const [first = ''] = await flood(1, DEVICE_CODES.networkMax)
    assert.equal((await poll(on, first)).error, 'authorization_pending')
    // One network has at most 100, whatever it sends.
    await flood(1, 2)
    assert.equal((await poll(on, first)).error, 'invalid_grant')
    assert.equal(await on.host.engine.read((tx) => deviceCodes.count(tx)), 2 + DEVICE_CODES.networkMax)
    // All networks together have at most 1,000.
    for (let network = 2; network < 12; network++) await flood(network, DEVICE_CODES.networkMax)
    assert.equal(await on.host.engine.read((tx) => deviceCodes.count(tx)), DEVICE_CODES.max)
    for (const { device_code } of [mine, other])
      assert.equal((await poll(on, device_code)).error, 'authorization_pending')
    await decide(on, mine.user_code, true)
  })
})

onEveryEngine('a registration', (engine) => {
  const METADATA = { client_name: 'A', redirect_uris: ['http://localhost/cb'], grant_types: ['authorization_code'] }
  const find = ({ host, clock }: TestHost, id: string) =>
    host.engine.read((tx) => findRegisteredClient(tx, id, clock.now()))

  test('expires after a day without use, and 90 days after its last use', async (t) => {
    const on = await testHost(t, engine)
    const [unused, used] = [await client(on).call(register, METADATA), await client(on).call(register, METADATA)]
    const { code } = await on.as(ADA, 'dash').call(allow, { ...GRANT, client_id: used.client_id })
    const exchange = exchangeOf(code, { client_id: used.client_id })
    const { refresh_token } = await client(on).call(exchange_code, exchange)
    on.clock.advance(UNUSED_REGISTRATION_MS - 1)
    assert.ok(await find(on, unused.client_id))
    on.clock.advance(1)
    assert.equal(await find(on, unused.client_id), undefined)
    on.clock.advance(20 * 24 * 3_600_000)
    const input = { client_id: used.client_id, refresh_token, is_allowed: true }
    assert.equal((await client(on).call(refresh, input)).error, undefined)
    on.clock.advance(USED_REGISTRATION_MS - 1)
    assert.ok(await find(on, used.client_id))
    on.clock.advance(1)
    assert.equal(await find(on, used.client_id), undefined)
    await client(on).call(register, METADATA)
    assert.equal(await on.host.engine.read((tx) => oauthClients.count(tx)), 1)
    assert.deepEqual(await auditOf(on, 'oauth_clients.register'), [])
  })

  test('is one of at most 1,000: the oldest unused one of the largest network gives way', async (t) => {
    const on = await testHost(t, engine)
    const mine = await client(on).call(register, { ...METADATA, address: '192.0.2.7' })
    const insert = (from: number, to: number, changes: object) =>
      on.host.engine.transaction(async (tx) => {
        for (let index = from; index < to; index++)
          await oauthClients.insert(tx, { ...mine, client_id: `client-${index}`, ...changes })
      })
    await insert(1, 101, { network: 'network 2001:db8:1', created_at: '2025-12-31T00:00:00.000Z' })
    await client(on).call(register, { ...METADATA, address: '2001:db8:1:7::1' })
    const isThere = async (id: string) => (await find(on, id)) !== undefined
    // The network has its 100: its own oldest one made room.
    assert.deepEqual([await isThere('client-1'), await isThere('client-2')], [false, true])
    await insert(101, REGISTRATIONS.max, { network: 'network 2001:db8:2', used_at: '2026-01-01T00:00:00.000Z' })
    assert.equal(await on.host.engine.read((tx) => oauthClients.count(tx)), REGISTRATIONS.max)
    await client(on).call(register, { ...METADATA, address: '198.51.100.1' })
    assert.deepEqual([await isThere('client-10'), await isThere('client-100')], [false, true])
    assert.deepEqual([await isThere(mine.client_id), await isThere('client-999')], [true, true])
    await on.host.engine.transaction((tx) => run(tx, `update oauth_clients set used_at = '2026-01-01T00:00:00.000Z'`))
    await assert.rejects(client(on).call(register, METADATA), isRefusal('rate_limited', 'too many registered clients'))
  })
})

onEveryEngine('a refresh', (engine) => {
  const started = async (on: TestHost) => client(on).call(exchange_code, exchangeOf(await codeOf(on)))
  const use = (on: TestHost, refresh_token: string | undefined, changes: object = {}) =>
    client(on).call(refresh, { client_id: 'client-a', refresh_token, is_allowed: false, ...changes })

  test('needs a person who may still enter', async (t) => {
    const on = await testHost(t, engine)
    const { refresh_token } = await started(on)
    assert.equal((await use(on, refresh_token)).error, 'invalid_grant')
    assert.equal((await use(on, refresh_token, { is_allowed: true })).error, undefined)
    await on.grant('github:1', 'interact', 'team')
    const second = await started(on)
    assert.equal((await use(on, second.refresh_token)).error, undefined)
  })

  test('its late reuse is audited with the session, and ordinary refreshes are not', async (t) => {
    const on = await testHost(t, engine)
    const { refresh_token, family_id } = await started(on)
    assert.equal((await use(on, refresh_token, { is_allowed: true })).error, undefined)
    assert.deepEqual(await auditOf(on, 'oauth_clients.refresh'), [])
    on.clock.advance(60_000)
    assert.equal((await use(on, refresh_token, { is_allowed: true })).error, 'invalid_grant')
    const [row, more] = await auditOf(on, 'oauth_clients.refresh')
    assert.equal(more, undefined)
    assert.match(row?.params_summary ?? '', new RegExp(`"family_id":"${family_id}","sub":"github:1","is_reused":true`))
    assert.doesNotMatch(JSON.stringify(row), new RegExp(String(refresh_token)))
  })

  test('a revoked session refreshes no more, and revoking it again does nothing', async (t) => {
    const on = await testHost(t, engine)
    const { refresh_token, family_id } = await started(on)
    assert.deepEqual(await client(on).call(revoke, { family_id }), { is_revoked: true })
    assert.deepEqual(await client(on).call(revoke, { family_id }), { is_revoked: false })
    assert.equal((await use(on, refresh_token, { is_allowed: true })).error, 'invalid_grant')
    assert.equal((await auditOf(on, 'oauth_clients.revoke')).length, 1)
  })
})
