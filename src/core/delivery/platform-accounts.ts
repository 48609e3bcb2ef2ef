// The platforms whose adapters svc starts, each a folder below src/channels with a connector.ts, and what an account of them needs.
import { refuse } from '../../lib/refusal.ts'

export const CONNECTED_PLATFORMS = ['telegram', 'slack', 'discord', 'email'] as const
export type ConnectedPlatform = (typeof CONNECTED_PLATFORMS)[number]

export interface AccountField {
  readonly name: string
  /** Asked for, and named in errors. */
  readonly label: string
  readonly pattern: RegExp
  /** Completes "the token …". */
  readonly rule: string
  /** A secret that is needed only with this value of a setting. */
  readonly onlyWith?: { readonly setting: string; readonly value: string } | undefined
  /** Of a setting, for forms: the first is the default. */
  readonly options?: readonly (readonly [value: string, text: string])[] | undefined
  /** A text that forms ask for. */
  readonly inForms?: true
}

interface PlatformAccount {
  /** Asked for in this order, after the required settings and without echo. Each is a flag, too. */
  readonly secrets: readonly AccountField[]
  /** Flags of their own. */
  readonly required: readonly AccountField[]
  /** Operators give them as `--set <name>=<value>`, or `--tls`. */
  readonly optional: readonly AccountField[]
  /** A sentence about settings that do not go together. */
  fault?(settings: Readonly<Record<string, string>>): string | undefined
  /** With this value of the setting `receive`, the platform sends requests to WEB_HOST. */
  readonly webhooksWith?: string | undefined
}

const BOTS: AccountField = {
  name: 'bots',
  label: 'bots',
  pattern: /^(?:allow|ignore)$/,
  rule: 'must be allow or ignore: whether messages of other bots count',
}

export const DEFAULT_DIRECT_MODE = 'pairing'

const DM: AccountField = {
  name: 'dm',
  label: 'dm',
  pattern: /^(?:pairing|allowlist|open|off)$/,
  rule: 'must be pairing, allowlist, open or off: who may start a direct chat',
}

/** For platforms that can change a message. */
const DRAFTS: AccountField = {
  name: 'drafts',
  label: 'drafts',
  pattern: /^(?:on|off)$/,
  rule: 'must be on or off: whether people see an answer while it is being written',
}

const HOST_PORT = /^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\]):\d{1,5}$/

function isAtLoopback(hostPort: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]):\d{1,5}$/.test(hostPort)
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
    required: [],
    optional: [
      DM,
      BOTS,
      DRAFTS,
      {
        name: 'receive',
        label: 'receive',
        pattern: /^(?:polling|webhook)$/,
        rule: 'must be polling or webhook: whether svc asks Telegram for messages, or Telegram sends them to WEB_HOST',
        options: [
          ['polling', 'by polling, without a public address'],
          ['webhook', 'by webhook at the public address'],
        ],
      },
    ],
    webhooksWith: 'webhook',
  },
  slack: {
    secrets: [
      {
        name: 'app_token',
        label: 'app-level token',
        pattern: /^xapp-[A-Za-z0-9-]{10,250}$/,
        rule: 'must look like xapp-1-…, as "App-Level Tokens" of the app shows it',
        onlyWith: { setting: 'receive', value: 'socket' },
      },
      {
        name: 'bot_token',
        label: 'token of the bot',
        pattern: /^xoxb-[A-Za-z0-9-]{10,250}$/,
        rule: 'must look like xoxb-…, as "OAuth & Permissions" of the app shows it',
      },
      {
        name: 'signing_secret',
        label: 'signing secret',
        pattern: /^[0-9a-f]{32,64}$/,
        rule: 'must be 32 or more digits and letters from a to f, as "Basic Information" of the app shows it',
        onlyWith: { setting: 'receive', value: 'events' },
      },
    ],
    required: [],
    optional: [
      DM,
      BOTS,
      DRAFTS,
      {
        name: 'receive',
        label: 'receive',
        pattern: /^(?:socket|events)$/,
        rule: 'must be socket or events: whether svc opens a connection to Slack, or Slack sends requests to WEB_HOST',
        options: [
          ['socket', 'by Socket Mode, without a public address'],
          ['events', 'by the Events API at the public address'],
        ],
      },
    ],
    webhooksWith: 'events',
  },
  discord: {
    secrets: [
      {
        name: 'token',
        label: 'token of the bot',
        pattern: /^[A-Za-z0-9_-]{20,64}\.[A-Za-z0-9_-]{4,16}\.[A-Za-z0-9_-]{20,100}$/,
        rule: 'must look like MTA….G….…, as "Bot", "Reset Token" of the application shows it',
      },
    ],
    required: [],
    optional: [DM, BOTS, DRAFTS],
  },
  email: {
    secrets: [
      {
        name: 'password',
        label: 'password of the mailbox',
        pattern: /^[^\p{Cc}]{1,1000}$/u,
        rule: 'must be 1 to 1000 characters',
      },
    ],
    required: [
      {
        name: 'address',
        label: 'address',
        pattern: /^[^\s@<>"(),:;\\[\]]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253})$/,
        rule: 'must look like help@example.com',
      },
      { name: 'imap', label: 'IMAP server', pattern: HOST_PORT, rule: 'must look like imap.example.com:993' },
      { name: 'smtp', label: 'SMTP server', pattern: HOST_PORT, rule: 'must look like smtp.example.com:465' },
      {
        name: 'user',
        label: 'user name',
        pattern: /^[^\p{Cc}]{1,320}$/u,
        rule: 'must be 1 to 320 characters, often the whole address',
      },
    ],
    optional: [
      DM,
      {
        name: 'tls',
        label: 'tls',
        pattern: /^(?:on|off)$/,
        rule: 'must be on, or off for servers at loopback addresses',
      },
      {
        name: 'authserv',
        label: 'authserv',
        pattern: /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})$/,
        rule: 'must be the name of the receiving server in Authentication-Results, such as mx.example.com',
        inForms: true,
      },
    ],
    fault: ({ tls, imap = '', smtp = '' }) =>
      tls === 'off' && ![imap, smtp].every(isAtLoopback)
        ? 'tls=off would send the password unencrypted over a network: it is for servers at loopback addresses only'
        : undefined,
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
  mustBeSettings(platform, given.settings)
  const needed = neededSecrets(platform, given.settings)
  for (const field of PLATFORM_ACCOUNTS[platform].secrets) {
    const value = given.secrets[field.name] ?? ''
    if (needed.includes(field) || value !== '') mustMatch(field, value, 'the ')
  }
}

