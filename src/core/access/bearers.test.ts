import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exportJWK, generateKeyPair, importJWK, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose'
import { overrideEngine } from '../../../test/support/engine-override.ts'
import { emptyStore, freshStore, isRefusal, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { until } from '../../../test/support/until.ts'
import { systemClock, systemRandom, timestamp } from '../../lib/clock.ts'
import { FaultBoundary } from '../../lib/fault-boundary.ts'
import { MetricRegistry } from '../../lib/log/metric-registry.ts'
import { openEngine, type StoreAddress } from '../../store/index.ts'
import { migrate } from '../../store/migrate.ts'
import { openKeyring } from '../secrets/keyring.ts'
import { ensureSigningKey } from '../secrets/signing-key-rotation.ts'
import { signingKeys } from '../secrets/signing-keys.ts'
import { type BearerHost, issueBearer, publicKeys, signBearer, verifyBearer } from './bearers.ts'
import { issuedBearers, revokeBearer } from './issued-bearers.ts'

const HOUR_MS = 3_600_000
const invalid = isRefusal('unauthenticated', /^the bearer is not valid$/)

/** Valid claims, which tests modify. */
function claimsOf({ clock, instance }: BearerHost): JWTPayload {
  const iat = Math.floor(clock.now() / 1000)
  return {
    iss: 'authd',
    aud: `svc:${instance}`,
    sub: 'github:1',
    typ: 'user',
    iat,
    nbf: iat,
    exp: iat + 3600,
    jti: 'j',
  }
}

async function sign(host: BearerHost, claims: JWTPayload, header: object = {}): Promise<string> {
  const key = await ensureSigningKey(host)
  const opened = host.keyring.open(key.private_sealed, `signing_key:${key.kid}`).toString()
  const secret = await importJWK(JSON.parse(opened), 'ES256')
  return new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid: key.kid, ...header }).sign(secret)
}

/** Simulates another process: it has its own key cache. */
async function openKeys(store: StoreAddress, secretsKey = 'a key'): Promise<BearerHost> {
  const engine = await openEngine(store)
  await migrate(engine, [signingKeys, issuedBearers], () => timestamp(0))
  const faults = new FaultBoundary(new MetricRegistry())
  return {
    instance: 'test',
    clock: systemClock,
    random: systemRandom,
    keyring: openKeyring(secretsKey),
    engine,
    faults,
  }
}

/** Counts reads of the store. */
function counted(host: BearerHost): { host: BearerHost; reads(): number } {
  let reads = 0
  const { engine } = host
  const read: BearerHost['engine']['read'] = (work) => {
    reads++
    return engine.read(work)
  }
  return { host: { ...host, engine: overrideEngine(engine, { read }) }, reads: () => reads }
}

/** A bearer with its row, as the verb makes it. */
async function listed(host: BearerHost, sub: string) {
  const signed = await signBearer(host, { sub })
  await host.engine.transaction((tx) => issuedBearers.insert(tx, { ...signed.row, created_by: 'cli' }))
  return signed
}

