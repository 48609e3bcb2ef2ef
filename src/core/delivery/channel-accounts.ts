// Accounts of chat platforms whose adapters svc starts itself. An account is also the platform of its chats, the name of its adapter
// and that of its channel secret: `telegram`, or `telegram-work` for a second one.
import { z } from 'zod'
import { parseJson } from '../../lib/text/json.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { AdapterName, secretOfPlatform } from '../secrets/channel-secrets.ts'
import type { Keyring } from '../secrets/keyring.ts'
import { Bytes, line, Timestamp } from '../values.ts'
import { basePlatformOf } from './platforms.ts'

export const ChannelAccount = z.object({
  account: AdapterName,
  platform: z.string().describe('One of platform-accounts.ts'),
  settings: z.record(z.string(), z.string()),
  /** A JSON object of the platform's tokens and passwords, and the channel secret. */
  secrets_sealed: Bytes.meta({ writeOnly: true }),
  created_at: Timestamp,
  created_by: line(256),
  leased_by: z.string().optional().describe('The process that runs its adapter'),
  leased_until: z.int().describe('In milliseconds since 1970'),
})
export type ChannelAccount = z.output<typeof ChannelAccount>

export const channelAccounts = new Table({
  name: 'channel_accounts',
  row: ChannelAccount,
  key: 'account',
  storage: [
    `create table channel_accounts (
       account text primary key, platform text not null, settings text not null, secrets_sealed bytea not null,
       created_at text not null, created_by text not null, leased_by text, leased_until bigint not null)`,
  ],
})

/** What is sealed. */
const AccountSecrets = z.object({ channel: z.string(), platform: z.record(z.string(), z.string()) })
export type AccountSecrets = z.output<typeof AccountSecrets>

export function accountContext(account: string): string {
  return `channel account ${account}`
}

export function sealAccountSecrets(keyring: Keyring, account: string, secrets: AccountSecrets): Uint8Array {
  return keyring.seal(JSON.stringify(secrets), accountContext(account))
}

export function openAccountSecrets(
  keyring: Keyring,
  { account, secrets_sealed }: Pick<ChannelAccount, 'account' | 'secrets_sealed'>,
): AccountSecrets {
  const opened = keyring.open(secrets_sealed, accountContext(account))
  return AccountSecrets.parse(parseJson(Buffer.from(opened).toString()))
}

/** One process at a time runs an adapter. Returns whether this one does until then. */
export async function leaseAccount(
  tx: Tx,
  account: string,
  { process, until, now }: { readonly process: string; readonly until: number; readonly now: number },
): Promise<boolean> {
  const changed = await execute(
    tx,
    `update channel_accounts set leased_by = $2, leased_until = $3
     where account = $1 and (leased_by is null or leased_by = $2 or leased_until <= $4)`,
    [account, process, until, now],
  )
  return changed > 0
}

/** So that the next process need not wait. */
export async function releaseAccounts(tx: Tx, process: string): Promise<void> {
  await execute(tx, 'update channel_accounts set leased_by = null, leased_until = 0 where leased_by = $1', [process])
}

/**
 * The namespace of people that an adapter with this secret may use in chats of a platform, besides the platform itself: that of
 * `telegram` in `telegram-work:…`, if svc starts the adapter or the secret may also use `telegram`. See
 * docs/decisions.md#accounts-of-a-platform.
 */
export async function personNamespaceOf(tx: Tx, secret_name: string | undefined, platform: string): Promise<string> {
  const base = basePlatformOf(platform)
  if (base === platform) return platform
  const account = secret_name === platform ? await channelAccounts.find(tx, { account: platform }) : undefined
  return account?.platform === base || (await secretOfPlatform(tx, base))?.name === secret_name ? base : platform
}
