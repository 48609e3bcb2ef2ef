// Secrets of channel adapters. Each is bound to platforms that no other secret may use.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { Table } from '../../store/table.ts'
import { platformFault } from '../access/namespaces.ts'
import { Bytes, checkedText, line, Timestamp } from '../values.ts'

export const AdapterName = checkedText((value) =>
  /^[a-z][a-z0-9_-]{0,63}$/.test(value) ? undefined : 'must be 1 to 64 lower-case letters, digits, "_" or "-"',
).describe('Name of an adapter, such as telegram')

const Platform = checkedText((value) => {
  if (!/^[a-z][a-z0-9_-]{0,63}$/.test(value)) return 'must be a platform, such as discord'
  return platformFault(value)
}).describe('Part of its JIDs before the colon, such as discord')

export const ChannelSecret = z.object({
  name: AdapterName,
  platforms: z.array(Platform).min(1).max(100),
  secret_hash: Bytes.meta({ writeOnly: true }),
  created_at: Timestamp,
  created_by: line(256),
})
export type ChannelSecret = z.output<typeof ChannelSecret>

export const channelSecrets = new Table({
  name: 'channel_secrets',
  row: ChannelSecret,
  key: 'name',
  storage: [
    `create table channel_secrets (
       name text primary key, platforms text not null, secret_hash bytea not null, created_at text not null,
       created_by text not null)`,
    'create unique index channel_secrets_of_hash on channel_secrets (secret_hash)',
  ],
})

export function hashSecret(secret: string): Uint8Array {
  return createHash('sha256').update(secret).digest()
}

export function findChannelSecret(tx: Tx, secret: string): Promise<ChannelSecret | undefined> {
  return channelSecrets.find(tx, { secret_hash: hashSecret(secret) })
}

/** The secret bound to a platform; undefined if the shared secret may use it. */
export async function secretOfPlatform(tx: Tx, platform: string): Promise<ChannelSecret | undefined> {
  return (await channelSecrets.list(tx)).find(({ platforms }) => platforms.includes(platform))
}

/** `secret_name` is undefined for the shared secret. Errors do not reveal which secret has the platform. */
export async function mustOwnPlatform(tx: Tx, secret_name: string | undefined, platform: string): Promise<void> {
  const fault = platformFault(platform)
  if (fault) refuse('forbidden', `the platform ${platform} ${fault} (jid_prefix_mismatch)`)
  const owner = await secretOfPlatform(tx, platform)
  if (owner?.name === secret_name) return
  if (secret_name === undefined)
    refuse(
      'forbidden',
      `the platform ${platform} is bound to a separate secret (jid_prefix_mismatch)`,
      'svc channel <instance> list shows it',
    )
  refuse(
    'forbidden',
    `the secret ${secret_name} is not valid for the platform ${platform} (jid_prefix_mismatch)`,
    'svc channel <instance> list shows the platforms of each secret',
  )
}
