// REST bearers: ES256 JWTs that the host signs and every daemon verifies. They carry identity only; rights are read at
// every call. See docs/decisions.md#rights-are-read-at-every-call.
import { z } from 'zod'
import { type Clock, type Random, timestamp, uuidv7 } from '../../lib/clock.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import type { Engine, Tx } from '../../store/engine.ts'
import { isSessionActive } from '../people/client-sessions.ts'
import type { Keyring } from '../secrets/keyring.ts'
import { clearSigningKeyCache, findSigningKey } from '../secrets/signing-key-cache.ts'
import { type SigningKey, signingKeys } from '../secrets/signing-keys.ts'
import { Folder, Sub } from '../values.ts'
import type { Caller } from './caller.ts'
import { ACCOUNT_NAMESPACES, isAccount } from './namespaces.ts'

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
  /** The folder the person acts for. */
  readonly folder?: string | undefined
  readonly ttlMs?: number | undefined
  readonly kind?: 'user' | 'service' | undefined
  /** The session of an OAuth client that the bearer belongs to. */
  readonly sid?: string | undefined
  /** The only place that accepts it; by default every interface of the instance does. */
  readonly audience?: string | undefined
}

type Key = z.output<typeof SigningKey>

const DEFAULT_TTL_MS = 3_600_000
const MAX_TTL_MS = 30 * 24 * 3_600_000
const ALG = 'ES256'
const ISSUER = 'authd'
const SKEW_S = 30

const Service = z.string().regex(/^service:[a-z][a-z0-9-]{0,63}$/)
/** Only namespaces that adapters cannot use: a bearer and a sender with the same name are the same principal. */
const Person = Sub.refine(
  isAccount,
  `must be a person with an account (${ACCOUNT_NAMESPACES.join(', ')}), such as github:42`,
)

const Claims = z.discriminatedUnion('typ', [
  z.object({
    typ: z.literal('user'),
    sub: Person,
    folder: Folder.optional(),
    sid: z.string().optional(),
    iat: z.number(),
  }),
  z.object({ typ: z.literal('service'), sub: Service, iat: z.number() }),
])

/** Returns the active key and creates it on first use. Processes that start together all use the same key. */
export async function ensureSigningKey(host: BearerHost): Promise<Key> {
  const active = await host.engine.read(findActive)
  if (active) return active
  const created = await createKey(host)
  const key = await host.engine.transaction(async (tx) => {
    // The unique index on `active` admits one row; a second process reads the first one's.
    await signingKeys.insertIfMissing(tx, created)
    return findActive(tx)
  })
  clearSigningKeyCache(host.engine)
  return key ?? refuse('unavailable', 'there is no active signing key')
}

export async function issueBearer(host: BearerHost, request: BearerRequest): Promise<string> {
  const { ttlMs = DEFAULT_TTL_MS, kind = 'user' } = request
  const { sub } = parse(z.object({ sub: kind === 'service' ? Service : Person }), { sub: request.sub })
  const { folder } = parse(z.object({ folder: Folder.optional() }), { folder: request.folder })
  if (folder !== undefined && kind === 'service') refuse('invalid', 'a bearer of a service cannot name a folder')
  if (!(ttlMs >= 1000 && ttlMs <= MAX_TTL_MS))
    refuse('invalid', 'the lifetime of a bearer must be from 1 second to 30 days (720h)')
  const key = await ensureSigningKey(host)
  const { importJWK, SignJWT } = await import('jose')
  const secret = await importJWK(
    JSON.parse(host.keyring.open(key.private_sealed, sealContext(key.kid)).toString()),
    ALG,
  )
  const nowS = Math.floor(host.clock.now() / 1000)
  return new SignJWT({ typ: kind, ...(folder === undefined ? {} : { folder }), ...sessionClaim(request) })
    .setProtectedHeader({ alg: ALG, typ: 'JWT', kid: key.kid })
    .setIssuer(ISSUER)
    .setAudience(request.audience ?? audienceOf(host))
    .setSubject(sub)
    .setIssuedAt(nowS)
    .setNotBefore(nowS)
    .setExpirationTime(nowS + Math.ceil(ttlMs / 1000))
    .setJti(uuidv7(host.clock, host.random))
    .sign(secret)
}