onEveryEngine('bearers', (engine) => {
  test('a bearer names its person and folder', async (t) => {
    const { host } = await testHost(t, engine)
    assert.deepEqual(await verifyBearer(host, await issueBearer(host, { sub: 'github:1' })), {
      kind: 'person',
      sub: 'github:1',
    })
    const bound = await issueBearer(host, { sub: 'github:1', folder: 'team/support' })
    assert.deepEqual(await verifyBearer(host, bound), { kind: 'person', sub: 'github:1', folder: 'team/support' })
  })

  test('a service bearer gives a service, not a person', async (t) => {
    const { host } = await testHost(t, engine)
    const bearer = await issueBearer(host, { sub: 'service:timed', kind: 'service' })
    assert.deepEqual(await verifyBearer(host, bearer), { kind: 'service', sub: 'service:timed' })
  })

  test('processes that start together create one key and all use it', async (t) => {
    const store = await emptyStore(t, engine)
    const first = await openKeys(store)
    const hosts = [first, ...(await Promise.all([openKeys(store), openKeys(store), openKeys(store)]))]
    t.after(() => Promise.all(hosts.map((host) => host.engine.close())))
    const keys = await Promise.all([...hosts, ...hosts].map(ensureSigningKey))
    assert.equal(new Set(keys.map(({ kid }) => kid)).size, 1)
    assert.equal(await first.engine.read((tx) => signingKeys.count(tx)), 1)
    const bearer = await issueBearer(first, { sub: 'github:1' })
    for (const host of hosts) assert.equal((await verifyBearer(host, bearer)).kind, 'person')
  })

  test('stores the private key sealed and shows it in no list or key set', async (t) => {
    const { host } = await testHost(t, engine)
    const key = await ensureSigningKey(host)
    assert.throws(() => JSON.parse(Buffer.from(key.private_sealed).toString()))
    assert.equal('d' in JSON.parse(key.public_jwk), false)
    const { keys } = await publicKeys(host)
    assert.deepEqual(Object.keys(keys[0] ?? {}).sort(), ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'])
  })

  test('a revoked bearer is refused at once in every process', async (t) => {
    const store = await freshStore(t, engine)
    const { host, clock } = await testHost(t, engine, store)
    const { host: other } = await testHost(t, engine, store)
    const [{ bearer, row }, kept] = [await listed(host, 'github:1'), await listed(host, 'github:1')]
    for (const each of [host, other, host, other]) assert.equal((await verifyBearer(each, bearer)).kind, 'person')
    assert.equal(await host.engine.transaction((tx) => revokeBearer(tx, row.id, timestamp(clock.now()))), true)
    for (const each of [host, other]) await assert.rejects(verifyBearer(each, bearer), invalid)
    assert.equal((await verifyBearer(other, kept.bearer)).kind, 'person')
    assert.equal(await host.engine.transaction((tx) => revokeBearer(tx, row.id, timestamp(clock.now()))), false)
  })

  test('records the last use at most once in ten minutes', async (t) => {
    const { host, clock } = await testHost(t, engine)
    const { bearer, row } = await listed(host, 'github:1')
    const used = async () => (await host.engine.read((tx) => issuedBearers.find(tx, { id: row.id })))?.last_used_at
    assert.equal(await used(), undefined)
    const first = timestamp(clock.now())
    await verifyBearer(host, bearer)
    await until(async () => (await used()) === first)
    clock.advance(599_999)
    await verifyBearer(host, bearer)
    // Transactions run in order, so the write would be over.
    await host.engine.transaction(async () => {})
    assert.equal(await used(), first)
    clock.advance(1)
    await verifyBearer(host, bearer)
    await until(async () => (await used()) === timestamp(clock.now()))
  })

  test('a retired key verifies the bearers it signed earlier until serves_until', async (t) => {
    const { host, clock } = await testHost(t, engine)
    const before = await issueBearer(host, { sub: 'github:1', ttlMs: 24 * HOUR_MS })
    const old = await ensureSigningKey(host)
    clock.advance(HOUR_MS)
    const retired_at = timestamp(clock.now())
    await host.engine.transaction(async (tx) => {
      const serves_until = timestamp(clock.now() + 2 * HOUR_MS)
      await signingKeys.update(tx, { kid: old.kid }, { active: false, status: 'retiring', retired_at, serves_until })
    })
    const forged = { ...claimsOf(host), iat: Math.floor(clock.now() / 1000) + 60 }
    const opened = host.keyring.open(old.private_sealed, `signing_key:${old.kid}`).toString()
    const secret = await importJWK(JSON.parse(opened), 'ES256')
    const after = await new SignJWT(forged).setProtectedHeader({ alg: 'ES256', kid: old.kid }).sign(secret)
    const next = await issueBearer(host, { sub: 'github:2' })
    clock.advance(61_000)
    assert.equal((await verifyBearer(host, before)).kind, 'person')
    assert.equal((await verifyBearer(host, next)).kind, 'person')
    await assert.rejects(verifyBearer(host, after), invalid)
    assert.equal((await publicKeys(host)).keys.length, 2)
    clock.advance(2 * HOUR_MS)
    await assert.rejects(verifyBearer(host, before), invalid)
    assert.equal((await publicKeys(host)).keys.length, 1)
  })
})

test('a bearer that was verified for one instance is refused by another on the same store', async (t) => {
  const { host } = await testHost(t)
  const bearer = await issueBearer(host, { sub: 'github:1' })
  assert.equal((await verifyBearer(host, bearer)).kind, 'person')
  await assert.rejects(verifyBearer({ ...host, instance: 'other' }, bearer), invalid)
})

test('a cached bearer expires exactly: the second before counts', async (t) => {
  const { host, clock } = await testHost(t)
  const bearer = await issueBearer(host, { sub: 'github:1' })
  await verifyBearer(host, bearer)
  clock.advance(HOUR_MS + 29_999)
  assert.equal((await verifyBearer(host, bearer)).kind, 'person')
  clock.advance(1)
  await assert.rejects(verifyBearer(host, bearer), invalid)
  clock.advance(-1)
  assert.equal((await verifyBearer(host, bearer)).kind, 'person')
  clock.advance(-HOUR_MS - 29_999 - 30_001)
  await assert.rejects(verifyBearer(host, bearer), invalid)
})

test('a bearer expires at its time, with 30 seconds of clock tolerance', async (t) => {
  const { host, clock } = await testHost(t)
  const bearer = await issueBearer(host, { sub: 'github:1' })
  clock.advance(HOUR_MS + 29_000)
  assert.equal((await verifyBearer(host, bearer)).kind, 'person')
  clock.advance(2000)
  await assert.rejects(verifyBearer(host, bearer), invalid)
  clock.advance(-2 * HOUR_MS)
  await assert.rejects(verifyBearer(host, bearer), invalid)
})

const INVALID_CLAIMS: Record<string, (claims: JWTPayload) => JWTPayload> = {
  'another issuer': (claims) => ({ ...claims, iss: 'https://evil.example' }),
  'no issuer': ({ iss, ...claims }) => claims,
  'another instance': (claims) => ({ ...claims, aud: 'svc:other' }),
  'no audience': ({ aud, ...claims }) => claims,
  'no expiry': ({ exp, ...claims }) => claims,
  'an expiry in the past': (claims) => ({ ...claims, exp: (claims.exp ?? 0) - 7200 }),
  'an expiry that is text': (claims) => ({ ...claims, exp: 'never' as never }),
  'no not-before time': ({ nbf, ...claims }) => claims,
  'a not-before time in the future': (claims) => ({ ...claims, nbf: (claims.nbf ?? 0) + 60 }),
  'no issue time': ({ iat, ...claims }) => claims,
  'no id': ({ jti, ...claims }) => claims,
  'no sub': ({ sub, ...claims }) => claims,
  'an unknown type': (claims) => ({ ...claims, typ: 'downscoped' }),
  'no type': ({ typ, ...claims }) => claims,
  'a service without its type': (claims) => ({ ...claims, sub: 'service:timed' }),
  'the type of a service and a person’s sub': (claims) => ({ ...claims, typ: 'service' }),
  'an agent’s principal': (claims) => ({ ...claims, sub: 'folder:main' }),
  'a role': (claims) => ({ ...claims, sub: 'role:operator' }),
  'an invalid folder': (claims) => ({ ...claims, folder: '../main' }),
}

for (const [what, spoil] of Object.entries(INVALID_CLAIMS)) {
  test(`a bearer with ${what} is refused even if signed with our key`, async (t) => {
    const { host } = await testHost(t)
    assert.equal((await verifyBearer(host, await sign(host, claimsOf(host)))).kind, 'person')
    await assert.rejects(verifyBearer(host, await sign(host, spoil(claimsOf(host)))), invalid)
  })
}

test('accepts only our key and ES256: no "none", no HS256 with the public key, no key in the header', async (t) => {
  const { host } = await testHost(t)
  const { kid, public_jwk } = await ensureSigningKey(host)
  const claims = claimsOf(host)
  const stranger = await generateKeyPair('ES256')
  const jwk = await exportJWK(stranger.publicKey)
  const by = (header: { alg: string; [more: string]: unknown }, key: CryptoKey | Uint8Array) =>
    new SignJWT(claims).setProtectedHeader(header).sign(key)
  const ours = await sign(host, claims)
  const [head = '', body = '', signature = ''] = ours.split('.')
  const unsecured = new UnsecuredJWT(claims).encode()
  const noneWithKid = `${Buffer.from(JSON.stringify({ alg: 'none', kid })).toString('base64url')}.${body}.`
  const forgeries = {
    unsecured,
    noneWithKid,
    unsignedTail: `${head}.${body}.`,
    hs256WithJwk: await by({ alg: 'HS256', kid }, Buffer.from(public_jwk)),
    hs256WithX: await by({ alg: 'HS256', kid }, Buffer.from(JSON.parse(public_jwk).x, 'base64url')),
    strangersKey: await by({ alg: 'ES256', kid }, stranger.privateKey),
    embedded: await by({ alg: 'ES256', jwk }, stranger.privateKey),
    embeddedWithKid: await by({ alg: 'ES256', kid, jwk }, stranger.privateKey),
    noKid: await sign(host, claims, { kid: undefined }),
    unknownKid: await sign(host, claims, { kid: 'x' }),
    prototype: await sign(host, claims, { kid: '__proto__' }),
    changedBody: `${head}.${Buffer.from(JSON.stringify({ ...claims, sub: 'github:2' })).toString('base64url')}.${signature}`,
    zeros: `${head}.${body}.${Buffer.alloc(64).toString('base64url')}`,
    short: `${head}.${body}.${signature.slice(0, 40)}`,
    twoParts: `${head}.${body}`,
    empty: '',
    dots: '..',
    garbage: 'not a bearer',
    arrayHeader: `${Buffer.from('[]').toString('base64url')}.${body}.${signature}`,
    numberKid: `${Buffer.from('{"alg":"ES256","kid":7}').toString('base64url')}.${body}.${signature}`,
  }
  for (const [what, text] of Object.entries(forgeries)) {
    await assert.rejects(verifyBearer(host, text), invalid, what)
  }
  assert.equal((await verifyBearer(host, ours)).kind, 'person')
})

test('verifies a signature once and reads the store once per check', async (t) => {
  const { host: plain } = await testHost(t)
  const { host, reads } = counted(plain)
  const bearer = await issueBearer(host, { sub: 'github:1' })
  const madeUp = await sign(plain, claimsOf(plain), { kid: 'made-up' })
  const start = reads()
  await verifyBearer(host, bearer)
  // The first check also reads the key.
  assert.equal(reads() - start, 2)
  for (let n = 0; n < 10; n++) await verifyBearer(host, bearer)
  assert.equal(reads() - start, 12)
  for (let n = 0; n < 10; n++) await assert.rejects(verifyBearer(host, madeUp), invalid)
  assert.equal(reads() - start, 22)
  await assert.rejects(verifyBearer(host, 'not.a.bearer'), invalid)
  assert.equal(reads() - start, 22)
})

test('reports a store failure as such, not as an invalid bearer', async (t) => {
  const { host: plain } = await testHost(t)
  const bearer = await issueBearer(plain, { sub: 'github:1' })
  let down = true
  const engine = {
    ...counted(plain).host.engine,
    read: ((work) =>
      down ? Promise.reject(new Error('down')) : plain.engine.read(work)) satisfies typeof plain.engine.read,
  }
  const host = { ...plain, engine }
  await assert.rejects(verifyBearer(host, bearer), /down/)
  down = false
  assert.equal((await verifyBearer(host, bearer)).kind, 'person')
})

test('does not issue a bearer with an invalid sub, folder or lifetime', async (t) => {
  const { host } = await testHost(t)
  const wrong = {
    'a sub without a provider': { sub: 'alice' },
    'a service as a person': { sub: 'service:timed' },
    'an agent as a person': { sub: 'folder:main' },
    'a role as a person': { sub: 'role:operator' },
    'a sender of a chat platform': { sub: 'discord:7' },
    'a person as a service': { sub: 'github:1', kind: 'service' as const },
    'a service with a folder': { sub: 'service:timed', kind: 'service' as const, folder: 'main' },
    'an invalid folder': { sub: 'github:1', folder: '/etc' },
    'a lifetime of 0': { sub: 'github:1', ttlMs: 0 },
    'more than 30 days': { sub: 'github:1', ttlMs: 30 * 24 * HOUR_MS + 1 },
    'a lifetime that is not a number': { sub: 'github:1', ttlMs: Number.NaN },
  }
  for (const [what, request] of Object.entries(wrong)) {
    await assert.rejects(issueBearer(host, request), isRefusal('invalid'), what)
  }
  await assert.rejects(
    issueBearer(host, { sub: 'discord:7' }),
    isRefusal('invalid', 'sub must be a person with an account (google, github, local, oidc), such as github:42'),
  )
  for (const sub of ['google:1', 'local:1', 'oidc:1']) await issueBearer(host, { sub })
  await issueBearer(host, { sub: 'github:1', ttlMs: 30 * 24 * HOUR_MS })
})

test('explains that SECRETS_KEY is missing instead of creating a key', async (t) => {
  const store = await emptyStore(t, 'sqlite')
  const host = await openKeys(store, '')
  t.after(() => host.engine.close())
  await assert.rejects(ensureSigningKey(host), isRefusal('unavailable', 'SECRETS_KEY is not set'))
})
