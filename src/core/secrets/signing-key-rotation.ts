// Creates and replaces signing keys. A replaced key signs nothing more, and verifies until its last bearer has expired.
import { createHash, generateKeyPairSync } from 'node:crypto'
import { type Clock, timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Engine, Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import type { Keyring } from './keyring.ts'
import { type SigningKeyRow, sealContextOf, signingKeys } from './signing-keys.ts'

/** The longest lifetime of a bearer. */
export const BEARER_TTL_MAX_MS = 30 * 24 * 3_600_000
/** Tolerated difference between clocks. */
export const CLOCK_SKEW_MS = 30_000

export interface KeyHost {
  readonly clock: Clock
  readonly keyring: Keyring
}

export interface KeyStoreHost extends KeyHost {
  readonly engine: Engine
}

export interface KeyRotation {
  readonly created: SigningKeyRow
  /** Ids of keys that ended at once. */
  readonly ended: readonly string[]
}

export function findActiveKey(tx: Tx): Promise<SigningKeyRow | undefined> {
  return signingKeys.find(tx, { active: true })
}

/** Returns the active key and creates it on first use. Processes that start together all use the same key. */
export async function ensureSigningKey(host: KeyStoreHost): Promise<SigningKeyRow> {
  const active = await host.engine.read(findActiveKey)
  return active ?? (await host.engine.transaction((tx) => insertActiveKey(tx, host)))
}

/**
 * Makes a new key the active one. With `endsNow` all earlier keys end at once, because their private keys may have leaked:
 * every bearer that exists stops working.
 */
export async function rotateSigningKey(tx: Tx, host: KeyHost, { endsNow }: { endsNow: boolean }): Promise<KeyRotation> {
  const nowMs = host.clock.now()
  const now = timestamp(nowMs)
  const serves_until = timestamp(nowMs + BEARER_TTL_MAX_MS + CLOCK_SKEW_MS)
  const replaced = { active: false, status: 'retiring', retired_at: now, private_sealed: new Uint8Array() } as const
  await signingKeys.update(tx, { active: true }, { ...replaced, serves_until })
  const retiring = endsNow ? await signingKeys.list(tx, { status: 'retiring' }) : []
  if (endsNow) await signingKeys.update(tx, { status: 'retiring' }, { status: 'retired', serves_until: now })
  return { created: await insertActiveKey(tx, host), ended: retiring.map(({ kid }) => kid) }
}

/** Rotates if the active key is at least this old. Of several processes one rotates. */
export async function rotateOldKey(tx: Tx, host: KeyHost, ageMs: number): Promise<KeyRotation | undefined> {
  if (!isKeyOld(await findActiveKey(tx), host.clock.now(), ageMs)) return undefined
  return rotateSigningKey(tx, host, { endsNow: false })
}

export function isKeyOld(active: SigningKeyRow | undefined, nowMs: number, ageMs: number): boolean {
  return active === undefined || nowMs - Date.parse(active.created_at) >= ageMs
}

/** Marks the keys whose last bearer has expired. */
export async function retireSigningKeys(tx: Tx, nowMs: number): Promise<void> {
  await execute(tx, `update signing_keys set status = 'retired' where status = 'retiring' and serves_until <= $1`, [
    timestamp(nowMs),
  ])
}

/** The unique index on `active` admits one row; a second process reads the first one's. */
async function insertActiveKey(tx: Tx, host: KeyHost): Promise<SigningKeyRow> {
  await signingKeys.insertIfMissing(tx, createKey(host))
  return (await findActiveKey(tx)) ?? refuse('unavailable', 'there is no active signing key')
}

function createKey({ clock, keyring }: KeyHost): SigningKeyRow {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { crv, kty, x, y } = publicKey.export({ format: 'jwk' })
  // RFC 7638: these members in this order.
  const public_jwk = JSON.stringify({ crv, kty, x, y })
  const kid = createHash('sha256').update(public_jwk).digest('base64url')
  const secret = JSON.stringify(privateKey.export({ format: 'jwk' }))
  return {
    kid,
    alg: 'ES256',
    active: true,
    status: 'active',
    public_jwk,
    private_sealed: keyring.seal(secret, sealContextOf(kid)),
    created_at: timestamp(clock.now()),
  }
}
