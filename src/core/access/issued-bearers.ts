// Bearers that were issued, to list and revoke them. The bearer itself is not stored.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { execute, optional, query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { Folder, line, Sub, Timestamp } from '../values.ts'

export const IssuedBearer = z.object({
  id: line(64).meta({ readOnly: true }),
  sub: Sub.describe('The person or service that the bearer identifies'),
  kind: z.enum(['user', 'service']),
  name: line(64).optional().describe('What it is for'),
  folder: Folder.optional().describe('Folder that the person acts from'),
  created_at: Timestamp.meta({ readOnly: true }),
  created_by: line(256).meta({ readOnly: true }),
  expires_at: Timestamp.meta({ readOnly: true }),
  revoked_at: Timestamp.meta({ readOnly: true }).optional(),
  last_used_at: Timestamp.meta({ readOnly: true }).optional().describe('Accurate to ten minutes'),
})

export type IssuedBearerRow = z.output<typeof IssuedBearer>

export const issuedBearers = new Table({
  name: 'bearers',
  row: IssuedBearer,
  key: 'id',
  storage: [
    `create table bearers (
       id text primary key, sub text not null, kind text not null, name text, folder text, created_at text not null,
       created_by text not null, expires_at text not null, revoked_at text, last_used_at text)`,
    'create index bearers_newest on bearers (created_at, id)',
    'create index bearers_of_sub on bearers (sub, created_at, id)',
    'create index bearers_expiry on bearers (expires_at)',
  ],
})

export interface BearerStatus {
  readonly isRevoked: boolean
  /** False for bearers of earlier versions and for those of OAuth clients, which end with their session. */
  readonly isListed: boolean
}

export async function readBearerStatus(tx: Tx, { jti }: { readonly jti: string }): Promise<BearerStatus> {
  const schema = { revoked_at: optional(text) }
  const [row] = await query(tx, schema, 'select revoked_at from bearers where id = $1', [jti])
  return { isRevoked: row?.revoked_at !== undefined, isListed: row !== undefined }
}

/** Returns false if it has ended already. */
export async function revokeBearer(tx: Tx, id: string, now: string): Promise<boolean> {
  const sql = 'update bearers set revoked_at = $2 where id = $1 and revoked_at is null and expires_at > $2'
  return (await execute(tx, sql, [id, now])) > 0
}

/** Returns how many had not ended. */
export async function revokeAllBearers(tx: Tx, sub: string, now: string): Promise<number> {
  const sql = 'update bearers set revoked_at = $2 where sub = $1 and revoked_at is null and expires_at > $2'
  return execute(tx, sql, [sub, now])
}

/** The last use is written at most this often. */
export const LAST_USE_STEP_MS = 600_000

export async function recordBearerUse(tx: Tx, id: string, now: string, before: string): Promise<void> {
  await execute(
    tx,
    'update bearers set last_used_at = $2 where id = $1 and (last_used_at is null or last_used_at <= $3)',
    [id, now, before],
  )
}
