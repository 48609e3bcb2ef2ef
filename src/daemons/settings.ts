// What an instance can be told, in its .env or in the environment. Each daemon's own settings stand with the daemon.

import { z } from 'zod'
import type { AgentLimits } from '../core/agent-limits.ts'
import type { TurnRules } from '../core/turn-rules.ts'
import { EnvValue } from '../core/values.ts'
import { readTrustedProxies, type Trusts } from '../lib/client-address.ts'
import {
  BooleanSetting,
  BytesSetting,
  CountSetting,
  type Declared,
  DurationSetting,
  ListenSetting,
  QuotaSetting,
  readSettings,
  type Settings,
  type Source,
  setting,
  TextSetting,
  UrlSetting,
} from '../lib/settings.ts'
import { RUNTIME_SETTINGS } from '../runtimes/settings.ts'

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
  TZ: setting(EnvValue, undefined, 'the time zone of schedules; UTC unless said'),
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
  LINK_QUOTA: setting(
    QuotaSetting,
    '10GiB',
    'how many bytes of received messages are stored for the chat of one link; 0 is no limit',
  ),
  FOLDER_QUOTA: setting(
    QuotaSetting,
    '20GiB',
    'how many bytes of received messages are stored for one folder; 0 is no limit',
  ),
  STREAMS_MAX: setting(CountSetting, '20000', 'how many event streams may be open; 0 is no limit'),
  STREAMS_PER_LINK: setting(CountSetting, '1000', 'how many event streams of one link may be open; 0 is no limit'),
} satisfies Declared

/** Of the adapters of platforms. */
export const CHANNEL_SETTINGS = {
  CHANNEL_SECRET: INSTANCE_SETTINGS.CHANNEL_SECRET,
  CHANNEL_REGISTER_ALLOW_PUBLIC: setting(
    BooleanSetting,
    'false',
    'whether an adapter may register a public address; else it must be loopback or private',
  ),
} satisfies Declared

/** Of the turns of the agents (decisions T2 and T6). */
export const TURN_SETTINGS = {
  ENGAGEMENT_TTL: setting(DurationSetting, '30m', 'how long a chat stays with the folder that spoke in it'),
  OBSERVE_WINDOW_MESSAGES: setting(CountSetting, '10', 'how many observed messages a prompt shows at most'),
  OBSERVE_WINDOW_CHARS: setting(
    CountSetting,
    '4000',
    'how many characters of observed messages a prompt shows at most',
  ),
  MAX_CONCURRENT_TURNS: setting(CountSetting, '4', 'how many turns of the instance run at once'),
  MAX_TURNS_PER_FOLDER: setting(CountSetting, '2', 'how many turns of one folder run at once'),
  TURN_LEASE: setting(DurationSetting, '30s', 'how long after its process died a turn is taken up by another'),
} satisfies Declared

/** How much agents may make and ask. */
export const AGENT_LIMIT_SETTINGS = {
  TASKS_PER_FOLDER: setting(
    CountSetting,
    '1000',
    'how many scheduled tasks a folder has; completed ones make room for new ones; 0 is no limit',
  ),
  ACTIVE_TASKS_PER_FOLDER: setting(CountSetting, '100', 'how many tasks of a folder are active; 0 is no limit'),
  TASK_MIN_INTERVAL: setting(
    DurationSetting,
    '1m',
    'the shortest interval in milliseconds that agents and people may give a task',
  ),
  GROUPS_PER_FOLDER: setting(
    CountSetting,
    '200',
    'how many groups lie below one top-level folder when an agent makes another; 0 is no limit',
  ),
  TOOL_CALLS_PER_SECOND: setting(
    CountSetting,
    '100',
    'how many tool calls a second come through one tool socket, one link or one account; 0 is no limit',
  ),
} satisfies Declared

const DeadlineSetting = DurationSetting.refine((ms) => ms >= 100 && ms <= 60_000, 'must be from 100ms to 60s')

/** Of `find_messages`. */
export const SEARCH_SETTINGS = {
  SEARCH_DEADLINE: setting(DeadlineSetting, '5s', 'how long one search of find_messages may take; 100ms to 60s'),
} satisfies Declared

/** Of timed where it runs without the store. */
export const TIMED_SETTINGS = {
  ROUTD_BEARER_FILE: setting(
    TextSetting,
    undefined,
    'a file with a bearer of service:timed, for timed without a store; read at each request',
  ),
} satisfies Declared

/** Of the speech that `send_voice` sends. */
export const SPEECH_SETTINGS = {
  TTS_URL: setting(
    UrlSetting,
    undefined,
    'a speech service that speaks the OpenAI protocol; without it no voice is sent',
  ),
  TTS_MODEL: setting(TextSetting, 'kokoro', 'the model that the speech service is asked for'),
  TTS_VOICE: setting(TextSetting, 'alloy', 'who speaks where neither the tool nor PERSONA.md names a voice'),
  TTS_KEY: setting(TextSetting, undefined, 'the bearer that the speech service wants, where it wants one'),
} satisfies Declared

export function turnRules(sources: readonly Source[]): TurnRules {
  const read = readSettings(TURN_SETTINGS, sources)
  return {
    engagementMs: read.ENGAGEMENT_TTL,
    observeMessages: read.OBSERVE_WINDOW_MESSAGES,
    observeChars: read.OBSERVE_WINDOW_CHARS,
    turnsMax: Math.max(1, read.MAX_CONCURRENT_TURNS),
    turnsPerFolder: Math.max(1, read.MAX_TURNS_PER_FOLDER),
  }
}

export function agentLimits(sources: readonly Source[]): AgentLimits {
  const read = readSettings(AGENT_LIMIT_SETTINGS, sources)
  return {
    tasksPerFolder: read.TASKS_PER_FOLDER,
    activeTasksPerFolder: read.ACTIVE_TASKS_PER_FOLDER,
    taskIntervalMs: read.TASK_MIN_INTERVAL,
    groupsPerFolder: read.GROUPS_PER_FOLDER,
    toolCallsPerSecond: read.TOOL_CALLS_PER_SECOND,
  }
}

/** Everything that a .env of an instance may hold. */
export const ALL_SETTINGS: Declared = {
  ...INSTANCE_SETTINGS,
  ...DOOR_SETTINGS,
  ...LINK_SETTINGS,
  ...CHANNEL_SETTINGS,
  ...TURN_SETTINGS,
  ...AGENT_LIMIT_SETTINGS,
  ...SEARCH_SETTINGS,
  ...SPEECH_SETTINGS,
  ...TIMED_SETTINGS,
  ...RUNTIME_SETTINGS,
  ...perDaemon,
}

export type InstanceSettings = Settings<typeof INSTANCE_SETTINGS>

/** Scheme and host of every URL that is handed out (decision L1). */
export function webBase(host: string): string {
  const trimmed = host.replace(/\/+$/, '')
  if (trimmed.includes('://')) return trimmed
  const isLocal = /^(localhost|127\.0\.0\.1)(:\d+)?$/.test(trimmed)
  return `${isLocal ? 'http' : 'https'}://${trimmed}`
}
