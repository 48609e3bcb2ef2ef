// The public halves of the signing keys, by id, kept in memory: every request with a bearer needs one.
import type { CryptoKey } from 'jose'
import type { z } from 'zod'
import type { Clock } from '../lib/clock.ts'
import type { Engine } from '../store/engine.ts'
import { type SigningKey, signingKeys } from './signing-keys.ts'

/** A key that was retired elsewhere is known here after so long at the latest. */
const KEPT_MS = 60_000
/** Unknown key ids cause at most one look at the store in this time. */
const LOOK_MS = 1000

interface Keeper {
  readonly clock: Clock
  readonly engine: Engine
}

export interface KnownKey {
  readonly row: z.output<typeof SigningKey>
  readonly verifying: CryptoKey | Uint8Array
}

interface Known {
  readonly readMs: number
  readonly keys: Promise<ReadonlyMap<string, KnownKey>>
}

/** By store, because that is what a look costs; goes when the store goes. */
const known = new WeakMap<Engine, Known>()

export async function findKey(host: Keeper, kid: string): Promise<KnownKey | undefined> {
  const nowMs = host.clock.now()
  const kept = known.get(host.engine)
  const ageMs = kept ? nowMs - kept.readMs : Number.POSITIVE_INFINITY
  // A clock that was set back counts as old.
  if (!kept || ageMs >= KEPT_MS || ageMs < 0) return (await look(host, nowMs)).get(kid)
  const found = (await kept.keys).get(kid)
  if (found || ageMs < LOOK_MS) return found
  // Of the requests that waited together the first one looks, for all of them.
  const looked = known.get(host.engine)
  return (await (looked && looked !== kept ? looked.keys : look(host, nowMs))).get(kid)
}

function look(host: Keeper, readMs: number): Promise<ReadonlyMap<string, KnownKey>> {
  const keys = readKeys(host)
  known.set(host.engine, { readMs, keys })
  // A store that does not answer is asked again by the next request, not believed for a minute.
  keys.catch(() => known.delete(host.engine))
  return keys
}

async function readKeys({ engine }: Keeper): Promise<ReadonlyMap<string, KnownKey>> {
  const { importJWK } = await import('jose')
  const rows = await engine.read((tx) => signingKeys.list(tx))
  const entries = rows.map(async (row) => {
    return [row.kid, { row, verifying: await importJWK(JSON.parse(row.public_jwk), row.alg) }] as const
  })
  return new Map(await Promise.all(entries))
}

/** After a key was made here. */
export function forgetKeys(engine: Engine): void {
  known.delete(engine)
}
