// REST bearers: ES256 JWTs that the host signs and every daemon verifies. They carry identity only; rights are read at
// every call. See docs/decisions.md#rights-are-read-at-every-call and docs/decisions.md#bearers.
import { hash } from 'node:crypto'
import { z } from 'zod'
import { type Clock, type Random, timestamp, uuidv7 } from '../../lib/clock.ts'
import type { FaultBoundary } from '../../lib/fault-boundary.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import type { Engine, Tx } from '../../store/engine.ts'
import { isSessionActive } from '../people/sessions.ts'
import type { Keyring } from '../secrets/keyring.ts'
import { readSigningKeys } from '../secrets/signing-key-cache.ts'
import { BEARER_TTL_MAX_MS, CLOCK_SKEW_MS, ensureSigningKey } from '../secrets/signing-key-rotation.ts'
import { isServing, type SigningKeyRow, sealContextOf, signingKeys } from '../secrets/signing-keys.ts'
import { Folder, Sub } from '../values.ts'
import { bearerCacheOf } from './bearer-cache.ts'
import type { Caller } from './caller.ts'
import { type IssuedBearerRow, LAST_USE_STEP_MS, readBearerStatus, recordBearerUse } from './issued-bearers.ts'
import { ACCOUNT_NAMESPACES, isAccount } from './namespaces.ts'

