// Keys by which a sender says that a message is one that it has sent before (decision L10).
import { z } from 'zod'
import type { Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { Table } from '../store/table.ts'
import { Bytes, Timestamp } from './values.ts'

export const KEPT_MS = 24 * 3_600_000

const KeyRow = z.object({
  token_hash: Bytes,
  key: z.string(),
  digest: Bytes.describe('Of the body, and of where it was sent to'),
  message_id: z.string(),
  created_at: Timestamp,
})
export type KeyRow = z.output<typeof KeyRow>

export const idempotencyKeys = new Table({
  name: 'idempotency_keys',
  row: KeyRow,
  key: ['token_hash', 'key'],
  storage: [
    `create table idempotency_keys (
       token_hash bytea not null references route_tokens (token_hash) on delete cascade, key text not null,
       digest bytea not null, message_id text not null, created_at text not null, primary key (token_hash, key))`,
    'create index idempotency_keys_oldest on idempotency_keys (created_at)',
  ],
})

/** Drops what is older than `before`; how many there were. */
export async function forgetKeys(tx: Tx, before: string): Promise<number> {
  return Number((await run(tx, 'delete from idempotency_keys where created_at < $1', [before])).numAffectedRows)
}
