// Finds an instance on the disk, reads what it is told, and opens its store. Nothing here changes an instance: a wrong data
// directory, a wrong setting or a wrong store is one sentence, and all is as it was.
import { statSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { CELL_SETTINGS } from '../../cell/settings.ts'
import { agentUser } from '../../core/agent-user.ts'
import type { SpeechSynthesizer } from '../../core/delivery/speech.ts'
import { type DataRootVariables, dataDir, dataRoot, instanceNameOf, type Layout, layout } from '../../core/layout.ts'
import { type OpenHost, openHost } from '../../daemons/process/host.ts'
import {
  ALL_SETTINGS,
  CHANNEL_SETTINGS,
  INSTANCE_SETTINGS,
  type InstanceSettings,
  readAgentLimits,
  readTurnRules,
  SEARCH_SETTINGS,
  SPEECH_SETTINGS,
  webBaseUrl,
} from '../../daemons/settings.ts'
import type { Clock } from '../../lib/clock.ts'
import { errnoCode, readText, refuseDisk } from '../../lib/files/atomic-file.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { readSettings, type SettingSource, sourceOf, unknownKeys } from '../../lib/settings.ts'
import { parseDotenv } from '../../lib/text/dotenv.ts'
import { nearest } from '../../lib/text/nearest-word.ts'
import type { StoreAddress } from '../../store/index.ts'
import { shellQuote } from '../output/shell-quote.ts'

export const ENV_MAX_BYTES = 1_048_576
const READABLE_BY_OTHERS = 0o004

/** An instance by name: where it lies, whether or not it is there. */
export interface InstanceLocation {
  readonly name: string
  readonly layout: Layout
}

export interface ConfiguredInstance extends InstanceLocation {
  readonly settings: InstanceSettings
  /** Its .env, then the environment (decision P7). */
  readonly sources: readonly SettingSource[]
  /** What is odd but stops nothing. */
  readonly warnings: readonly string[]
}

export function locateInstance(name: string, environment: SettingSource): InstanceLocation {
  return { name, layout: layout(dataDir(name, whereabouts(environment))) }
}

function whereabouts(environment: SettingSource): DataRootVariables {
  return { SVC_DATA_DIR: environment.get('SVC_DATA_DIR'), PREFIX: environment.get('PREFIX') }
}

/** The directory that instances lie in, and their names; none where it is not there. */
export async function listInstances(environment: SettingSource): Promise<{ dir: string; names: string[] }> {
  const dir = dataRoot(whereabouts(environment))
  return { dir, names: await namesIn(dir) }
}

async function namesIn(dir: string): Promise<string[]> {
  try {
    const entries = await readdir(dir, { withFileTypes: true })
    return entries
      .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
      .flatMap((entry) => instanceNameOf(entry.name) ?? [])
      .sort()
  } catch (error) {
    return errnoCode(error) === 'ENOENT' ? [] : refuseDisk(error, 'read', dir)
  }
}

export async function mustFindInstanceDirectory(
  { name, layout }: InstanceLocation,
  environment: SettingSource,
): Promise<void> {
  try {
    if ((await stat(layout.root)).isDirectory()) return
  } catch (error) {
    if (errnoCode(error) !== 'ENOENT') refuseDisk(error, 'use', layout.root)
    return refuseMissing(name, layout.root, environment)
  }
  refuse('invalid', `cannot use ${layout.root}: it is not a directory`)
}

/** Where `svc start` of a checkout puts its instance, seen from the checkout. */
const LOCAL = '.svc'

/** Names the likely cause: a mistyped name, or a variable that is not set in this shell. */
async function refuseMissing(name: string, root: string, environment: SettingSource): Promise<never> {
  const { dir, names } = await listInstances(environment)
  const meant = nearest(name, names)
  if (meant !== undefined) refuse('not_found', `there is no instance ${name} in ${dir}; did you mean ${meant}?`)
  const sentence = `there is no instance ${name}: ${root} does not exist`
  const local = resolve(LOCAL)
  const here = local === dir ? [] : await namesIn(local).catch((): string[] => [])
  const near = here.includes(name) ? name : nearest(name, here)
  if (near !== undefined)
    refuse('not_found', sentence, `${near} is in ./${LOCAL}: export SVC_DATA_DIR=${shellQuote(local)}`)
  if (environment.get('SVC_DATA_DIR')) refuse('not_found', sentence, `svc create ${name} makes it`)
  refuse(
    'not_found',
    sentence,
    `SVC_DATA_DIR is not set, so svc looked in ${dir}; set it to where your instances are, or svc create ${name} makes one there`,
  )
}

/** An instance that is there, with what it is told. */
export async function findInstance(name: string, environment: SettingSource): Promise<ConfiguredInstance> {
  const place = locateInstance(name, environment)
  await mustFindInstanceDirectory(place, environment)
  return loadInstanceConfig(place, environment)
}

export async function loadInstanceConfig(
  place: InstanceLocation,
  environment: SettingSource,
): Promise<ConfiguredInstance> {
  const { env } = place.layout
  const entries = await readEnv(env)
  const sources = [sourceOf(env, entries), environment]
  const settings = readSettings(INSTANCE_SETTINGS, sources)
  const { AGENT_UID } = readSettings({ AGENT_UID: CELL_SETTINGS.AGENT_UID }, sources)
  const warnings = [...(await rightsWarnings(env)), ...(await keyWarnings(env, entries))]
  return { ...place, layout: layout(place.layout.root, agentUser(AGENT_UID)), settings, sources, warnings }
}

/** Answers with the sources as they are now; with the same list as long as .env is the same file with the same content. */
export function sourcesReader(
  { layout: { env } }: ConfiguredInstance,
  environment: SettingSource,
): () => Promise<readonly SettingSource[]> {
  let known: { readonly version: string; readonly sources: readonly SettingSource[] } | undefined
  return async () => {
    const version = versionOf(env)
    if (known?.version !== version) known = { version, sources: [sourceOf(env, await readEnv(env)), environment] }
    return known.sources
  }
}

/** Changes with every write of the file; empty where there is none. Every turn asks, and the thread pool takes far longer. */
function versionOf(path: string): string {
  try {
    const { ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true })
    return [ino, size, mtimeNs, ctimeNs].join(' ')
  } catch {
    return ''
  }
}

