// The settings of the proxy: from flags, else the environment, else a file, else the default. Text that is set but empty is
// a value: it switches a listener off. What they come to is handed on as a value, with the warnings that belong to it.
import { isIP } from 'node:net'
import { homedir } from 'node:os'
import { z } from 'zod'
import { asMisuse } from '../lib/program.ts'
import {
  BooleanSetting,
  CountSetting,
  DurationSetting,
  environment,
  type Listen,
  listenSetting,
  readSettings,
  type Setting,
  type Settings,
  type Source,
  setting,
  sourceOf,
} from '../lib/settings.ts'
import { canonicalAddress } from './address-text.ts'
import { parseHost } from './host.ts'
import type { Limits } from './limits.ts'
import { findSettingsFile, type Places } from './settings-file.ts'

const SECRET_MAX = 4096
const MESSAGE_MAX = 400

/** A host that is empty means all addresses; nothing at all means that there is no listener. */
const ListenerSetting = z.string().transform((text, ctx): Listen | null => {
  if (text === '') return null
  const { data, error } = listenSetting('').safeParse(text)
  // IPv4 that is written as IPv6 is IPv4. A zone is no part of what is bound here.
  const host = data?.host.includes(':') ? canonicalAddress(data.host) : data?.host
  if (data && host !== undefined) return { host, port: data.port }
  ctx.addIssue({ code: 'custom', message: error?.issues[0]?.message ?? 'must be an address without a zone' })
  return z.NEVER
})

const SecretSetting = z
  .string()
  .regex(/^[\x21-\x7e]*$/, 'must be of visible ASCII characters, without blanks: no other can be sent in a header')
  .max(SECRET_MAX)

const PathSetting = z.string().refine((path) => !path.includes('\0'), 'must not have a zero byte in it')

const MessageSetting = z
  .string()
  .max(MESSAGE_MAX)
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u, 'must be one line of printable characters')

/** As the resolver takes them: addresses, each with a port or without. */
const ServersSetting = z.string().transform((text, ctx): readonly string[] => {
  const servers = text.split(',').flatMap((part) => part.trim() || [])
  if (servers.every(isServer)) return servers
  ctx.addIssue({ code: 'custom', message: 'must be IP addresses with commas between, such as 10.0.0.2,10.0.0.3:5353' })
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
  ctx.addIssue({ code: 'custom', message: 'must be host names with commas between, without ports' })
  return z.NEVER
})

/** A timer of Node's lasts no longer. */
const TIMEOUT_MAX_MS = 24 * 24 * 3_600_000
const OptionalTimeoutSetting = DurationSetting.refine((ms) => ms <= TIMEOUT_MAX_MS, 'must be at most 576h (24 days)')
const TimeoutSetting = OptionalTimeoutSetting.refine((ms) => ms > 0, 'must be longer than 0')

const IO = ['auto', 'epoll', 'net'] as const

/** Of `proxy serve`, by the name of the environment's variable. */
export const SERVE = {
  EGRESS_PROXY_ADDR: setting(ListenerSetting, ':3128', 'where the forward proxy listens; empty: nowhere'),
  EGRESS_ADMIN_ADDR: setting(ListenerSetting, ':3129', 'where the admin listener is; empty: nowhere'),
  EGRESS_TRANSPARENT_ADDR: setting(ListenerSetting, ':3127', 'where redirected connections arrive; empty: nowhere'),
  EGRESS_ADMIN_SECRET: setting(SecretSetting, undefined, 'the bearer token of whoever changes the registry'),
  EGRESS_ADMIN_HOSTS: setting(
    HostsSetting,
    undefined,
    'host names by which the admin listener is asked, besides addresses, localhost and names without a dot',
  ),
  EGRESS_STATE_PATH: setting(PathSetting, undefined, 'the file that keeps the registry; unset or empty: memory alone'),
  EGRESS_DENY_PRIVATE: setting(BooleanSetting, 'false', 'whether names that resolve to private addresses are denied'),
  EGRESS_VERIFY_SNI: setting(BooleanSetting, 'true', 'whether the name in a TLS hello must be allowed as well'),
  EGRESS_HEAD_TIMEOUT: setting(TimeoutSetting, '10s', 'how long a client may take to send the head of a request'),
  EGRESS_DNS_TIMEOUT: setting(TimeoutSetting, '5s', 'how long looking a name up may take'),
  EGRESS_CONNECT_TIMEOUT: setting(TimeoutSetting, '10s', 'how long connecting to one address may take'),
  EGRESS_DIAL_TIMEOUT: setting(TimeoutSetting, '30s', 'how long connecting to all addresses of a host may take'),
  EGRESS_RESPONSE_TIMEOUT: setting(
    OptionalTimeoutSetting,
    '15m',
    'how long a host may take to begin its answer to a plain HTTP request; 0: for ever',
  ),
  EGRESS_IDLE_TIMEOUT: setting(
    OptionalTimeoutSetting,
    '1h',
    'how long a tunnel, half-closed or not, or a body may be without a byte; 0: for ever',
  ),
  EGRESS_KEEP_ALIVE_TIMEOUT: setting(TimeoutSetting, '1m', 'how long a client may wait between two requests'),
  EGRESS_ORIGIN_KEEP_ALIVE_TIMEOUT: setting(
    TimeoutSetting,
    '4s',
    'how long a connection to a host is kept for the next request of the same client',
  ),
  EGRESS_LINGER_TIMEOUT: setting(TimeoutSetting, '1m', 'how long a client may take to close after its last answer'),
  EGRESS_REFUSAL_TIMEOUT: setting(TimeoutSetting, '1s', 'how long a client may take to read a refusal and close'),
  EGRESS_DRAIN_TIMEOUT: setting(
    OptionalTimeoutSetting,
    '10s',
    'how long open connections may last when the proxy stops',
  ),
  EGRESS_MAX_PER_SOURCE: setting(
    CountSetting,
    undefined,
    'how many connections one source may have; 0: any number; unset: a quarter of what there may be in all, 4096 at most',
  ),
  EGRESS_MAX_CONNECTIONS: setting(CountSetting, '0', 'how many there may be in all; 0: as open files allow'),
  EGRESS_DENY_MESSAGE: setting(MessageSetting, undefined, 'a sentence that every denial ends with'),
  EGRESS_DNS_SERVERS: setting(
    ServersSetting,
    undefined,
    'who is asked for addresses; unset or empty: as the system does',
  ),
  EGRESS_IO: setting(z.enum(IO), 'auto', 'how bytes are moved: epoll (Linux), net, or the best that works here'),
}

