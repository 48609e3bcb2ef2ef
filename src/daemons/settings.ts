// The settings of an instance, read from its .env or the environment.
import { isIP } from 'node:net'
import { z } from 'zod'
import type { AgentLimits } from '../core/access/agent-limits.ts'
import type { TurnRules } from '../core/turns/turn-rules.ts'
import { EnvValue } from '../core/values.ts'
import { readTrustedProxies, type TrustedProxyCheck } from '../lib/http/client-address.ts'
import {
  BooleanSetting,
  BytesSetting,
  CountSetting,
  DurationSetting,
  envOnly,
  ListenSetting,
  live,
  QuotaSetting,
  readSettings,
  type SettingDeclarations,
  type SettingSource,
  type Settings,
  setting,
  TextSetting,
  UrlSetting,
} from '../lib/settings.ts'
import { trimTrailing } from '../lib/text/trimming.ts'
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

const perDaemon = envOnly(
  Object.fromEntries(
    DAEMON_NAMES.flatMap((name) => [
      [`${name.toUpperCase()}_LISTEN`, setting(ListenSetting, undefined, `listen address of ${name}`)],
      [`${name.toUpperCase()}_URL`, setting(UrlSetting, undefined, `URL of ${name} when it runs in another process`)],
    ]),
  ),
)

export const INSTANCE_SETTINGS = {
  ASSISTANT_NAME: setting(TextSetting, 'svc', 'name of the agent of main, until it is given one'),
  ...envOnly({
    WEB_LISTEN: setting(
      ListenSetting,
      '127.0.0.1:8080',
      'listen address of proxyd; the other daemons use the ports after it',
    ),
    WEB_HOST: setting(HostSetting, 'localhost:8080', 'host name in links'),
    CHANNEL_SECRET: setting(TextSetting, undefined, 'shared secret with which channel adapters register'),
    SECRETS_KEY: setting(
      TextSetting,
      undefined,
      'encrypts secrets; for rotation a comma-separated list: the first key encrypts, all decrypt',
    ),
    DATABASE_URL: setting(UrlSetting, undefined, 'PostgreSQL database to use instead of the SQLite file'),
    SVC_COMMAND: setting(
      TextSetting,
      undefined,
      'what operators type for svc, in commands on pages and in chats; by default the way in which svc was started',
    ),
    SETTINGS_FIXED: setting(TextSetting, '', 'comma-separated names of settings that cannot be set in the store'),
  }),
  TZ: setting(EnvValue, undefined, 'time zone of schedules; UTC by default'),
  LOG_LEVEL: setting(z.enum(['debug', 'info', 'warn', 'error']), 'info', 'lowest level that is logged'),
  METRICS_ENABLED: setting(BooleanSetting, 'true', 'whether to serve /metrics'),
} satisfies SettingDeclarations

const TrustedSetting = z.string().transform((text, ctx): TrustedProxyCheck => {
  const isTrusted = readTrustedProxies(text)
  if (isTrusted) return isTrusted
  ctx.addIssue({
    code: 'custom',
    message: 'must be a comma-separated list of addresses and ranges such as 127.0.0.1, 10.0.0.0/8',
  })
  return z.NEVER
})

const PRIVATE_RANGE = readTrustedProxies('10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16')

const SubnetSetting = z.string().refine((text) => {
  const [, address = '', third] = /^(\d{1,3}\.\d{1,3}\.(\d{1,3})\.0)\/22$/.exec(text) ?? []
  return PRIVATE_RANGE?.(address) === true && Number(third) % 4 === 0
}, 'must be a private range of 1024 addresses such as 10.77.0.0/22')

/** Of the daemons that clients connect to. */
export const TRUSTED_PROXY_SETTINGS = envOnly({
  TRUSTED_PROXIES: setting(
    TrustedSetting,
    undefined,
    'comma-separated addresses and ranges of proxies whose X-Forwarded-For is trusted',
  ),
})

/** Of the daemons that serve REST. */
export const REST_SETTINGS = live({
  REST_CALLS_PER_SECOND: setting(
    CountSetting,
    '50',
    'REST calls per second of one person to one daemon, ten times as many for operators; 0 means no limit',
  ),
})

/** Of proxyd, whose routes may depend on settings that only other containers have. */
export const ROUTE_SETTINGS = envOnly({
  SETTINGS_SET: setting(
    TextSetting,
    '',
    'comma-separated names of settings that have a value, for gated_by of proxy routes; written by svc generate',
  ),
})