/** The secrets that an account with these settings must have. Others are kept for a change of the settings. */
export function neededSecrets(
  platform: ConnectedPlatform,
  settings: Readonly<Record<string, string>>,
): readonly AccountField[] {
  const { secrets, optional } = PLATFORM_ACCOUNTS[platform]
  return secrets.filter(({ onlyWith }) => {
    if (!onlyWith) return true
    const initial = optional.find(({ name }) => name === onlyWith.setting)?.options?.[0]?.[0]
    return (settings[onlyWith.setting] ?? initial) === onlyWith.value
  })
}

/** Whether its platform sends requests to `webhookUrlOf`. */
export function receivesWebhooks(platform: string, { receive }: Readonly<Record<string, string>>): boolean {
  return receive !== undefined && isConnectedPlatform(platform) && PLATFORM_ACCOUNTS[platform].webhooksWith === receive
}

export function webhookUrlOf(webBase: string, account: string): string {
  return `${webBase}/channels/${account}/`
}

/** Refuses an account whose platform could not reach this server. */
export function mustBeReachable(platform: string, settings: Readonly<Record<string, string>>, webBase: string): void {
  if (!receivesWebhooks(platform, settings)) return
  const { protocol, hostname } = new URL(webBase)
  if (protocol === 'https:' && !/^(?:localhost|.*\.localhost|127\..*|\[::1?\]|0\.0\.0\.0)$/.test(hostname)) return
  refuse(
    'invalid',
    `receive=${settings.receive} needs an address that ${platform} can reach by https, and WEB_HOST leads to ${webBase}`,
    'set WEB_HOST to the public host name of this server, behind a proxy with https',
  )
}

export function mustBeSettings(platform: string, settings: Readonly<Record<string, string>>): void {
  // A newer version may have added it.
  const declared = isConnectedPlatform(platform)
    ? PLATFORM_ACCOUNTS[platform]
    : refuse('invalid', `this version has no adapter for ${platform}`)
  const { required, optional } = declared
  for (const field of required) mustMatch(field, settings[field.name] ?? '', 'the ')
  for (const [name, value] of Object.entries(settings)) {
    const field = [...required, ...optional].find((each) => each.name === name)
    mustMatch(field ?? refuse('invalid', `${platform} has no setting ${JSON.stringify(name)}`), value)
  }
  const fault = declared.fault?.(settings)
  if (fault !== undefined) refuse('invalid', fault)
}

function mustMatch({ label, pattern, rule }: AccountField, value: string, article = ''): void {
  if (!pattern.test(value)) refuse('invalid', `${article}${label} ${rule}`)
}
