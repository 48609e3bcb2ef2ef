// What an instance can be told, in its .env or in the environment. Each daemon's own settings stand with the daemon.

import { z } from 'zod'
import { readTrustedProxies, type Trusts } from '../lib/client-address.ts'
import {
  BooleanSetting,
  BytesSetting,
  CountSetting,
  type Declared,
  ListenSetting,
  type Settings,
  setting,
  TextSetting,
  UrlSetting,
} from '../lib/settings.ts'

export const DAEMON_NAMES = ['proxyd', 'routd', 'webd', 'gated', 'runed', 'authd', 'onbod', 'timed', 'dashd'] as const
export type DaemonName = (typeof DAEMON_NAMES)[number]

const HostSetting = z
  .string()
  .refine(
    (value) =>
      value === '' ||
      /^(https?:\/\/)?[A-Za-z0-9.-]+(:\d{1,5})?\/?$|^(https?:\/\/)?\[[0-9a-f:]+\](:\d{1,5})?\/?$/i.test(value),
    'must be a host such as chat.example.com or localhost:8080',
  )

const perDaemon = Object.fromEntries(
  DAEMON_NAMES.flatMap((name) => [
    [`${name.toUpperCase()}_LISTEN`, setting(ListenSetting, undefined, `where ${name} listens`)],
    [
      `${name.toUpperCase()}_URL`,
      setting(UrlSetting, undefined, `where ${name} is reached when it runs in another process`),
    ],
  ]),
)

export const INSTANCE_SETTINGS = {
  ASSISTANT_NAME: setting(TextSetting, 'svc', 'what the agents are called'),
  WEB_LISTEN: setting(
    ListenSetting,
    '127.0.0.1:8080',
    'where the front door listens; the daemons take the ports after it',
  ),
  WEB_HOST: setting(HostSetting, 'localhost:8080', 'the host in the links that are handed out'),
  CHANNEL_SECRET: setting(TextSetting, undefined, 'what channel adapters present'),
  SECRETS_KEY: setting(TextSetting, undefined, 'seals secrets; a comma list rotates: the first seals, all open'),
  DATABASE_URL: setting(UrlSetting, undefined, 'PostgreSQL instead of the SQLite file'),
  TZ: setting(TextSetting, undefined, 'the time zone of schedules; UTC unless said'),
  LOG_LEVEL: setting(z.enum(['debug', 'info', 'warn', 'error']), 'info', 'what is logged'),
  METRICS_ENABLED: setting(BooleanSetting, 'true', 'whether /metrics answers'),
} satisfies Declared

const TrustedSetting = z.string().transform((text, ctx): Trusts => {
  const trusts = readTrustedProxies(text)
  if (trusts) return trusts
  ctx.addIssue({
    code: 'custom',
    message: 'must be a comma list of addresses and ranges such as 127.0.0.1, 10.0.0.0/8',
  })
  return z.NEVER
})

/** Of those who listen to strangers. */
export const DOOR_SETTINGS = {
  TRUSTED_PROXIES: setting(
    TrustedSetting,
    undefined,
    'the proxies in front whose X-Forwarded-For is believed: addresses and ranges, comma between',
  ),
} satisfies Declared

/** Of the links. */
export const LINK_SETTINGS = {
  TOKEN_BODY_MAX: setting(BytesSetting, '1MiB', 'the largest body that a link takes'),
  WEBHOOK_RATE_HOOK: setting(CountSetting, '600', 'how many messages a minute a hook link takes; 0 is no limit'),
  WEBHOOK_RATE_WEB: setting(CountSetting, '60', 'how many messages a minute a chat link takes; 0 is no limit'),
  STREAMS_MAX: setting(CountSetting, '20000', 'how many event streams may be open; 0 is no limit'),
  STREAMS_PER_LINK: setting(CountSetting, '1000', 'how many event streams of one link may be open; 0 is no limit'),
} satisfies Declared

/** Everything that a .env of an instance may hold. */
export const ALL_SETTINGS: Declared = { ...INSTANCE_SETTINGS, ...DOOR_SETTINGS, ...LINK_SETTINGS, ...perDaemon }

export type InstanceSettings = Settings<typeof INSTANCE_SETTINGS>

/** Scheme and host of every URL that is handed out (decision L1). */
export function webBase(host: string): string {
  const trimmed = host.replace(/\/+$/, '')
  if (trimmed.includes('://')) return trimmed
  const isLocal = /^(localhost|127\.0\.0\.1)(:\d+)?$/.test(trimmed)
  return `${isLocal ? 'http' : 'https'}://${trimmed}`
}
