// In-memory cache of public signing keys by id: every request with a bearer needs one. Valid while the stamp of the table is
// the same, so that all processes notice a new or ended key at once.
import { createPublicKey, type KeyObject } from 'node:crypto'
import { lazy } from '../../lib/lazy.ts'
import type { Engine, Tx } from '../../store/engine.ts'
import { type SigningKeyRow, signingKeyStamp, signingKeys } from './signing-keys.ts'

export interface CachedSigningKey {
  readonly row: SigningKeyRow
  verifying(): KeyObject
}

interface CacheEntry {
  readonly stamp: string
  readonly keys: ReadonlyMap<string, CachedSigningKey>
}

/** Keyed weakly by engine: an entry is freed with its engine. */
const cache = new WeakMap<Engine, CacheEntry>()

export async function readSigningKeys(engine: Engine, tx: Tx): Promise<ReadonlyMap<string, CachedSigningKey>> {
  const stamp = await signingKeyStamp.read(tx)
  const cached = cache.get(engine)
  if (cached?.stamp === stamp) return cached.keys
  const rows = await signingKeys.list(tx)
  const keys = new Map(rows.map((row) => [row.kid, { row, verifying: lazy(() => toPublicKey(row)) }]))
  cache.set(engine, { stamp, keys })
  return keys
}

function toPublicKey({ public_jwk }: SigningKeyRow): KeyObject {
  return createPublicKey({ key: JSON.parse(public_jwk), format: 'jwk' })
}
