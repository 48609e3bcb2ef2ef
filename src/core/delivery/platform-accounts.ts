// The platforms whose adapters svc starts, each a folder below src/channels with a connector.ts, and what an account of them needs.
import { refuse } from '../../lib/refusal.ts'

export const CONNECTED_PLATFORMS = ['telegram'] as const
export type ConnectedPlatform = (typeof CONNECTED_PLATFORMS)[number]

interface AccountField {
  readonly name: string
  /** Asked for, and named in errors. */
  readonly label: string
  readonly pattern: RegExp
  /** Completes "the token …". */
  readonly rule: string
}

interface PlatformAccount {
  /** Asked for in this order, without echo. */
  readonly secrets: readonly AccountField[]
  /** Optional; operators give them as `<name>=<value>`. */
  readonly settings: readonly AccountField[]
}

export const PLATFORM_ACCOUNTS: Readonly<Record<ConnectedPlatform, PlatformAccount>> = {
  telegram: {
    secrets: [
      {
        name: 'token',
        label: 'token of the bot',
        pattern: /^\d{5,20}:[A-Za-z0-9_-]{20,100}$/,
        rule: 'must look like 123456789:AAE…, as @BotFather shows it',
      },
    ],
    settings: [
      {
        name: 'bots',
        label: 'bots',
        pattern: /^(?:allow|ignore)$/,
        rule: 'must be allow or ignore: whether messages of other bots count',
      },
    ],
  },
}

export function isConnectedPlatform(name: string): name is ConnectedPlatform {
  return Object.hasOwn(PLATFORM_ACCOUNTS, name)
}

/** The name of an account: the platform, or the platform and the name of a further account. */
export function accountName(platform: ConnectedPlatform, name: string | undefined): string {
  if (name === undefined) return platform
  if (/^[a-z0-9][a-z0-9_]{0,31}$/.test(name)) return `${platform}-${name}`
  return refuse('invalid', 'the name of an account has 1 to 32 lower-case letters, digits or "_"')
}

/** Refuses missing, unknown and odd values. No error contains a value, which may be a secret. */
export function mustBeAccount(
  platform: ConnectedPlatform,
  given: { readonly settings: Readonly<Record<string, string>>; readonly secrets: Readonly<Record<string, string>> },
): void {
  const { settings, secrets } = PLATFORM_ACCOUNTS[platform]
  for (const { name, label, pattern, rule } of secrets)
    if (!pattern.test(given.secrets[name] ?? '')) refuse('invalid', `the ${label} ${rule}`)
  for (const [name, value] of Object.entries(given.settings)) {
    const field = settings.find((each) => each.name === name)
    if (!field) refuse('invalid', `${platform} has no setting ${JSON.stringify(name)}`)
    if (!field.pattern.test(value)) refuse('invalid', `${field.label} ${field.rule}`)
  }
}
