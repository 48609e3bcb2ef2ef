// Settings of the proxy from flags, environment, file and defaults, in this order. An empty value counts: it switches a listener
// off. Returned as a value together with its warnings.
import { isIP } from 'node:net'
import { homedir } from 'node:os'
import { z } from 'zod'
import { withUsageErrors } from '../../lib/command-line/program.ts'
import { environment } from '../../lib/environment.ts'
import {
  BooleanSetting,
  CountSetting,
  DurationSetting,
  type ListenEndpoint,
  listenSetting,
  readSettings,
  type Setting,
  type SettingSource,
  type Settings,
  setting,
  sourceOf,
} from '../../lib/settings.ts'
import { parseHost } from '../address/host.ts'
import { canonicalAddress } from '../address/ip-address.ts'
import type { ProxyLimits } from '../connection/limits.ts'
import { findSettingsFile, type SettingsSearchPaths } from './settings-file.ts'

const SECRET_MAX = 4096
const MESSAGE_MAX = 400

/** An empty host means all addresses; an empty text means no listener. */
const ListenerSetting = z.string().transform((text, ctx): ListenEndpoint | null => {
  if (text === '') return null
  const { data, error } = listenSetting('').safeParse(text)
  // IPv4-mapped IPv6 is IPv4. A zone cannot be bound here.
  const host = data?.host.includes(':') ? canonicalAddress(data.host) : data?.host
  if (data && host !== undefined) return { host, port: data.port }
  ctx.addIssue({ code: 'custom', message: error?.issues[0]?.message ?? 'must be an address without a zone' })
  return z.NEVER
})

const SecretSetting = z
  .string()
  .regex(/^[\x21-\x7e]*$/, 'must be visible ASCII characters without blanks, as only those can be sent in a header')
  .max(SECRET_MAX)

const PathSetting = z.string().refine((path) => !path.includes('\0'), 'must not contain a NUL byte')

const MessageSetting = z
  .string()
  .max(MESSAGE_MAX)
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u, 'must be one line of printable characters')

/** As the resolver takes them: addresses with or without a port. */
const ServersSetting = z.string().transform((text, ctx): readonly string[] => {
  const servers = text.split(',').flatMap((part) => part.trim() || [])
  if (servers.every(isServer)) return servers
  ctx.addIssue({
    code: 'custom',
    message: 'must be a comma-separated list of IP addresses such as 10.0.0.2,10.0.0.3:5353',
  })
  return z.NEVER
})

function isServer(text: string): boolean {
  if (isIP(text) > 0) return !text.includes('%')
  const [, bracketed, plain, port] = /^(?:\[([^\]%]+)\]|([\d.]+)):(\d{1,5})$/.exec(text) ?? []
  return (isIP(bracketed ?? '') === 6 || isIP(plain ?? '') === 4) && Number(port) > 0 && Number(port) <= 65_535
}

const HostsSetting = z.string().transform((text, ctx): readonly string[] => {
  const hosts = text.split(',').flatMap((part) => part.trim() || [])
  const names = hosts.map(parseHost).flatMap((host) => (host?.kind === 'name' ? [host.text] : []))
  if (names.length === hosts.length) return names
  ctx.addIssue({ code: 'custom', message: 'must be a comma-separated list of host names without ports' })
  return z.NEVER
})

/** Node's timers last no longer. */
const TIMEOUT_MAX_MS = 24 * 24 * 3_600_000
const OptionalTimeoutSetting = DurationSetting.refine((ms) => ms <= TIMEOUT_MAX_MS, 'must be at most 576h (24 days)')
const TimeoutSetting = OptionalTimeoutSetting.refine((ms) => ms > 0, 'must be longer than 0')

const IO = ['auto', 'epoll', 'net'] as const

