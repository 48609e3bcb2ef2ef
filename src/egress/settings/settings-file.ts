// Finds and reads the TOML settings file in the first of four paths. A missing file is fine, with a warning if `--config` names
// it; an unreadable or invalid one is refused. Values that may be secret are never quoted.
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { parse, TomlError } from 'smol-toml'
import { errnoCode, readText } from '../../lib/files/atomic-file.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { readSettings, type Setting, sourceOf } from '../../lib/settings.ts'
import { nearest } from '../../lib/text/nearest-word.ts'
import { findKeyLine } from './toml-lines.ts'

/** In search order. */
export interface SettingsSearchPaths {
  /** The path from `--config`. */
  readonly config?: string | undefined
  /** $XDG_CONFIG_HOME; if unset, empty or relative, `.config` in the home directory. */
  readonly configHome?: string | undefined
  /** Absent if the user has none. */
  readonly home?: string | undefined
  /** `/etc`, except in tests. */
  readonly etc?: string
}

export interface SettingsFile {
  readonly path: string | undefined
  /** Texts by setting. */
  readonly values: ReadonlyMap<string, string>
  readonly warnings: readonly string[]
}

const BYTES_MAX = 65_536
const SHOWN_MAX = 80
/** Limit of unknown keys reported one by one. */
const REPORTED_MAX = 20

type Kind = 'text' | 'boolean' | 'count' | 'list'

/** `[table] key`, its setting and its type. */
const KEYS: ReadonlyMap<string, readonly [key: string, kind: Kind]> = new Map([
  ['[proxy] listen', ['EGRESS_PROXY_ADDR', 'text']],
  ['[proxy] admin_listen', ['EGRESS_ADMIN_ADDR', 'text']],
  ['[proxy] transparent_listen', ['EGRESS_TRANSPARENT_ADDR', 'text']],
  ['[proxy] deny_private', ['EGRESS_DENY_PRIVATE', 'boolean']],
  ['[proxy] verify_sni', ['EGRESS_VERIFY_SNI', 'boolean']],
  ['[proxy] head_timeout', ['EGRESS_HEAD_TIMEOUT', 'text']],
  ['[proxy] dns_timeout', ['EGRESS_DNS_TIMEOUT', 'text']],
  ['[proxy] connect_timeout', ['EGRESS_CONNECT_TIMEOUT', 'text']],
  ['[proxy] dial_timeout', ['EGRESS_DIAL_TIMEOUT', 'text']],
  ['[proxy] response_timeout', ['EGRESS_RESPONSE_TIMEOUT', 'text']],
  ['[proxy] idle_timeout', ['EGRESS_IDLE_TIMEOUT', 'text']],
  ['[proxy] keep_alive_timeout', ['EGRESS_KEEP_ALIVE_TIMEOUT', 'text']],
  ['[proxy] origin_keep_alive_timeout', ['EGRESS_ORIGIN_KEEP_ALIVE_TIMEOUT', 'text']],
  ['[proxy] linger_timeout', ['EGRESS_LINGER_TIMEOUT', 'text']],
  ['[proxy] refusal_timeout', ['EGRESS_REFUSAL_TIMEOUT', 'text']],
  ['[proxy] drain_timeout', ['EGRESS_DRAIN_TIMEOUT', 'text']],
  ['[proxy] max_per_source', ['EGRESS_MAX_PER_SOURCE', 'count']],
  ['[proxy] max_connections', ['EGRESS_MAX_CONNECTIONS', 'count']],
  ['[proxy] deny_message', ['EGRESS_DENY_MESSAGE', 'text']],
  ['[proxy] dns_servers', ['EGRESS_DNS_SERVERS', 'list']],
  ['[proxy] io', ['EGRESS_IO', 'text']],
  ['[admin] secret', ['EGRESS_ADMIN_SECRET', 'text']],
  ['[admin] hosts', ['EGRESS_ADMIN_HOSTS', 'list']],
  ['[state] path', ['EGRESS_STATE_PATH', 'text']],
])
const TABLES = ['proxy', 'admin', 'state']

const KIND_SENTENCES: Readonly<Record<Kind, string>> = {
  text: 'must be text in quotes',
  boolean: 'must be true or false, without quotes',
  count: 'must be a whole number of at least 0, without quotes',
  list: 'must be a list of texts, or one comma-separated text',
}

type Declared = Readonly<Record<string, Setting>>

export async function findSettingsFile(paths: SettingsSearchPaths, declared: Declared): Promise<SettingsFile> {
  const { config } = paths
  const missing = (instead: string): string[] =>
    config === undefined ? [] : [`there is no file ${shown(config)}, which --config names: ${instead}`]
  for (const path of pathsOf(paths)) {
    if (!(await isThere(path))) continue
    const read = readToml(await readText(path, BYTES_MAX), path, declared)
    // A user who names a file does not expect settings from another one.
    const fallback = path === config ? [] : missing(`${shown(path)} is used instead`)
    return {
      path,
      values: read.values,
      warnings: [...fallback, ...read.warnings, ...(await exposureWarnings(path, read))],
    }
  }
  return { path: undefined, values: new Map(), warnings: missing('the defaults are used') }
}

