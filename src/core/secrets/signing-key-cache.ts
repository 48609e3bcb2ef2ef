// In-memory cache of public signing keys by id: every request with a bearer needs one.
import type { CryptoKey } from 'jose'
import type { z } from 'zod'
import type { Clock } from '../../lib/clock.ts'
import type { Engine } from '../../store/engine.ts'
import { type SigningKey, signingKeys } from './signing-keys.ts'

/** A key retired by another process is noticed within this time. */
const CACHE_TTL_MS = 60_000
/** Unknown key ids cause at most one store read per interval. */
const MIN_REFRESH_MS = 1000

interface KeyCacheHost {
  readonly clock: Clock
  readonly engine: Engine
}

interface CachedSigningKey {
  readonly row: z.output<typeof SigningKey>
  readonly verifying: CryptoKey | Uint8Array
}

interface CacheEntry {
  readonly readMs: number
  readonly keys: Promise<ReadonlyMap<string, CachedSigningKey>>
}

/** Keyed weakly by engine: an entry is freed with its engine. */
const cache = new WeakMap<Engine, CacheEntry>()

export async function findSigningKey(host: KeyCacheHost, kid: string): Promise<CachedSigningKey | undefined> {
  const nowMs = host.clock.now()
  const cached = cache.get(host.engine)
  const ageMs = cached ? nowMs - cached.readMs : Number.POSITIVE_INFINITY
  // A negative age means that the clock was set back.
  if (!cached || ageMs >= CACHE_TTL_MS || ageMs < 0) return (await refreshCache(host, nowMs)).get(kid)
  const found = (await cached.keys).get(kid)
  if (found || ageMs < MIN_REFRESH_MS) return found
  // Concurrent requests share the refresh of the first one.
  const latest = cache.get(host.engine)
  return (await (latest && latest !== cached ? latest.keys : refreshCache(host, nowMs))).get(kid)
}

function refreshCache(host: KeyCacheHost, readMs: number): Promise<ReadonlyMap<string, CachedSigningKey>> {
  const keys = readKeys(host)
  cache.set(host.engine, { readMs, keys })
  // Do not cache a failed read.
  keys.catch(() => cache.delete(host.engine))
  return keys
}

async function readKeys({ engine }: KeyCacheHost): Promise<ReadonlyMap<string, CachedSigningKey>> {
  const { importJWK } = await import('jose')
  const rows = await engine.read((tx) => signingKeys.list(tx))
  const entries = rows.map(async (row) => {
    return [row.kid, { row, verifying: await importJWK(JSON.parse(row.public_jwk), row.alg) }] as const
  })
  return new Map(await Promise.all(entries))
}

/** Call after creating a key. */
export function clearSigningKeyCache(engine: Engine): void {
  cache.delete(engine)
}