/** Of `proxy serve`, by environment variable. */
export const SERVE_SETTINGS = {
  EGRESS_PROXY_ADDR: setting(ListenerSetting, ':3128', 'listen address of the forward proxy; empty disables it'),
  EGRESS_ADMIN_ADDR: setting(ListenerSetting, ':3129', 'listen address of the admin API; empty disables it'),
  EGRESS_TRANSPARENT_ADDR: setting(
    ListenerSetting,
    ':3127',
    'listen address for redirected connections; empty disables it',
  ),
  EGRESS_ADMIN_SECRET: setting(SecretSetting, undefined, 'the bearer token for changing the registry'),
  EGRESS_ADMIN_HOSTS: setting(
    HostsSetting,
    undefined,
    'host names under which the admin listener is reached, besides addresses, localhost and names without a dot',
  ),
  EGRESS_STATE_PATH: setting(PathSetting, undefined, 'the file that stores the registry; unset or empty: memory only'),
  EGRESS_DENY_PRIVATE: setting(BooleanSetting, 'false', 'whether names that resolve to private addresses are denied'),
  EGRESS_VERIFY_SNI: setting(BooleanSetting, 'true', 'whether the name in a TLS hello must be allowed as well'),
  EGRESS_HEAD_TIMEOUT: setting(TimeoutSetting, '10s', 'how long a client may take to send the head of a request'),
  EGRESS_DNS_TIMEOUT: setting(TimeoutSetting, '5s', 'how long a DNS lookup may take'),
  EGRESS_CONNECT_TIMEOUT: setting(TimeoutSetting, '10s', 'how long connecting to one address may take'),
  EGRESS_DIAL_TIMEOUT: setting(TimeoutSetting, '30s', 'how long connecting to all addresses of a host may take'),
  EGRESS_RESPONSE_TIMEOUT: setting(
    OptionalTimeoutSetting,
    '15m',
    'how long a host may take to begin its response to a plain HTTP request; 0 means no limit',
  ),
  EGRESS_IDLE_TIMEOUT: setting(
    OptionalTimeoutSetting,
    '1h',
    'how long a tunnel, half-closed or not, or a body may be idle; 0 means no limit',
  ),
  EGRESS_KEEP_ALIVE_TIMEOUT: setting(TimeoutSetting, '1m', 'how long a client may wait between two requests'),
  EGRESS_ORIGIN_KEEP_ALIVE_TIMEOUT: setting(
    TimeoutSetting,
    '4s',
    'how long a connection to a host is kept open for the next request of the same client',
  ),
  EGRESS_LINGER_TIMEOUT: setting(TimeoutSetting, '1m', 'how long a client may take to close after its last response'),
  EGRESS_REFUSAL_TIMEOUT: setting(TimeoutSetting, '1s', 'how long a client may take to read a refusal and close'),
  EGRESS_DRAIN_TIMEOUT: setting(
    OptionalTimeoutSetting,
    '10s',
    'how long open connections may last when the proxy stops',
  ),
  EGRESS_MAX_PER_SOURCE: setting(
    CountSetting,
    undefined,
    'connections of one source; 0 means no limit; unset: a quarter of the total, at most 4096',
  ),
  EGRESS_MAX_CONNECTIONS: setting(CountSetting, '0', 'connections in total; 0 means as many as open files allow'),
  EGRESS_DENY_MESSAGE: setting(MessageSetting, undefined, 'a sentence appended to every denial'),
  EGRESS_DNS_SERVERS: setting(ServersSetting, undefined, 'DNS servers; unset or empty: those of the system'),
  EGRESS_IO: setting(z.enum(IO), 'auto', 'how bytes are moved: epoll (Linux), net, or auto for the best available'),
}

type ServeKey = keyof typeof SERVE_SETTINGS

const FLAGS = {
  listen: 'EGRESS_PROXY_ADDR',
  admin: 'EGRESS_ADMIN_ADDR',
  transparent: 'EGRESS_TRANSPARENT_ADDR',
  'deny-private': 'EGRESS_DENY_PRIVATE',
} as const satisfies Record<string, ServeKey>

export type ServeFlags = { readonly [F in keyof typeof FLAGS]?: string | undefined }

export interface ServeSettings {
  readonly listen?: ListenEndpoint
  /** None: no admin listener. */
  readonly admin: readonly ListenEndpoint[]
  readonly transparent?: ListenEndpoint
  /** The default address is optional: the proxy starts without this listener if it cannot bind. */
  readonly transparentIsOptional?: true
  readonly secret?: string
  readonly adminHosts?: readonly string[]
  readonly statePath?: string
  readonly denyPrivate: boolean
  readonly verifySni: boolean
  readonly denyMessage?: string
  /** 0 means no limit for the numbers, `idleMs` and `responseMs`. */
  readonly limits: Omit<ProxyLimits, 'maxPerSource' | 'maxRefused'> & { readonly maxPerSource?: number }
  readonly dns: { readonly servers?: readonly string[] }
  readonly io: (typeof IO)[number]
}

export interface LoadedServeSettings {
  readonly settings: ServeSettings
  readonly warnings: readonly string[]
  /** The file that was read. */
  readonly path: string | undefined
}

/** For this user on this machine. */
export function settingsSearchPaths(config: string | undefined, variables: SettingSource): SettingsSearchPaths {
  return { config, configHome: variables.get('XDG_CONFIG_HOME'), home: variables.get('HOME') ?? findHome() }
}

/** A service may run without $HOME. */
function findHome(): string | undefined {
  try {
    return homedir()
  } catch {
    // In a container the user may be a bare uid without an account.
    return undefined
  }
}

