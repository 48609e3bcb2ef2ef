// What an instance can be told, in its .env or in the environment. Each daemon's own settings stand with the daemon.

import { z } from 'zod'
import {
  BooleanSetting,
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

/** Everything that a .env of an instance may hold. */
export const ALL_SETTINGS: Declared = { ...INSTANCE_SETTINGS, ...perDaemon }

export type InstanceSettings = Settings<typeof INSTANCE_SETTINGS>

/** Scheme and host of every URL that is handed out (decision L1). */
export function webBase(host: string): string {
  const trimmed = host.replace(/\/+$/, '')
  if (trimmed.includes('://')) return trimmed
  const isLocal = /^(localhost|127\.0\.0\.1)(:\d+)?$/.test(trimmed)
  return `${isLocal ? 'http' : 'https'}://${trimmed}`
}