function pathsOf({ config, configHome, home, etc = '/etc' }: SettingsSearchPaths): string[] {
  const base = configHome?.startsWith('/') ? configHome : home && join(home, '.config')
  return [
    ...(config === undefined ? [] : [config]),
    ...(base ? [join(base, 'egress-proxy', 'egress-proxy.toml')] : []),
    ...(home ? [join(home, '.egress-proxyrc')] : []),
    join(etc, 'egress-proxy.toml'),
  ]
}

/** A home directory such as /dev/null has no files either. Other errors surface on reading. */
async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path)
    return true
  } catch (error) {
    return !['ENOENT', 'ENOTDIR'].includes(errnoCode(error) ?? '')
  }
}

const OTHERS_READ = 0o004

/** Warns about a secret that every user of the machine can read. */
async function exposureWarnings(path: string, { values }: Pick<SettingsFile, 'values'>): Promise<string[]> {
  if (!values.get('EGRESS_ADMIN_SECRET') || ((await stat(path)).mode & OTHERS_READ) === 0) return []
  return [`${shown(path)} contains the secret and is readable by every user of this machine: run chmod o-r on it`]
}

/** The texts of known keys. Reports all errors of the file in one refusal. */
export function readToml(text: string, path: string, declared: Declared): Omit<SettingsFile, 'path'> {
  const named = flatten(parseToml(text, path))
  const placeOf = (name: string): string => {
    const line = findKeyLine(text, name)
    return line === undefined ? path : `${path} line ${line}`
  }
  const values = new Map<string, string>()
  const faults: string[] = []
  for (const { name, value } of named) {
    const known = KEYS.get(name)
    if (TABLES.includes(name)) faults.push(`[${name}] in ${placeOf(name)} must be a table`)
    if (known === undefined) continue
    const [key, kind] = known
    const valueText = textOf(value, kind)
    const fault = valueText === undefined ? KIND_SENTENCES[kind] : undefined
    if (fault !== undefined) faults.push(`${name} in ${placeOf(name)} ${fault}`)
    else if (valueText !== undefined) faults.push(...faultsOf(valueText, name, placeOf, declared[key]))
    if (valueText !== undefined) values.set(key, valueText)
  }
  if (faults.length > 0) refuse('invalid', faults.join('; '))
  const unknown = named.flatMap(({ name }) => (KEYS.has(name) ? [] : [name]))
  return { values, warnings: unknownWarnings(unknown, path, placeOf) }
}

function unknownWarnings(names: readonly string[], path: string, placeOf: (name: string) => string): string[] {
  const more = names.length - REPORTED_MAX
  return [
    ...names
      .slice(0, REPORTED_MAX)
      .map((name) => `${shown(name)} in ${placeOf(name)} is an unknown key${hintOf(name)}`),
    ...(more > 0 ? [`${path} has ${more} more unknown keys`] : []),
  ]
}

function parseToml(text: string, path: string): Readonly<Record<string, unknown>> {
  try {
    return parse(text, { integersAsBigInt: 'asNeeded' })
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    // After the first line the parser's message quotes the file.
    const [reason = ''] = error.message.replace(/^Invalid TOML document: /, '').split('\n')
    return refuse('invalid', `${path} line ${error.line} is not TOML: ${reason}`)
  }
}

interface Named {
  readonly name: string
  readonly value: unknown
}

/** All keys as `[table] key`; keys outside of tables by their bare name. */
function flatten(document: Readonly<Record<string, unknown>>): Named[] {
  return Object.entries(document).flatMap(([table, value]) => {
    if (!isTable(value)) return [{ name: table, value }]
    if (!TABLES.includes(table)) return [{ name: `[${table}]`, value }]
    return Object.entries(value).map(([key, inner]) => ({ name: `[${table}] ${key}`, value: inner }))
  })
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date)
}

/** The value as it would be written in the environment. */
function textOf(value: unknown, kind: Kind): string | undefined {
  if (typeof value === 'string') return kind === 'text' || kind === 'list' ? value : undefined
  if (kind === 'boolean') return typeof value === 'boolean' ? String(value) : undefined
  if (kind === 'count') return Number.isSafeInteger(value) && Number(value) >= 0 ? String(value) : undefined
  if (kind !== 'list' || !Array.isArray(value)) return undefined
  return value.every((item) => typeof item === 'string') ? value.join(',') : undefined
}

/** The error of the setting's schema, under its name in the file. */
function faultsOf(
  text: string,
  name: string,
  placeOf: (name: string) => string,
  declared: Setting | undefined,
): readonly string[] {
  // Look up the line only for an error.
  if (!declared || declared.schema.safeParse(text).success) return []
  try {
    readSettings({ [name]: declared }, [sourceOf(placeOf(name), new Map([[name, text]]))])
    return []
  } catch (error) {
    if (error instanceof Refusal) return [error.message]
    throw error
  }
}

/** Also for a key in the wrong table or in none. */
function hintOf(name: string): string {
  const names = [...KEYS.keys()]
  const bare = (text: string): string => text.replace(/^\[[^\]]*\] /, '')
  const table = /^\[([^\]]*)\]$/.exec(name)?.[1]
  const meant =
    table === undefined
      ? (names.find((known) => bare(known) === bare(name)) ?? nearest(name, names))
      : nearest(table, TABLES)?.replace(/.*/s, '[$&]')
  return meant === undefined ? '' : `; did you mean ${meant}?`
}

function shown(text: string): string {
  return /^[\x20-\x7e]+$/.test(text) && text.length <= SHOWN_MAX ? text : JSON.stringify(text.slice(0, SHOWN_MAX))
}
