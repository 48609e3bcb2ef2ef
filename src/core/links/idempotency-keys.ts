// The idempotency keys of the last day; link-inbound.ts checks them. See docs/decisions.md#idempotency-keys.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { Bytes, Timestamp } from '../values.ts'

export const IDEMPOTENCY_TTL_MS = 24 * 3_600_000

const IdempotencyKey = z.object({
  token_hash: Bytes,
  key: z.string(),
  digest: Bytes.describe('Digest of the body and its destination'),
  message_id: z.string(),
  created_at: Timestamp,
})
export type IdempotencyKey = z.output<typeof IdempotencyKey>

export const idempotencyKeys = new Table({
  name: 'idempotency_keys',
  row: IdempotencyKey,
  key: ['token_hash', 'key'],
  storage: [
    `create table idempotency_keys (
       token_hash bytea not null references route_tokens (token_hash) on delete cascade, key text not null,
       digest bytea not null, message_id text not null, created_at text not null, primary key (token_hash, key))`,
    'create index idempotency_keys_oldest on idempotency_keys (created_at)',
  ],
})

/** Returns the number of keys deleted. */
export async function deleteIdempotencyKeys(tx: Tx, before: string): Promise<number> {
  return execute(tx, 'delete from idempotency_keys where created_at < $1', [before])
}
