// Counts of accepted and refused requests per link. webd counts in memory and writes them periodically.
import { z } from 'zod'
import type { Dialect, Tx } from '../../store/engine.ts'
import { MultiRowStatement } from '../../store/multi-row-statement.ts'
import { Table } from '../../store/table.ts'
import { Bytes, Timestamp } from '../values.ts'

export const LinkStats = z.object({
  token_hash: Bytes,
  last_used_at: Timestamp,
  accepted: z.int(),
  refused: z.record(z.string(), z.int()).describe('Number of refusals by reason'),
})
export type LinkStats = z.output<typeof LinkStats>

export const linkStats = new Table({
  name: 'link_stats',
  row: LinkStats,
  key: 'token_hash',
  storage: [
    `create table link_stats (
       token_hash bytea primary key references route_tokens (token_hash) on delete cascade,
       last_used_at text not null, accepted bigint not null, refused text not null)`,
  ],
})

const ADD = new MultiRowStatement(
  { token_hash: 'bytea', last_used_at: 'text', accepted: 'bigint' },
  `insert into link_stats (token_hash, last_used_at, accepted, refused)
   select v.token_hash, v.last_used_at, v.accepted, '{}' from {rows} route_tokens t where t.token_hash = v.token_hash
   on conflict (token_hash) do update set accepted = link_stats.accepted + excluded.accepted,
     last_used_at = case when excluded.last_used_at > link_stats.last_used_at
       then excluded.last_used_at else link_stats.last_used_at end`,
)

/** Skips links that were revoked meanwhile. */
export async function addLinkStats(tx: Tx, dialect: Dialect, counted: readonly LinkStats[]): Promise<void> {
  await ADD.run(
    tx,
    dialect,
    counted.map(({ token_hash, last_used_at, accepted }) => [token_hash, last_used_at, accepted]),
  )
  for (const { token_hash, refused } of counted) {
    if (Object.keys(refused).length === 0) continue
    const stored = await linkStats.find(tx, { token_hash })
    if (!stored) continue
    const sum = { ...stored.refused }
    for (const [reason, count] of Object.entries(refused)) sum[reason] = (sum[reason] ?? 0) + count
    await linkStats.update(tx, { token_hash }, { refused: sum })
  }
}