export interface BearerHost {
  readonly instance: string
  readonly clock: Clock
  readonly random: Random
  readonly keyring: Keyring
  readonly engine: Engine
  readonly faults: Pick<FaultBoundary, 'handler'>
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

export interface SignedBearer {
  /** Handed out once and not stored. */
  readonly bearer: string
  /** Its row, but for what the issuer adds. */
  readonly row: Omit<IssuedBearerRow, 'created_by' | 'name'>
}

const DEFAULT_TTL_MS = 3_600_000
const ALG = 'ES256'
const ISSUER = 'authd'
/** Its bearers have an audience of their own, so that they are valid at /metrics and nowhere else. */
export const METRICS_SERVICE = 'service:metrics'
/** Likewise valid at /line alone. Only processes of the instance sign them, so no list of bearers has one. */
export const LINE_SERVICE = 'service:line'
const SKEW_S = CLOCK_SKEW_MS / 1000

const Service = z.string().regex(/^service:[a-z][a-z0-9-]{0,63}$/)
/** Only namespaces that adapters cannot use: a bearer and a sender with the same name are the same principal. */
const Person = Sub.refine(
  isAccount,
  `must be a person with an account (${ACCOUNT_NAMESPACES.join(', ')}), such as github:42`,
)

const Times = z.object({ iat: z.number(), nbf: z.number(), exp: z.number(), jti: z.string(), aud: z.string() })
const Claims = z.discriminatedUnion('typ', [
  Times.extend({
    typ: z.literal('user'),
    sub: Person,
    folder: Folder.optional(),
    sid: z.string().optional(),
  }),
  Times.extend({ typ: z.literal('service'), sub: Service }),
])

export type BearerClaims = z.output<typeof Claims>

/** A bearer whose signature is valid. Whether it still counts is checked at every use. */
interface VerifiedBearer {
  readonly kid: string
  readonly claims: BearerClaims
  /** When its use was last recorded. */
  usedMs?: number
}

/** A bearer that is in no list; verbs record theirs with `signBearer`. */
export async function issueBearer(host: BearerHost, request: BearerRequest): Promise<string> {
  return (await signBearer(host, request)).bearer
}

export async function signBearer(host: BearerHost, request: BearerRequest): Promise<SignedBearer> {
  const { ttlMs = DEFAULT_TTL_MS, kind = 'user', sid } = request
  const { sub } = parse(z.object({ sub: kind === 'service' ? Service : Person }), { sub: request.sub })
  const { folder } = parse(z.object({ folder: Folder.optional() }), { folder: request.folder })
  if (folder !== undefined && kind === 'service') refuse('invalid', 'a bearer of a service cannot name a folder')
  if (!(ttlMs >= 1000 && ttlMs <= BEARER_TTL_MAX_MS))
    refuse('invalid', 'the lifetime of a bearer must be from 1 second to 30 days (720h)')
  if (sub === LINE_SERVICE && request.audience !== lineAudience(host))
    refuse('invalid', `${LINE_SERVICE} is for the daemons of the instance, which sign its bearers themselves`)
  const key = await ensureSigningKey(host)
  const { importJWK, SignJWT } = await import('jose')
  const secret = await importJWK(
    JSON.parse(host.keyring.open(key.private_sealed, sealContextOf(key.kid)).toString()),
    ALG,
  )
  const nowMs = host.clock.now()
  const nowS = Math.floor(nowMs / 1000)
  const expS = nowS + Math.ceil(ttlMs / 1000)
  const id = uuidv7(host.clock, host.random)
  const scope = folder === undefined ? {} : { folder }
  const bearer = await new SignJWT({ typ: kind, ...scope, ...(sid === undefined ? {} : { sid }) })
    .setProtectedHeader({ alg: ALG, typ: 'JWT', kid: key.kid })
    .setIssuer(ISSUER)
    .setAudience(request.audience ?? (sub === METRICS_SERVICE ? metricsAudience(host) : audienceOf(host)))
    .setSubject(sub)
    .setIssuedAt(nowS)
    .setNotBefore(nowS)
    .setExpirationTime(expS)
    .setJti(id)
    .sign(secret)
  const times = { created_at: timestamp(nowMs), expires_at: timestamp(expS * 1000) }
  return { bearer, row: { id, sub, kind, ...scope, ...times } }
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
  const cache = bearerCacheOf<VerifiedBearer>(host.engine)
  const tokenHash = hash('sha256', bearer, 'base64url')
  const verified = cache.get(tokenHash) ?? (await verifySignature(host, bearer))
  const { claims, kid } = verified
  const { key, status, hasSession } = await host.engine.read(async (tx) => {
    const [keys, status] = await Promise.all([readSigningKeys(host.engine, tx), readBearerStatus(tx, claims)])
    return { key: keys.get(kid), status, hasSession: await hasActiveSession(tx, claims, host.clock.now()) }
  })
  const nowMs = host.clock.now()
  const isForUs = [audienceOf(host), ...audiences].includes(claims.aud)
  if (!isForUs) refuseBearer()
  if (status.isRevoked || !hasSession || !key || !isServing(key.row, nowMs) || !isCurrent(claims, key.row, nowMs)) {
    cache.delete(tokenHash)
    refuseBearer()
  }
  cache.set(tokenHash, verified)
  if (status.isListed) recordUse(host, verified, nowMs)
  if (claims.typ === 'service') return { kind: 'service', sub: claims.sub }
  return { kind: 'person', sub: claims.sub, ...(claims.folder === undefined ? {} : { folder: claims.folder }) }
}

async function verifySignature(host: BearerHost, bearer: string): Promise<VerifiedBearer> {
  const { decodeProtectedHeader, jwtVerify } = await import('jose')
  const { kid } = tryOrRefuse(() => decodeProtectedHeader(bearer))
  if (typeof kid !== 'string') refuseBearer()
  const key = (await host.engine.read((tx) => readSigningKeys(host.engine, tx))).get(kid)
  if (!key) refuseBearer()
  const { payload } = await jwtVerify(bearer, key.verifying(), {
    algorithms: [ALG],
    issuer: ISSUER,
    clockTolerance: SKEW_S,
    currentDate: new Date(host.clock.now()),
    requiredClaims: ['sub', 'typ', 'aud', 'iat', 'nbf', 'exp', 'jti'],
    // jose only throws about the bearer here.
  }).catch(refuseBearer)
  const claims = Claims.safeParse(payload)
  return claims.success ? { kid, claims: claims.data } : refuseBearer()
}

/** The bearer of an OAuth client ends with its session. */
async function hasActiveSession(tx: Tx, claims: BearerClaims, nowMs: number): Promise<boolean> {
  if (claims.typ === 'service' || claims.sid === undefined) return true
  return isSessionActive(tx, claims.sid, nowMs)
}

/** A key may be retired because it leaked: bearers signed with it afterwards are forged. */
function isCurrent({ iat, nbf, exp }: BearerClaims, { retired_at }: SigningKeyRow, nowMs: number): boolean {
  const nowS = Math.floor(nowMs / 1000)
  if (nbf > nowS + SKEW_S || exp <= nowS - SKEW_S) return false
  return retired_at === undefined || iat <= Date.parse(retired_at) / 1000 + SKEW_S
}

/** In the background and at most every ten minutes: a check does not wait for a write. */
function recordUse(host: BearerHost, verified: VerifiedBearer, nowMs: number): void {
  if (verified.usedMs !== undefined && Math.abs(nowMs - verified.usedMs) < LAST_USE_STEP_MS) return
  verified.usedMs = nowMs
  const [now, before] = [timestamp(nowMs), timestamp(nowMs - LAST_USE_STEP_MS)]
  host.engine
    .transaction((tx) => recordBearerUse(tx, verified.claims.jti, now, before))
    .catch(host.faults.handler('job'))
}

/** The keys that bearers may still be signed with, as a JWK set. */
export async function publicKeys(host: BearerHost): Promise<{ keys: object[] }> {
  const rows = await host.engine.read((tx) => signingKeys.list(tx))
  const serving = rows.filter((row) => isServing(row, host.clock.now()))
  return { keys: serving.map(({ kid, public_jwk }) => ({ ...JSON.parse(public_jwk), kid, alg: ALG, use: 'sig' })) }
}

export function audienceOf({ instance }: Pick<BearerHost, 'instance'>): string {
  return `svc:${instance}`
}

export function metricsAudience(host: Pick<BearerHost, 'instance'>): string {
  return `${audienceOf(host)}/metrics`
}

export function lineAudience(host: Pick<BearerHost, 'instance'>): string {
  return `${audienceOf(host)}/line`
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
