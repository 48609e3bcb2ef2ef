// Settings: declared once with schema, default and description, read once at start and passed on as a value. Callers choose
// the order of sources.
import { isIPv4, isIPv6 } from 'node:net'
import { z } from 'zod'
import { refuse } from './refusal.ts'
import { DURATION_SENTENCE, readDuration } from './text/duration.ts'
import { nearest } from './text/nearest-word.ts'
import { formatIssue } from './text/schema-parser.ts'

/** A source of settings; `name` completes the message "WEB_LISTEN in … must be …". */
export interface SettingSource {
  readonly name: string
  get(key: string): string | undefined
  /** For settings whose keys contain a name, such as OIDC_<NAME>_ID. Absent: it has none of them. */
  keys?(): Iterable<string>
}

type FromText = z.ZodType<unknown, string>

export interface Setting<S extends FromText = FromText, I extends string | undefined = string | undefined> {
  readonly schema: S
  /** The default as an operator would write it; undefined if the setting is optional. */
  readonly initial: I
  readonly about: string
  /** How a new value takes effect; absent: after a restart. */
  readonly change?: SettingChange
}

/** `live`: without a restart. `env`: it can only be set in .env or the environment, and needs a restart. */
export type SettingChange = 'live' | 'env'

export type SettingDeclarations = Readonly<Record<string, Setting>>

type ValueOf<T extends Setting> = z.output<T['schema']> | (T['initial'] extends string ? never : undefined)

export type Settings<D extends SettingDeclarations> = { readonly [K in keyof D]: ValueOf<D[K]> }

export function setting<S extends FromText, const I extends string | undefined>(
  schema: S,
  initial: I,
  about: string,
): Setting<S, I> {
  return { schema, initial, about }
}

/** Settings that take effect without a restart. */
export function live<D extends SettingDeclarations>(declared: D): D {
  return withChange(declared, 'live')
}

/** Settings that are needed to open the store or to listen, or that decide what agents can reach on this machine. */
export function envOnly<D extends SettingDeclarations>(declared: D): D {
  return withChange(declared, 'env')
}

function withChange<D extends SettingDeclarations>(declared: D, change: SettingChange): D {
  const entries = Object.entries(declared).map(([key, each]) => [key, { ...each, change }])
  // Only a member without influence on the type of values is added.
  return Object.fromEntries(entries) as D
}

/** An empty text means that the setting has no value. */
export function orEmpty<S extends FromText>(schema: S) {
  return z
    .literal('')
    .transform(() => undefined)
    .or(schema)
}

/** Reads every declared setting from the first source that has it. Reports all errors in one refusal. */
export function readSettings<D extends SettingDeclarations>(
  declared: D,
  sources: readonly SettingSource[],
): Settings<D> {
  const values: Record<string, unknown> = {}
  const faults: string[] = []
  for (const [key, { schema, initial }] of Object.entries(declared)) {
    const from = sources.find((source) => source.get(key) !== undefined)
    const text = from ? from.get(key) : initial
    const result = text === undefined ? undefined : schema.safeParse(text, { reportInput: true })
    if (result?.success === false)
      faults.push(faultOf(key, `${key} in ${from?.name ?? 'its default'}`, text ?? '', result.error))
    values[key] = result?.data
  }
  if (faults.length) refuse('invalid', faults.join('; '))
  // The loop has set every key of D; the index signature cannot express that.
  return values as Settings<D>
}

/** Undeclared keys of a file, each with the closest declared name. `isNamed`: keys that contain a name, as above. */
export function unknownKeys(
  declared: SettingDeclarations,
  entries: ReadonlyMap<string, string>,
  isNamed: (key: string) => boolean = () => false,
): UnknownKey[] {
  const names = Object.keys(declared)
  return [...entries.keys()].flatMap((key) => {
    if (Object.hasOwn(declared, key) || isNamed(key)) return []
    const meant = nearest(key, names)
    return [meant === undefined ? { key } : { key, meant }]
  })
}

interface UnknownKey {
  readonly key: string
  readonly meant?: string
}