/** A refusal names the flag, the variable, or the file, line and key. */
export async function readServeSettings(
  flags: ServeFlags,
  paths: SettingsSearchPaths,
  variables: SettingSource = environment(),
): Promise<LoadedServeSettings> {
  const file = await findSettingsFile(paths, SERVE_SETTINGS)
  const sources = [checkedFlags(flags), variables, sourceOf(file.path ?? 'no file', file.values)]
  const { settings, warning } = settle(readSettings(SERVE_SETTINGS, sources))
  const isAsked = sources.some((source) => source.get('EGRESS_TRANSPARENT_ADDR') !== undefined)
  return {
    settings: isAsked ? settings : { ...settings, transparentIsOptional: true },
    warnings: [...file.warnings, ...(warning === undefined ? [] : [warning])],
    path: file.path,
  }
}

/** Under their flag names, so that an error names `--listen`. */
function checkedFlags(flags: ServeFlags): SettingSource {
  const given = Object.entries(FLAGS).flatMap(([flag, key]) => {
    const text = Object.entries(flags).find(([name]) => name === flag)?.[1]
    return text === undefined ? [] : [{ name: `--${flag}`, key, text }]
  })
  const declared: Record<string, Setting> = Object.fromEntries(
    given.map(({ name, key }) => [name, SERVE_SETTINGS[key]]),
  )
  const source = sourceOf('the flags', new Map(given.map(({ name, text }) => [name, text])))
  withUsageErrors(() => readSettings(declared, [source]))
  return sourceOf('the flags', new Map(given.map(({ key, text }) => [key, text])))
}

function settle(values: Settings<typeof SERVE_SETTINGS>): { settings: ServeSettings; warning: string | undefined } {
  const secret = values.EGRESS_ADMIN_SECRET || undefined
  const admin = values.EGRESS_ADMIN_ADDR
  const settings: ServeSettings = {
    ...given('listen', everywhere(values.EGRESS_PROXY_ADDR)),
    admin: adminListens(admin, secret !== undefined),
    ...given('transparent', everywhere(values.EGRESS_TRANSPARENT_ADDR)),
    ...given('secret', secret),
    ...given('adminHosts', values.EGRESS_ADMIN_HOSTS?.length ? values.EGRESS_ADMIN_HOSTS : undefined),
    ...given('statePath', values.EGRESS_STATE_PATH || undefined),
    denyPrivate: values.EGRESS_DENY_PRIVATE,
    verifySni: values.EGRESS_VERIFY_SNI,
    ...given('denyMessage', values.EGRESS_DENY_MESSAGE || undefined),
    limits: {
      headMs: values.EGRESS_HEAD_TIMEOUT,
      dnsMs: values.EGRESS_DNS_TIMEOUT,
      connectMs: values.EGRESS_CONNECT_TIMEOUT,
      dialMs: values.EGRESS_DIAL_TIMEOUT,
      responseMs: values.EGRESS_RESPONSE_TIMEOUT,
      idleMs: values.EGRESS_IDLE_TIMEOUT,
      keepAliveMs: values.EGRESS_KEEP_ALIVE_TIMEOUT,
      originIdleMs: values.EGRESS_ORIGIN_KEEP_ALIVE_TIMEOUT,
      lingerMs: values.EGRESS_LINGER_TIMEOUT,
      refusalMs: values.EGRESS_REFUSAL_TIMEOUT,
      drainMs: values.EGRESS_DRAIN_TIMEOUT,
      ...given('maxPerSource', values.EGRESS_MAX_PER_SOURCE),
      maxConnections: values.EGRESS_MAX_CONNECTIONS,
    },
    dns: given('servers', values.EGRESS_DNS_SERVERS?.length ? values.EGRESS_DNS_SERVERS : undefined),
    io: values.EGRESS_IO,
  }
  return { settings, warning: secret === undefined ? secretWarning(admin) : undefined }
}

/** A property that is omitted rather than undefined. */
function given<K extends string, V>(name: K, value: V | undefined): { readonly [N in K]?: V } {
  // A computed key widens to string; the only key is K.
  return (value === undefined ? {} : { [name]: value }) as { readonly [N in K]?: V }
}

/** `::` also accepts IPv4. */
function everywhere(listen: ListenEndpoint | null): ListenEndpoint | undefined {
  return listen === null ? undefined : { host: listen.host || '::', port: listen.port }
}

/** Anyone who reaches an admin listener without a secret controls the proxy: by default only this machine can. */
function adminListens(listen: ListenEndpoint | null, hasSecret: boolean): readonly ListenEndpoint[] {
  if (listen === null) return []
  const { host, port } = listen
  if (host !== '') return [listen]
  return (hasSecret ? ['::'] : ['127.0.0.1', '::1']).map((address) => ({ host: address, port }))
}

function secretWarning(listen: ListenEndpoint | null): string | undefined {
  if (listen === null) return undefined
  const who = listen.host === '' ? 'only this machine' : `everyone who reaches ${listen.host} port ${listen.port}`
  return `EGRESS_ADMIN_SECRET is not set: the admin listener requires no secret and serves ${who}`
}
