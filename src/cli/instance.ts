// Finds an instance on the disk, reads what it is told, and opens its store. Nothing here changes an instance: a wrong data
// directory, a wrong setting or a wrong store is one sentence, and all is as it was.
import { readdir, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { CELL_SETTINGS } from '../cell/settings.ts'
import { agentUser } from '../core/agent-user.ts'
import { dataDir, dataRoot, instanceOf, type Layout, layout, type Whereabouts } from '../core/layout.ts'
import { bundledProducts, listProducts } from '../core/products.ts'
import type { Speech } from '../core/speech.ts'
import { type OpenHost, openHost } from '../daemons/host.ts'
import {
  ALL_SETTINGS,
  agentLimits,
  CHANNEL_SETTINGS,
  INSTANCE_SETTINGS,
  type InstanceSettings,
  SEARCH_SETTINGS,
  SPEECH_SETTINGS,
  turnRules,
  webBase,
} from '../daemons/settings.ts'
import { openSpeech } from '../daemons/speech.ts'
import { diskCode, readText, refuseDisk } from '../lib/atomic-file.ts'
import type { Clock } from '../lib/clock.ts'
import { parseDotenv } from '../lib/dotenv.ts'
import { nearest } from '../lib/nearest.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { readSettings, type Source, sourceOf, unknownKeys } from '../lib/settings.ts'
import type { Address } from '../store/index.ts'
import { shellQuoted } from './shell-quoted.ts'

export const ENV_MAX_BYTES = 1_048_576
const READABLE_BY_OTHERS = 0o004

/** An instance by name: where it lies, whether or not it is there. */
export interface Place {
  readonly name: string
  readonly layout: Layout
}

export interface Configured extends Place {
  readonly settings: InstanceSettings
  /** Its .env, then the environment (decision P7). */
  readonly sources: readonly Source[]
  /** What is odd but stops nothing. */
  readonly warnings: readonly string[]
}

export function placeOf(name: string, environment: Source): Place {
  return { name, layout: layout(dataDir(name, whereabouts(environment))) }
}

function whereabouts(environment: Source): Whereabouts {
  return { SVC_DATA_DIR: environment.get('SVC_DATA_DIR'), PREFIX: environment.get('PREFIX') }
}

/** The directory that instances lie in, and their names; none where it is not there. */
export async function listInstances(environment: Source): Promise<{ dir: string; names: string[] }> {
  const dir = dataRoot(whereabouts(environment))
  return { dir, names: await namesIn(dir) }
}

async function namesIn(dir: string): Promise<string[]> {
  try {
    const entries = await readdir(dir, { withFileTypes: true })
    return entries
      .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
      .flatMap((entry) => instanceOf(entry.name) ?? [])
      .sort()
  } catch (error) {
    return diskCode(error) === 'ENOENT' ? [] : refuseDisk(error, 'read', dir)
  }
}

export async function mustBeThere({ name, layout }: Place, environment: Source): Promise<void> {
  try {
    if ((await stat(layout.root)).isDirectory()) return
  } catch (error) {
    if (diskCode(error) !== 'ENOENT') refuseDisk(error, 'use', layout.root)
    return refuseMissing(name, layout.root, environment)
  }
  refuse('invalid', `cannot use ${layout.root}: it is not a directory`)
}

/** Where `svc start` of a checkout puts its instance, seen from the checkout. */
const LOCAL = '.svc'

/** Names the likely cause: a mistyped name, or a variable that is not set in this shell. */
async function refuseMissing(name: string, root: string, environment: Source): Promise<never> {
  const { dir, names } = await listInstances(environment)
  const meant = nearest(name, names)
  if (meant !== undefined) refuse('not_found', `there is no instance ${name} in ${dir}; did you mean ${meant}?`)
  const sentence = `there is no instance ${name}: ${root} does not exist`
  const local = resolve(LOCAL)
  const here = local === dir ? [] : await namesIn(local).catch((): string[] => [])
  const near = here.includes(name) ? name : nearest(name, here)
  if (near !== undefined)
    refuse('not_found', sentence, `${near} is in ./${LOCAL}: export SVC_DATA_DIR=${shellQuoted(local)}`)
  if (environment.get('SVC_DATA_DIR')) refuse('not_found', sentence, `svc create ${name} makes it`)
  refuse(
    'not_found',
    sentence,
    `SVC_DATA_DIR is not set, so svc looked in ${dir}; set it to where your instances are, or svc create ${name} makes one there`,
  )
}

/** An instance that is there, with what it is told. */
export async function findInstance(name: string, environment: Source): Promise<Configured> {
  const place = placeOf(name, environment)
  await mustBeThere(place, environment)
  return configure(place, environment)
}

export async function configure(place: Place, environment: Source): Promise<Configured> {
  const { env } = place.layout
  const entries = await readEnv(env)
  const sources = [sourceOf(env, entries), environment]
  const settings = readSettings(INSTANCE_SETTINGS, sources)
  const { AGENT_UID } = readSettings({ AGENT_UID: CELL_SETTINGS.AGENT_UID }, sources)
  const warnings = [...(await rightsWarnings(env)), ...(await keyWarnings(env, entries))]
  return { ...place, layout: layout(place.layout.root, agentUser(AGENT_UID)), settings, sources, warnings }
}

/** Answers with the sources as they are now; with the same list as long as .env is the same file with the same content. */
export function sourcesReader({ layout: { env } }: Configured, environment: Source): () => Promise<readonly Source[]> {
  let known: { readonly version: string; readonly sources: readonly Source[] } | undefined
  return async () => {
    const version = await versionOf(env)
    if (known?.version !== version) known = { version, sources: [sourceOf(env, await readEnv(env)), environment] }
    return known.sources
  }
}

/** Changes with every write of the file; empty where there is none. */
async function versionOf(path: string): Promise<string> {
  return stat(path, { bigint: true }).then(
    ({ ino, size, mtimeNs, ctimeNs }) => [ino, size, mtimeNs, ctimeNs].join(' '),
    () => '',
  )
}

export function storeOf({ layout, settings }: Configured): Address {
  return settings.DATABASE_URL === undefined ? { path: layout.store } : { url: settings.DATABASE_URL }
}

/** Scheme and host of the links that are handed out. */
export function linkBase({ settings }: Configured): string {
  return webBase(settings.WEB_HOST || INSTANCE_SETTINGS.WEB_HOST.initial)
}

export interface Opening {
  readonly clock: Clock
  /** Unless said, the store that the settings name, which must be there. */
  readonly store?: Address
  onStray?(error: unknown): void
}

export function openInstance(configured: Configured, opening: Opening): Promise<OpenHost> {
  const { name, settings, layout } = configured
  return openHost({
    instance: name,
    layout,
    store: storeOf(configured),
    secretsKey: settings.SECRETS_KEY,
    webBase: linkBase(configured),
    timeZone: settings.TZ,
    rules: turnRules(configured.sources),
    limits: agentLimits(configured.sources),
    speech: speechOf(configured),
    adapters: { isPublicAllowed: readSettings(CHANNEL_SETTINGS, configured.sources).CHANNEL_REGISTER_ALLOW_PUBLIC },
    searchDeadlineMs: readSettings(SEARCH_SETTINGS, configured.sources).SEARCH_DEADLINE,
    ...opening,
  })
}

/** Who speaks, where the instance names a service. */
function speechOf({ layout, sources }: Configured): Speech | undefined {
  const { TTS_URL: url, TTS_MODEL: model, TTS_VOICE: voice, TTS_KEY: key } = readSettings(SPEECH_SETTINGS, sources)
  return url === undefined ? undefined : openSpeech({ url, model, voice, key, dir: join(layout.root, 'speech') })
}

/** A container has no such file and is set by its environment. */
export async function readEnv(path: string): Promise<ReadonlyMap<string, string>> {
  try {
    return parseDotenv(await readText(path, ENV_MAX_BYTES), path)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_found') return new Map()
    throw error
  }
}

async function rightsWarnings(path: string): Promise<string[]> {
  const mode = await stat(path).then(
    (stats) => stats.mode,
    () => 0,
  )
  if ((mode & READABLE_BY_OTHERS) === 0) return []
  return [`${path} holds secrets and every user of this machine can read it: chmod 600 ${path}`]
}

async function keyWarnings(path: string, entries: ReadonlyMap<string, string>): Promise<string[]> {
  const unknown = unknownKeys(ALL_SETTINGS, entries)
  if (unknown.length === 0) return []
  // What a product's checklist asks for is no typing error, even where nothing in this process reads it.
  const asked = new Set((await listProducts(bundledProducts)).flatMap(({ env }) => env.map(({ key }) => key)))
  return unknown
    .filter(({ key }) => !asked.has(key))
    .map(
      ({ key, meant }) => `${path} has the unknown key ${key}${meant === undefined ? '' : `; did you mean ${meant}?`}`,
    )
}
