// Identities link several subs to one person. A claim grants no rights, but signing in with a linked account signs in as the
// account that was linked first (accounts.ts).
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { line, Sub, Timestamp } from '../values.ts'

export const Identity = z.object({ id: z.string(), name: line(256), created_at: Timestamp })

export const identities = new Table({
  name: 'identities',
  row: Identity,
  key: 'id',
  storage: ['create table identities (id text primary key, name text not null, created_at text not null)'],
})

export const IdentityClaim = z.object({ sub: Sub, identity_id: z.string(), claimed_at: Timestamp })

export const identityClaims = new Table({
  name: 'identity_claims',
  row: IdentityClaim,
  key: 'sub',
  storage: [
    `create table identity_claims (
       sub text primary key, identity_id text not null references identities (id) on delete cascade,
       claimed_at text not null)`,
    'create index identity_claims_of_identity on identity_claims (identity_id)',
  ],
})

/** The name of the person that the sub belongs to. One statement, because proxyd needs it for every request to a backend. */
export async function findIdentityName(tx: Tx, sub: string): Promise<string | undefined> {
  const sql = 'select i.name from identity_claims c join identities i on i.id = c.identity_id where c.sub = $1'
  const [identity] = await query(tx, { name: text }, sql, [sub])
  return identity?.name
}
