// Secrets of folders and people, sealed in the store.
import { z } from 'zod'
import { Table } from '../../store/table.ts'
import { Bytes, line, SecretKey, Timestamp } from '../values.ts'

export const Secret = z
  .object({
    scope_kind: z.enum(['folder', 'user']),
    owner: line(256).describe('Folder, or sub of the user'),
    key: SecretKey,
    value: Bytes.meta({ writeOnly: true }),
    created_at: Timestamp.meta({ readOnly: true }),
  })
  .meta({ id: 'Secrets' })

export type Secret = z.output<typeof Secret>

export const SecretName = Secret.pick({ scope_kind: true, owner: true, key: true })
export type SecretName = z.output<typeof SecretName>

export const secrets = new Table({
  name: 'secrets',
  row: Secret,
  key: ['scope_kind', 'owner', 'key'],
  storage: [
    `create table secrets (
       scope_kind text not null, owner text not null, key text not null, value bytea not null, created_at text not null,
       primary key (scope_kind, owner, key))`,
  ],
})

/** Binds the seal to the row: a value moved to another row does not open. */
export function secretContext({ scope_kind, owner, key }: SecretName): string {
  return `secret ${scope_kind} ${owner} ${key}`
}