/** Of `svc generate` and the containers that it describes. */
export const CONTAINER_SETTINGS = envOnly({
  SVC_IMAGE: setting(TextSetting, undefined, 'image of the daemons; svc-host with the version of svc by default'),
  CONTAINER_SUBNET: setting(
    SubnetSetting,
    undefined,
    'private range of 1024 addresses for the networks of containers, such as 10.77.0.0/22; chosen by default',
  ),
  POSTGRES_IMAGE: setting(TextSetting, 'postgres:17', 'image of the PostgreSQL service'),
  POSTGRES_PASSWORD: setting(
    TextSetting,
    undefined,
    'password of the PostgreSQL service, which exists if it is set; written by svc generate --postgres',
  ),
  KUBERNETES_VOLUME: setting(
    z.string().regex(/^[1-9]\d{0,5}(?:Mi|Gi|Ti)$/, 'must be a size such as 20Gi'),
    '20Gi',
    'size of the volume with workspaces and pages in Kubernetes',
  ),
})

/** Shorter lifetimes would end sessions while they are used. */
const SessionTimeSetting = DurationSetting.refine((ms) => ms >= 3_600_000, 'must be at least 1h')

/** Of the daemons that start sessions. */
export const SESSION_SETTINGS = live({
  SIGN_IN_ALLOW: setting(
    TextSetting,
    '',
    'comma-separated people who may sign in without a grant or an invite: subs, verified e-mail addresses, *@domain',
  ),
  SESSION_IDLE: setting(SessionTimeSetting, '336h', 'a browser session ends after this time without use; at least 1h'),
  SESSION_MAX: setting(SessionTimeSetting, '2160h', 'a browser session ends after this time in any case; at least 1h'),
})

export const SIGN_IN_SETTINGS = {
  ...SESSION_SETTINGS,
  ...live({
    OAUTH_CLIENT_DOCUMENTS: setting(
      BooleanSetting,
      'on',
      'whether OAuth clients may name themselves by the URL of a metadata document, which authd fetches; otherwise they register',
    ),
  }),
  GITHUB_ID: setting(TextSetting, undefined, 'client ID of an OAuth app, to sign in with GitHub'),
  GITHUB_SECRET: setting(TextSetting, undefined, 'client secret of that OAuth app'),
  DISCORD_ID: setting(TextSetting, undefined, 'client ID of an application, to sign in with Discord'),
  DISCORD_SECRET: setting(TextSetting, undefined, 'client secret of that application'),
  SIGNING_KEY_AGE: setting(
    DurationSetting.refine((ms) => ms === 0 || ms >= 24 * 3_600_000, 'must be 0 (never) or at least 24h'),
    '2160h',
    'the key that signs bearers is replaced after this time; 0 means never, otherwise at least 24h',
  ),
} satisfies SettingDeclarations

const OPENID_KEY = /^OIDC_.*_(?:ISSUER|ID|SECRET)$/s

/** Settings of OpenID providers: OIDC_<NAME>_ISSUER, OIDC_<NAME>_ID and OIDC_<NAME>_SECRET. */
export function isOpenIdKey(key: string): boolean {
  return OPENID_KEY.test(key)
}

export const ONBOARDING_SETTINGS = live({
  ONBOARDING_GREETING: setting(
    TextSetting,
    undefined,
    'greets a chat without a folder, before the question for the name of one',
  ),
})

export const LINK_SETTINGS = live({
  TOKEN_BODY_MAX: setting(BytesSetting, '1MiB', 'largest request body at a link, without files'),
  ATTACHMENT_MAX: setting(BytesSetting, '25MiB', 'largest file in a message to a chat link'),
  WEBHOOK_RATE_HOOK: setting(CountSetting, '600', 'messages per minute through one hook link; 0 means no limit'),
  WEBHOOK_RATE_WEB: setting(CountSetting, '60', 'messages per minute through one chat link; 0 means no limit'),
  LINK_QUOTA: setting(
    QuotaSetting,
    '10GiB',
    'bytes of received messages and files stored for the chat of one link; 0 means no limit',
  ),
  FOLDER_QUOTA: setting(
    QuotaSetting,
    '20GiB',
    'bytes of received messages and files stored for one folder; 0 means no limit',
  ),
  STREAMS_MAX: setting(CountSetting, '20000', 'open event streams; 0 means no limit'),
  STREAMS_PER_LINK: setting(CountSetting, '1000', 'open event streams of one link; 0 means no limit'),
})