export function sourceOf(name: string, entries: ReadonlyMap<string, string>): SettingSource {
  return { name, get: (key) => entries.get(key), keys: () => entries.keys() }
}

/** Keys whose values are secret or contain a password, as database URLs do. */
export function isSecretKey(key: string): boolean {
  return /(?:SECRET|KEY|TOKEN|PASSWORD|URL|OTLP_HEADERS)$/i.test(key)
}

/** Why the setting cannot have this text. */
export function settingFault(key: string, { schema }: Setting, text: string): string | undefined {
  const { error } = schema.safeParse(text, { reportInput: true })
  return error && faultOf(key, key, text, error)
}

function faultOf(key: string, name: string, text: string, error: z.ZodError): string {
  const message = [
    ...new Set(error.issues.map((issue) => formatIssue({ ...issue, path: [name, ...issue.path] }))),
  ].join('; ')
  if (!isSecretKey(key)) return `${message}, not ${JSON.stringify(text.slice(0, 80))}`
  // Other schemas may quote their input. Texts of up to three letters are not secrets and would match any message.
  return text.length > 3 && message.includes(text) ? `${name} is not valid` : message
}

export function fromText<T>(rule: string, read: (text: string) => T | undefined) {
  return z.string().transform((text, ctx): T => {
    const value = read(text)
    if (value !== undefined) return value
    ctx.addIssue({ code: 'custom', message: rule })
    return z.NEVER
  })
}

/** Any text, including the empty one. */
export const TextSetting = z.string()

/** Milliseconds. */
export const DurationSetting = fromText(DURATION_SENTENCE, readDuration)

export const CountSetting = fromText('must be a whole number of at least 0', (text) => {
  const count = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  return Number.isSafeInteger(count) ? count : undefined
})

export const BooleanSetting = fromText('must be true or false', (text) => {
  const word = text.toLowerCase()
  if (['true', '1', 'yes', 'on'].includes(word)) return true
  if (['false', '0', 'no', 'off'].includes(word)) return false
  return undefined
})

const SIZES = new Map([
  ['', 1],
  ['kb', 1000],
  ['mb', 1000 ** 2],
  ['gb', 1000 ** 3],
  ['kib', 1024],
  ['mib', 1024 ** 2],
  ['gib', 1024 ** 3],
])

function readBytes(text: string): number | undefined {
  const [, count, unit] = /^(\d{1,16})([a-z]{0,3})$/i.exec(text) ?? []
  const bytes = Number(count) * (SIZES.get(unit?.toLowerCase() ?? '') ?? Number.NaN)
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

export const BytesSetting = fromText(
  'must be a number of bytes above 0 such as 1048576, 512KiB or 20MB',
  (text) => readBytes(text) || undefined,
)

/** 0 means no limit. */
export const QuotaSetting = fromText('must be a number of bytes such as 1073741824, 512MiB or 20GB, or 0', readBytes)

/** An absolute URL, returned as written. */
export const UrlSetting = fromText('must be an absolute URL such as https://example.com', (text) =>
  /^[a-z][a-z0-9+.-]*:\/\/\S+$/i.test(text) && URL.canParse(text) ? text : undefined,
)

export interface ListenEndpoint {
  readonly host: string
  readonly port: number
}

/** `host:port`, or `:port` on `anyHost`. */
export const listenSetting = (anyHost: string) =>
  fromText('must be host:port such as 127.0.0.1:8080, :8080 or [::1]:8080', (text) => readListen(text, anyHost))

/** Binds to loopback unless a host is given. */
export const ListenSetting = listenSetting('127.0.0.1')

function readListen(text: string, anyHost: string): ListenEndpoint | undefined {
  const [, v6, name, digits] = /^(?:\[([^\]]+)\]|([^[\]:]*)):(\d{1,5})$/.exec(text) ?? []
  const port = Number(digits)
  if (!(port <= 65_535)) return undefined
  if (v6 !== undefined) return isIPv6(v6) ? { host: v6, port } : undefined
  if (!name) return { host: anyHost, port }
  if (/^[\d.]+$/.test(name)) return isIPv4(name) ? { host: name, port } : undefined
  return /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})$/.test(name) ? { host: name, port } : undefined
}