export function storeAddress({ layout, settings }: ConfiguredInstance): StoreAddress {
  return settings.DATABASE_URL === undefined ? { path: layout.store } : { url: settings.DATABASE_URL }
}

/** Scheme and host of the links that are handed out. */
export function linkBaseUrl({ settings }: ConfiguredInstance): string {
  return webBaseUrl(settings.WEB_HOST || INSTANCE_SETTINGS.WEB_HOST.initial)
}

export interface OpenInstanceOptions {
  readonly clock: Clock
  /** Unless said, the store that the settings name, which must be there. */
  readonly store?: StoreAddress
  onBackgroundError?(error: unknown): void
}

export async function openInstance(configured: ConfiguredInstance, opening: OpenInstanceOptions): Promise<OpenHost> {
  const { name, settings, layout } = configured
  return openHost({
    instance: name,
    layout,
    store: storeAddress(configured),
    secretsKey: settings.SECRETS_KEY,
    webBase: linkBaseUrl(configured),
    timeZone: settings.TZ,
    rules: readTurnRules(configured.sources),
    limits: readAgentLimits(configured.sources),
    speech: await speechOf(configured),
    adapters: { isPublicAllowed: readSettings(CHANNEL_SETTINGS, configured.sources).CHANNEL_REGISTER_ALLOW_PUBLIC },
    searchDeadlineMs: readSettings(SEARCH_SETTINGS, configured.sources).SEARCH_DEADLINE,
    ...opening,
  })
}

/** Who speaks, where the instance names a service. */
async function speechOf({ layout, sources }: ConfiguredInstance): Promise<SpeechSynthesizer | undefined> {
  const { TTS_URL: url, TTS_MODEL: model, TTS_VOICE: voice, TTS_KEY: key } = readSettings(SPEECH_SETTINGS, sources)
  if (url === undefined) return undefined
  const { openSpeechSynthesis } = await import('../../daemons/process/speech-synthesis.ts')
  return openSpeechSynthesis({ url, model, voice, key, dir: join(layout.root, 'speech') })
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
  const { bundledProducts, listProducts } = await import('../../core/groups/products.ts')
  // What a product's checklist asks for is no typing error, even where nothing in this process reads it.
  const asked = new Set((await listProducts(bundledProducts)).flatMap(({ env }) => env.map(({ key }) => key)))
  return unknown
    .filter(({ key }) => !asked.has(key))
    .map(
      ({ key, meant }) => `${path} has the unknown key ${key}${meant === undefined ? '' : `; did you mean ${meant}?`}`,
    )
}
