// Keys that sign REST bearers. The private key is sealed and deleted when the key is replaced; exactly one key is active.
import { z } from 'zod'
import { Table } from '../../store/table.ts'
import { ChangeStamp } from '../change-stamps.ts'
import { Bytes, line, Timestamp } from '../values.ts'

export const SigningKey = z
  .object({
    kid: line(64).meta({ readOnly: true }),
    alg: z.literal('ES256'),
    active: z.boolean(),
    status: z.enum(['active', 'retiring', 'retired']),
    public_jwk: z.string().meta({ writeOnly: true }),
    private_sealed: Bytes.meta({ writeOnly: true }),
    created_at: Timestamp.meta({ readOnly: true }),
    retired_at: Timestamp.meta({ readOnly: true }).optional(),
    serves_until: Timestamp.meta({ readOnly: true }).optional(),
  })
  .meta({ id: 'SigningKeys' })

export type SigningKeyRow = z.output<typeof SigningKey>

/** Read with every bearer, so that a key that ends counts nowhere from then on. */
export const signingKeyStamp = new ChangeStamp('signing_key_stamp')

export const signingKeys = new Table({
  name: 'signing_keys',
  row: SigningKey,
  key: 'kid',
  storage: [
    `create table signing_keys (
       kid text primary key, alg text not null, active boolean not null, status text not null,
       public_jwk text not null, private_sealed bytea not null, created_at text not null, retired_at text,
       serves_until text)`,
    // Processes that start together may both create a first key; the index admits one.
    'create unique index signing_keys_one_active on signing_keys (active) where active',
    () => signingKeyStamp.createStatements(),
    signingKeyStamp.updateOnWrite('signing_keys'),
  ],
})

/** Whether bearers of this key still count. */
export function isServing({ active, serves_until }: SigningKeyRow, nowMs: number): boolean {
  return active || (serves_until !== undefined && nowMs < Date.parse(serves_until))
}

/** Binds the sealed private key to its row. */
export function sealContextOf(kid: string): string {
  return `signing_key:${kid}`
}
