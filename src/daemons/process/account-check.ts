// Asks a chat platform who an account is, for the command that connects it.
import { checkConnectorAccount } from '../../channels/index.ts'
import type { AccountCheck } from '../../channels/process/port.ts'
import type { ConnectedPlatform } from '../../core/delivery/platform-accounts.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { SettingSource } from '../../lib/settings.ts'
import { apiUrlOf } from './adapter-processes.ts'

interface CheckedAccount {
  readonly settings: Readonly<Record<string, string>>
  readonly secrets: Readonly<Record<string, string>>
  readonly sources: readonly SettingSource[]
  readonly signal: AbortSignal
}

export async function checkPlatformAccount(
  platform: ConnectedPlatform,
  { sources, ...account }: CheckedAccount,
): Promise<AccountCheck> {
  try {
    return await checkConnectorAccount(platform, { ...account, apiUrl: apiUrlOf(platform, sources) })
  } catch (error) {
    const message = error instanceof Error ? error.message : 'it failed'
    throw new Refusal('invalid', `the check of the account failed: ${message}`, '--no-check saves it without a check')
  }
}