export const CHANNEL_SETTINGS = {
  CHANNEL_SECRET: INSTANCE_SETTINGS.CHANNEL_SECRET,
  CHANNEL_REGISTER_ALLOW_PUBLIC: setting(
    BooleanSetting,
    'false',
    'whether an adapter may register a public address; otherwise only loopback or private',
  ),
  ANSWER_ALLOW_LOCAL: setting(
    BooleanSetting,
    'false',
    'whether answers of webhooks may go to URLs at loopback and private addresses; otherwise only public',
  ),
} satisfies SettingDeclarations

const PlatformUrlSetting = z
  .string()
  .refine(
    (text) => /^https?:\/\/[^\s/?#@]+(?:\/[^\s?#]*)?$/.test(text) && URL.canParse(text),
    'must be a URL such as https://bots.example.com, without user, query and fragment',
  )

const AdapterHostSetting = z
  .string()
  .refine(
    (text) => text === '' || isIP(text) !== 0 || /^[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$/.test(text),
    'must be a host name or an address, without scheme and port',
  )

/** Of the process that serves routd. */
export const ADAPTER_SETTINGS = envOnly({
  ADAPTER_HOST: setting(
    AdapterHostSetting,
    undefined,
    'host name or address of the process of routd for the other daemons: it starts the adapters of accounts, which listen on all addresses',
  ),
})

/** Base URLs in place of the platforms' own. */
export const PLATFORM_URL_SETTINGS = {
  TELEGRAM_API_URL: setting(
    PlatformUrlSetting,
    undefined,
    'base URL of a Bot API server of your own; /bot<token>/… is below it',
  ),
  SLACK_API_URL: setting(
    PlatformUrlSetting,
    undefined,
    "base URL in place of Slack's, such as that of GovSlack; /api/… is below it",
  ),
  DISCORD_API_URL: setting(
    PlatformUrlSetting,
    undefined,
    "base URL in place of Discord's; /v10/… is below it, and the gateway is asked for there",
  ),
} satisfies SettingDeclarations

/** See docs/decisions.md#turn-defaults. */
export const TURN_SETTINGS = {
  ...live({
    ENGAGEMENT_TTL: setting(
      DurationSetting,
      '30m',
      'how long a chat stays engaged with the folder that last answered in it',
    ),
    OBSERVE_WINDOW_MESSAGES: setting(CountSetting, '10', 'most observed messages in a prompt'),
    OBSERVE_WINDOW_CHARS: setting(CountSetting, '4000', 'most characters of observed messages in a prompt'),
    MAX_CONCURRENT_TURNS: setting(CountSetting, '4', 'concurrent turns of the instance'),
    MAX_TURNS_PER_FOLDER: setting(CountSetting, '2', 'concurrent turns of one folder'),
  }),
  TURN_LEASE: setting(DurationSetting, '30s', 'how long after the death of its process another one takes over a turn'),
} satisfies SettingDeclarations

const DollarSetting = z
  .string()
  .regex(/^\d{1,7}(\.\d{1,2})?$/, 'must be an amount of dollars such as 100 or 2.50')
  .transform(Number)

/** Not of a link, whose readers may be anyone. */
const PlatformChatSetting = z
  .string()
  .regex(
    /^(?!(?:web|hook):)[a-z][a-z0-9_-]*:[\x21-\x7e]{1,500}$/,
    'must be a chat of a platform such as telegram:user/42',
  )

export const AGENT_LIMIT_SETTINGS = live({
  TASKS_PER_FOLDER: setting(
    CountSetting,
    '1000',
    'scheduled tasks of one folder; the oldest completed ones are removed for new ones; 0 means no limit',
  ),
  ACTIVE_TASKS_PER_FOLDER: setting(CountSetting, '100', 'active tasks of one folder; 0 means no limit'),
  TASK_MIN_INTERVAL: setting(
    DurationSetting,
    '1m',
    'shortest interval of a task, and of tasks that tasks schedule; 0 means no limit',
  ),
  GROUPS_PER_FOLDER: setting(
    CountSetting,
    '200',
    'groups below one top-level folder that agents may create; 0 means no limit',
  ),
  TOOL_CALLS_PER_SECOND: setting(
    CountSetting,
    '100',
    'tool calls per second through one tool socket, link or account; 0 means no limit',
  ),
  EXTERNAL_COST_MAX: setting(
    DollarSetting,
    '100',
    'highest cost that an agent may report with one call of log_external_cost, or for one turn, in dollars; more is refused',
  ),
  APPROVAL_CHAT: setting(
    PlatformChatSetting,
    undefined,
    'chat of a platform where operators are asked to approve held calls, such as telegram:user/42',
  ),
})

const DeadlineSetting = DurationSetting.refine((ms) => ms >= 100 && ms <= 60_000, 'must be from 100ms to 60s')

/** A shorter time is probably a mistake, and removal cannot be undone. */
const KEEP_MIN_MS = 3_600_000
const KeepSetting = DurationSetting.refine((ms) => ms === 0 || ms >= KEEP_MIN_MS, 'must be 0 (forever) or at least 1h')

export const RETENTION_SETTINGS = live({
  KEEP_MESSAGES: setting(KeepSetting, '0', 'how long messages are kept, at least 1h; 0 means forever'),
  KEEP_TURNS: setting(KeepSetting, '0', 'how long ended turns and their logs are kept, at least 1h; 0 means forever'),
  KEEP_AUDIT: setting(KeepSetting, '9600h', 'how long audit rows are kept (400 days), at least 1h; 0 means forever'),
})

export const SEARCH_SETTINGS = live({
  SEARCH_DEADLINE: setting(DeadlineSetting, '5s', 'timeout of one search with find_messages; 100ms to 60s'),
})

export const TIMED_SETTINGS = envOnly({
  ROUTD_BEARER_FILE: setting(
    TextSetting,
    undefined,
    'file with a bearer token of service:timed, for timed without a store; read at each request',
  ),
})

const PAIRS_FAULT = 'must be a comma-separated list of key=value, values percent-encoded'

/** `key=value,key=value` as in the specification of OpenTelemetry. */
const PairsSetting = z.string().transform((text, ctx): Readonly<Record<string, string>> => {
  const pairs = text.split(',').map((pair) => pair.trim())
  const read = pairs.filter((pair) => pair !== '').map((pair) => readPair(pair))
  if (!read.includes(undefined)) return Object.fromEntries(read.flatMap((pair) => (pair ? [pair] : [])))
  ctx.addIssue({ code: 'custom', message: PAIRS_FAULT })
  return z.NEVER
})

/** Keys are names of headers or attributes; a header cannot contain control characters. */
function readPair(pair: string): readonly [key: string, value: string] | undefined {
  const [, key, encoded] = /^([!#$%&'*+.^_`|~\w-]+)\s*=\s*(.*)$/s.exec(pair) ?? []
  if (key === undefined || encoded === undefined) return undefined
  try {
    const value = decodeURIComponent(encoded.trim())
    return /^[\t\x20-\x7e\x80-\xff]*$/.test(value) ? [key, value] : undefined
  } catch {
    return undefined
  }
}

const CollectorSetting = z.string().refine((text) => {
  if (text === '') return true
  const url = URL.parse(text)
  return (
    url !== null && /^https?:$/.test(url.protocol) && `${url.username}${url.password}${url.search}${url.hash}` === ''
  )
}, 'must be a URL such as http://localhost:4318, without user, query and /v1/traces; credentials are headers (OTEL_EXPORTER_OTLP_HEADERS)')

/** Names and meanings are those of OpenTelemetry, so that variables of the machine apply. */
export const TRACE_SETTINGS = {
  OTEL_EXPORTER_OTLP_ENDPOINT: setting(
    CollectorSetting,
    undefined,
    'base URL of an OpenTelemetry collector; without it no traces are exported',
  ),
  OTEL_EXPORTER_OTLP_HEADERS: setting(
    PairsSetting,
    undefined,
    'headers for the collector, such as authorization=Bearer%20x; comma-separated',
  ),
  OTEL_EXPORTER_OTLP_PROTOCOL: setting(
    z.string().refine((text) => text === 'http/json', 'must be http/json: svc exports traces with no other protocol'),
    'http/json',
    'protocol of the collector; only http/json',
  ),
  OTEL_SERVICE_NAME: setting(TextSetting, 'svc', 'service.name of the traces'),
  OTEL_RESOURCE_ATTRIBUTES: setting(
    PairsSetting,
    undefined,
    'further attributes of the process in traces, such as deployment.environment.name=test; comma-separated',
  ),
} satisfies SettingDeclarations

/** Undefined if traces are not exported: the other variables may then be meant for other programs on this machine. */
export function readTraceSettings(sources: readonly SettingSource[]): Settings<typeof TRACE_SETTINGS> | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT } = TRACE_SETTINGS
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = readSettings({ OTEL_EXPORTER_OTLP_ENDPOINT }, sources)
  return endpoint === undefined || endpoint === '' ? undefined : readSettings(TRACE_SETTINGS, sources)
}

export const SPEECH_SETTINGS = {
  TTS_URL: setting(UrlSetting, undefined, 'speech service with the OpenAI API; without it send_voice is unavailable'),
  TTS_MODEL: setting(TextSetting, 'kokoro', 'model of the speech service'),
  TTS_VOICE: setting(TextSetting, 'alloy', 'default voice; the tool call and PERSONA.md take precedence'),
  TTS_KEY: setting(TextSetting, undefined, 'bearer token for the speech service, if it needs one'),
} satisfies SettingDeclarations

export const TRANSCRIPTION_SETTINGS = {
  STT_URL: setting(
    UrlSetting,
    undefined,
    'speech-to-text service with the OpenAI API; with it agents get transcripts of voice messages',
  ),
  STT_MODEL: setting(TextSetting, 'whisper-1', 'model of the speech-to-text service'),
  STT_KEY: setting(TextSetting, undefined, 'bearer token for the speech-to-text service, if it needs one'),
} satisfies SettingDeclarations

export function readTurnRules(sources: readonly SettingSource[]): TurnRules {
  const read = readSettings(TURN_SETTINGS, sources)
  return {
    engagementMs: read.ENGAGEMENT_TTL,
    observeMessages: read.OBSERVE_WINDOW_MESSAGES,
    observeChars: read.OBSERVE_WINDOW_CHARS,
    turnsMax: Math.max(1, read.MAX_CONCURRENT_TURNS),
    turnsPerFolder: Math.max(1, read.MAX_TURNS_PER_FOLDER),
  }
}

export function readAgentLimits(sources: readonly SettingSource[]): AgentLimits {
  const { FOLDER_QUOTA } = LINK_SETTINGS
  const read = readSettings({ ...AGENT_LIMIT_SETTINGS, ...SEARCH_SETTINGS, FOLDER_QUOTA }, sources)
  return {
    tasksPerFolder: read.TASKS_PER_FOLDER,
    activeTasksPerFolder: read.ACTIVE_TASKS_PER_FOLDER,
    taskIntervalMs: read.TASK_MIN_INTERVAL,
    groupsPerFolder: read.GROUPS_PER_FOLDER,
    toolCallsPerSecond: read.TOOL_CALLS_PER_SECOND,
    externalCostMaxUsd: read.EXTERNAL_COST_MAX,
    folderQuotaBytes: read.FOLDER_QUOTA,
    searchMs: read.SEARCH_DEADLINE,
    approvalChat: read.APPROVAL_CHAT,
  }
}

/** Every setting that a .env may contain. */
export const ALL_SETTINGS: SettingDeclarations = {
  ...INSTANCE_SETTINGS,
  ...TRUSTED_PROXY_SETTINGS,
  ...REST_SETTINGS,
  ...ROUTE_SETTINGS,
  ...CONTAINER_SETTINGS,
  ...SIGN_IN_SETTINGS,
  ...ONBOARDING_SETTINGS,
  ...LINK_SETTINGS,
  ...CHANNEL_SETTINGS,
  ...ADAPTER_SETTINGS,
  ...PLATFORM_URL_SETTINGS,
  ...TURN_SETTINGS,
  ...AGENT_LIMIT_SETTINGS,
  ...RETENTION_SETTINGS,
  ...SEARCH_SETTINGS,
  ...SPEECH_SETTINGS,
  ...TRANSCRIPTION_SETTINGS,
  ...TRACE_SETTINGS,
  ...TIMED_SETTINGS,
  ...RUNTIME_SETTINGS,
  ...perDaemon,
}

/** Refuses a value that `svc serve` would refuse. */
export function mustBeServable(sources: readonly SettingSource[]): void {
  readTraceSettings(sources)
  const others = Object.entries(ALL_SETTINGS).filter(([key]) => !Object.hasOwn(TRACE_SETTINGS, key))
  readSettings(Object.fromEntries(others), sources)
}

export type InstanceSettings = Settings<typeof INSTANCE_SETTINGS>

/** Scheme and host of links. See docs/decisions.md#scheme-of-printed-urls. */
export function webBaseUrl(host: string): string {
  const trimmed = trimTrailing(host, '/')
  if (trimmed.includes('://')) return trimmed
  const isLocal = /^(localhost|127\.0\.0\.1)(:\d+)?$/.test(trimmed)
  return `${isLocal ? 'http' : 'https'}://${trimmed}`
}
