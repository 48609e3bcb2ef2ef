// REST bearers: ES256 tokens that the host signs and every daemon can check. What a bearer may do is not in it: rights are
// read at every call.
import { z } from 'zod'
import { type Clock, type Random, timestamp, uuidv7 } from '../lib/clock.ts'
import { parse } from '../lib/parse.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import type { Engine, Tx } from '../store/engine.ts'
import type { Caller } from './caller.ts'
import { findKey, forgetKeys } from './known-keys.ts'
import { ACCOUNT_NAMESPACES, isAccount } from './namespaces.ts'
import type { Keyring } from './seal.ts'
import { type SigningKey, signingKeys } from './signing-keys.ts'
import { Folder, Sub } from './values.ts'

export interface BearerHost {
  readonly instance: string
  readonly clock: Clock
  readonly random: Random
  readonly keyring: Keyring
  readonly engine: Engine
}

export interface BearerRequest {
  /** `<provider>:<id>` of a person, or `service:<name>`. */
  readonly sub: string
  /** The folder that the person acts from. */
  readonly folder?: string | undefined
  readonly ttlMs?: number | undefined
  readonly kind?: 'user' | 'service' | undefined
}

type Key = z.output<typeof SigningKey>

export const DEFAULT_TTL_MS = 3_600_000
export const MAX_TTL_MS = 30 * 24 * 3_600_000
const ALG = 'ES256'
const ISSUER = 'authd'
const SKEW_S = 30

const Service = z.string().regex(/^service:[a-z][a-z0-9-]{0,63}$/)
/** Only namespaces that no adapter may use: a bearer and a sender of the same name are the same principal. */
const Person = Sub.refine(
  isAccount,
  `must be a person with an account (${ACCOUNT_NAMESPACES.join(', ')}), such as github:42`,
)

const Claims = z.discriminatedUnion('typ', [
  z.object({ typ: z.literal('user'), sub: Person, folder: Folder.optional(), iat: z.number() }),
  z.object({ typ: z.literal('service'), sub: Service, iat: z.number() }),
])

/** The active key; the first one is made on the first start. Of starters that meet, one makes it and all use it. */
export async function ensureSigningKey(host: BearerHost): Promise<Key> {
  const active = await host.engine.read(findActive)
  if (active) return active
  const made = await makeKey(host)
  const key = await host.engine.transaction(async (tx) => {
    // The index on `active` lets one row in; a second starter reads the row of the first.
    await signingKeys.insertIfMissing(tx, made)
    return findActive(tx)
  })
  forgetKeys(host.engine)
  return key ?? refuse('unavailable', 'there is no active signing key')
}

export async function issueBearer(host: BearerHost, request: BearerRequest): Promise<string> {
  const { ttlMs = DEFAULT_TTL_MS, kind = 'user' } = request
  const { sub } = parse(z.object({ sub: kind === 'service' ? Service : Person }), { sub: request.sub })
  const { folder } = parse(z.object({ folder: Folder.optional() }), { folder: request.folder })
  if (folder !== undefined && kind === 'service') refuse('invalid', 'a service has no folder')
  if (!(ttlMs >= 1000 && ttlMs <= MAX_TTL_MS)) refuse('invalid', 'a bearer lasts from 1 second to 30 days (720h)')
  const key = await ensureSigningKey(host)
  const { importJWK, SignJWT } = await import('jose')
  const secret = await importJWK(JSON.parse(host.keyring.open(key.private_sealed, sealOf(key.kid)).toString()), ALG)
  const nowS = Math.floor(host.clock.now() / 1000)
  return new SignJWT({ typ: kind, ...(folder === undefined ? {} : { folder }) })
    .setProtectedHeader({ alg: ALG, typ: 'JWT', kid: key.kid })
    .setIssuer(ISSUER)
    .setAudience(audienceOf(host))
    .setSubject(sub)
    .setIssuedAt(nowS)
    .setNotBefore(nowS)
    .setExpirationTime(nowS + Math.ceil(ttlMs / 1000))
    .setJti(uuidv7(host.clock, host.random))
    .sign(secret)
}

/** Who presents this bearer, or the one refusal: which of the checks failed is nobody's business. */
export async function verifyBearer(host: BearerHost, text: string): Promise<Caller> {
  const { decodeProtectedHeader, jwtVerify } = await import('jose')
  const kid = attempt(() => decodeProtectedHeader(text)).kid
  const key = typeof kid === 'string' ? await findKey(host, kid) : undefined
  if (!key || !serves(key.row, host.clock.now())) refuseBearer()
  const { payload } = await jwtVerify(text, key.verifying, {
    algorithms: [ALG],
    issuer: ISSUER,
    audience: audienceOf(host),
    clockTolerance: SKEW_S,
    currentDate: new Date(host.clock.now()),
    requiredClaims: ['sub', 'typ', 'iat', 'nbf', 'exp', 'jti'],
    // The text and the key are all it works on, so whatever it throws is about the text.
  }).catch(refuseBearer)
  const claims = Claims.safeParse(payload)
  if (!claims.success || isAfterRetirement(key.row, claims.data.iat)) refuseBearer()
  const { data } = claims
  if (data.typ === 'service') return { kind: 'service', sub: data.sub }
  return { kind: 'person', sub: data.sub, ...(data.folder === undefined ? {} : { folder: data.folder }) }
}

/** The public halves of the keys that still serve, as a JWK set. */
export async function publicKeys(host: BearerHost): Promise<{ keys: object[] }> {
  const rows = await host.engine.read((tx) => signingKeys.list(tx))
  const serving = rows.filter((row) => serves(row, host.clock.now()))
  return { keys: serving.map(({ kid, public_jwk }) => ({ ...JSON.parse(public_jwk), kid, alg: ALG, use: 'sig' })) }
}

function findActive(tx: Tx): Promise<Key | undefined> {
  return signingKeys.find(tx, { active: true })
}

async function makeKey(host: BearerHost): Promise<Key> {
  const { calculateJwkThumbprint, exportJWK, generateKeyPair } = await import('jose')
  const { privateKey, publicKey } = await generateKeyPair(ALG, { extractable: true })
  const [secret, open] = [await exportJWK(privateKey), await exportJWK(publicKey)]
  const kid = await calculateJwkThumbprint(open)
  return {
    kid,
    alg: ALG,
    active: true,
    status: 'active',
    public_jwk: JSON.stringify(open),
    private_sealed: host.keyring.seal(JSON.stringify(secret), sealOf(kid)),
    created_at: timestamp(host.clock.now()),
  }
}

function serves({ active, serves_until }: Key, nowMs: number): boolean {
  return active || (serves_until !== undefined && nowMs < Date.parse(serves_until))
}

/** A key that leaked may have been the reason to retire it: what is signed with it afterwards is a forgery. */
function isAfterRetirement({ retired_at }: Key, iatS: number): boolean {
  return retired_at !== undefined && iatS > Date.parse(retired_at) / 1000 + SKEW_S
}

function sealOf(kid: string): string {
  return `signing_key:${kid}`
}

function audienceOf({ instance }: BearerHost): string {
  return `svc:${instance}`
}

function attempt<T>(work: () => T): T {
  try {
    return work()
  } catch {
    return refuseBearer()
  }
}

function refuseBearer(): never {
  throw new Refusal('unauthenticated', 'the bearer is not valid', 'svc bearer <instance> <sub> prints one')
}
