// Keys that sign REST bearers. The private key is sealed; exactly one key is active.
import { z } from 'zod'
import { Table } from '../../store/table.ts'
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
  ],
})