type ServeKey = keyof typeof SERVE

const FLAGS = {
  listen: 'EGRESS_PROXY_ADDR',
  admin: 'EGRESS_ADMIN_ADDR',
  transparent: 'EGRESS_TRANSPARENT_ADDR',
  'deny-private': 'EGRESS_DENY_PRIVATE',
} as const satisfies Record<string, ServeKey>

/** The flags of `proxy serve` that were given, as text. */
export type ServeFlags = { readonly [F in keyof typeof FLAGS]?: string | undefined }

/** What a proxy is started with. */
export interface ServeSettings {
  readonly listen?: Listen
  /** None: no admin listener. */
  readonly admin: readonly Listen[]
  readonly transparent?: Listen
  /** Its address is the default: the proxy starts without it on a machine that cannot open it. */
  readonly transparentIsOptional?: true
  readonly secret?: string
  readonly adminHosts?: readonly string[]
  readonly statePath?: string
  readonly denyPrivate: boolean
  readonly verifySni: boolean
  readonly denyMessage?: string
  /** 0 stands for "no limit" in the numbers, `idleMs` and `responseMs`. */
  readonly limits: Omit<Limits, 'maxPerSource' | 'maxRefused'> & { readonly maxPerSource?: number }
  readonly dns: { readonly servers?: readonly string[] }
  readonly io: (typeof IO)[number]
}

export interface Read {
  readonly settings: ServeSettings
  readonly warnings: readonly string[]
  /** The file that was read. */
  readonly path: string | undefined
}

/** The places of this user on this machine. */
export function placesOf(config: string | undefined, variables: Source): Places {
  return { config, configHome: variables.get('XDG_CONFIG_HOME'), home: variables.get('HOME') ?? findHome() }
}

/** A service may be started without the variable. */
function findHome(): string | undefined {
  try {
    return homedir()
  } catch {
    // In a container the user may be a mere number, of whom nothing is written down.
    return undefined
  }
}

/** Refuses with a sentence that names the flag, the variable, or file, line and key. */
export async function readServeSettings(
  flags: ServeFlags,
  places: Places,
  variables: Source = environment(),
): Promise<Read> {
  const file = await findSettingsFile(places, SERVE)
  const sources = [checkedFlags(flags), variables, sourceOf(file.path ?? 'no file', file.values)]
  const { settings, warning } = settle(readSettings(SERVE, sources))
  const isAsked = sources.some((source) => source.get('EGRESS_TRANSPARENT_ADDR') !== undefined)
  return {
    settings: isAsked ? settings : { ...settings, transparentIsOptional: true },
    warnings: [...file.warnings, ...(warning === undefined ? [] : [warning])],
    path: file.path,
  }
}

/** Under their own names, so that a refusal says `--listen`. */
function checkedFlags(flags: ServeFlags): Source {
  const given = Object.entries(FLAGS).flatMap(([flag, key]) => {
    const text = Object.entries(flags).find(([name]) => name === flag)?.[1]
    return text === undefined ? [] : [{ name: `--${flag}`, key, text }]
  })
  const declared: Record<string, Setting> = Object.fromEntries(given.map(({ name, key }) => [name, SERVE[key]]))
  const source = sourceOf('the flags', new Map(given.map(({ name, text }) => [name, text])))
  asMisuse(() => readSettings(declared, [source]))
  return sourceOf('the flags', new Map(given.map(({ key, text }) => [key, text])))
}

function settle(values: Settings<typeof SERVE>): { settings: ServeSettings; warning: string | undefined } {
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

/** A member, or none: an optional one is left out and never undefined. */
function given<K extends string, V>(name: K, value: V | undefined): { readonly [N in K]?: V } {
  // The one key is K, which a computed name widens to any text.
  return (value === undefined ? {} : { [name]: value }) as { readonly [N in K]?: V }
}

/** `::` takes IPv4 as well. */
function everywhere(listen: Listen | null): Listen | undefined {
  return listen === null ? undefined : { host: listen.host || '::', port: listen.port }
}

/** Whoever reaches an admin listener without a secret rules the proxy: unless told so, only this machine does. */
function adminListens(listen: Listen | null, hasSecret: boolean): readonly Listen[] {
  if (listen === null) return []
  const { host, port } = listen
  if (host !== '') return [listen]
  return (hasSecret ? ['::'] : ['127.0.0.1', '::1']).map((address) => ({ host: address, port }))
}

function secretWarning(listen: Listen | null): string | undefined {
  if (listen === null) return undefined
  const who = listen.host === '' ? 'this machine alone' : `whoever reaches ${listen.host} port ${listen.port}`
  return `EGRESS_ADMIN_SECRET is not set: the admin listener asks for no secret, and serves ${who}`
}