/**
 * All failed checks give the same refusal, so that it reveals nothing. `audiences`: names of the place that was asked, besides
 * the instance.
 */
export async function verifyBearer(
  host: BearerHost,
  bearer: string,
  audiences: readonly string[] = [],
): Promise<Caller> {
  const { decodeProtectedHeader, jwtVerify } = await import('jose')
  const { kid } = tryOrRefuse(() => decodeProtectedHeader(bearer))
  const key = typeof kid === 'string' ? await findSigningKey(host, kid) : undefined
  if (!key || !isServing(key.row, host.clock.now())) refuseBearer()
  const { payload } = await jwtVerify(bearer, key.verifying, {
    algorithms: [ALG],
    issuer: ISSUER,
    audience: [audienceOf(host), ...audiences],
    clockTolerance: SKEW_S,
    currentDate: new Date(host.clock.now()),
    requiredClaims: ['sub', 'typ', 'iat', 'nbf', 'exp', 'jti'],
    // jose only throws about the bearer here.
  }).catch(refuseBearer)
  const claims = Claims.safeParse(payload)
  if (!claims.success || isAfterRetirement(key.row, claims.data.iat)) refuseBearer()
  const { data } = claims
  if (data.typ === 'service') return { kind: 'service', sub: data.sub }
  await mustHaveActiveSession(host, data.sid)
  return { kind: 'person', sub: data.sub, ...(data.folder === undefined ? {} : { folder: data.folder }) }
}

function sessionClaim({ sid }: BearerRequest): { sid?: string } {
  return sid === undefined ? {} : { sid }
}

/** The bearer of an OAuth client ends with its session. */
async function mustHaveActiveSession({ engine, clock }: BearerHost, session: string | undefined): Promise<void> {
  if (session !== undefined && !(await isSessionActive(engine, session, clock.now()))) refuseBearer()
}

/** The keys that bearers may still be signed with, as a JWK set. */
export async function publicKeys(host: BearerHost): Promise<{ keys: object[] }> {
  const rows = await host.engine.read((tx) => signingKeys.list(tx))
  const serving = rows.filter((row) => isServing(row, host.clock.now()))
  return { keys: serving.map(({ kid, public_jwk }) => ({ ...JSON.parse(public_jwk), kid, alg: ALG, use: 'sig' })) }
}

function findActive(tx: Tx): Promise<Key | undefined> {
  return signingKeys.find(tx, { active: true })
}

async function createKey(host: BearerHost): Promise<Key> {
  const { calculateJwkThumbprint, exportJWK, generateKeyPair } = await import('jose')
  const { privateKey, publicKey } = await generateKeyPair(ALG, { extractable: true })
  const [secretJwk, publicJwk] = [await exportJWK(privateKey), await exportJWK(publicKey)]
  const kid = await calculateJwkThumbprint(publicJwk)
  return {
    kid,
    alg: ALG,
    active: true,
    status: 'active',
    public_jwk: JSON.stringify(publicJwk),
    private_sealed: host.keyring.seal(JSON.stringify(secretJwk), sealContext(kid)),
    created_at: timestamp(host.clock.now()),
  }
}

function isServing({ active, serves_until }: Key, nowMs: number): boolean {
  return active || (serves_until !== undefined && nowMs < Date.parse(serves_until))
}

/** A key may be retired because it leaked: bearers signed with it afterwards are forged. */
function isAfterRetirement({ retired_at }: Key, iatS: number): boolean {
  return retired_at !== undefined && iatS > Date.parse(retired_at) / 1000 + SKEW_S
}

function sealContext(kid: string): string {
  return `signing_key:${kid}`
}

export function audienceOf({ instance }: Pick<BearerHost, 'instance'>): string {
  return `svc:${instance}`
}

function tryOrRefuse<T>(work: () => T): T {
  try {
    return work()
  } catch {
    return refuseBearer()
  }
}

function refuseBearer(): never {
  throw new Refusal('unauthenticated', 'the bearer is not valid', 'svc bearer <instance> <sub> prints one')
}
