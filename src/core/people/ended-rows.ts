// Removes rows of sign-in that have ended: sessions with their tokens, links, bearers, codes, and keys of forms and of signatures. They stay for a while, to
// be looked up.
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { retireSigningKeys } from '../secrets/signing-key-rotation.ts'

export const ENDED_ROWS_KEPT_MS = 30 * 24 * 3_600_000

interface EndingTable {
  readonly name: string
  readonly key: string
  /** The column with the time of the end, which has an index. */
  readonly end: string
}

/** Tokens of a session are removed with it. A revoked row stays until it would have expired. */
const ENDING_TABLES: readonly EndingTable[] = [
  { name: 'sessions', key: 'family_id', end: 'expires_at' },
  { name: 'sign_in_links', key: 'token_hash', end: 'expires_at' },
  { name: 'bearers', key: 'id', end: 'expires_at' },
  { name: 'authorization_codes', key: 'code_hash', end: 'expires_at' },
  { name: 'device_codes', key: 'device_hash', end: 'expires_at' },
  { name: 'oauth_clients', key: 'client_id', end: 'expires_at' },
  { name: 'used_challenges', key: 'challenge', end: 'expires_at' },
  { name: 'form_keys', key: 'form_key', end: 'expires_at' },
  { name: 'signing_keys', key: 'kid', end: 'serves_until' },
]

/** Marks and removes up to `limit` rows per table. Returns whether there may be more. */
export async function removeEndedRows(tx: Tx, nowMs: number, limit: number): Promise<boolean> {
  const before = timestamp(nowMs - ENDED_ROWS_KEPT_MS)
  const counts = [await markExpiredSessions(tx, timestamp(nowMs), limit)]
  await retireSigningKeys(tx, nowMs)
  for (const { name, key, end } of ENDING_TABLES) {
    const sql = `delete from ${name} where ${key} in (select ${key} from ${name} where ${end} <= $1 order by ${end} limit $2)`
    counts.push(await execute(tx, sql, [before, limit]))
  }
  return counts.some((count) => count === limit)
}

/** For lists: an expired session is refused whether it is marked or not. */
function markExpiredSessions(tx: Tx, now: string, limit: number): Promise<number> {
  return execute(
    tx,
    `update sessions set status = 'expired' where family_id in (select family_id from sessions
       where status = 'active' and expires_at <= $1 order by expires_at limit $2)`,
    [now, limit],
  )
}
