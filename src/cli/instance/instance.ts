// Finds an instance on disk, reads its settings and opens its store. Never changes an instance: a wrong data directory,
// setting or store is refused with one sentence.
import { statSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { AGENT_USER_SETTINGS } from '../../cell/settings.ts'
import { agentUsers } from '../../core/agent-user.ts'
import type { SpeechSynthesizer } from '../../core/delivery/speech.ts'
import { type DataRootVariables, dataDir, dataRoot, instanceNameOf, type Layout, layout } from '../../core/layout.ts'
import { type HostSettings, type OpenHost, openHost } from '../../daemons/process/host.ts'
import { linkBaseUrl } from '../../daemons/process/listen-addresses.ts'
import { parseFixedSettings } from '../../daemons/setting-rules.ts'
import {
  ALL_SETTINGS,
  CHANNEL_SETTINGS,
  INSTANCE_SETTINGS,
  type InstanceSettings,
  isOpenIdKey,
  readAgentLimits,
  readTurnRules,
  SPEECH_SETTINGS,
} from '../../daemons/settings.ts'
import type { Clock } from '../../lib/clock.ts'
import type { FaultPlace } from '../../lib/fault-boundary.ts'
import { errnoCode, refuseDisk } from '../../lib/files/atomic-file.ts'
import { readEnvText } from '../../lib/files/env-file.ts'
import { refuse } from '../../lib/refusal.ts'
import { readSettings, type SettingSource, sourceOf, unknownKeys } from '../../lib/settings.ts'
import { parseDotenv } from '../../lib/text/dotenv.ts'
import { nearest } from '../../lib/text/nearest-word.ts'
import { shellQuote } from '../../lib/text/shell-quote.ts'
import type { StoreAddress } from '../../store/index.ts'

const READABLE_BY_OTHERS = 0o004

/** Name and paths of an instance, which need not exist. */
export interface InstanceLocation {
  readonly name: string
  readonly layout: Layout
}

export interface ConfiguredInstance extends InstanceLocation {
  readonly settings: InstanceSettings
  /** Its .env, then the environment. See docs/decisions.md#order-of-settings. */
  readonly sources: readonly SettingSource[]
  readonly warnings: readonly string[]
}

export function locateInstance(name: string, environment: SettingSource): InstanceLocation {
  return { name, layout: layout(dataDir(name, dataRootVariables(environment))) }
}

function dataRootVariables(environment: SettingSource): DataRootVariables {
  return { SVC_DATA_DIR: environment.get('SVC_DATA_DIR'), PREFIX: environment.get('PREFIX') }
}

/** The data directory and the names of the instances in it. */
export async function listInstances(environment: SettingSource): Promise<{ dir: string; names: string[] }> {
  const dir = dataRoot(dataRootVariables(environment))
  return { dir, names: await listInstanceNames(dir) }
}

async function listInstanceNames(dir: string): Promise<string[]> {
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
    return refuseMissingInstance(name, layout.root, environment)
  }
  refuse('invalid', `cannot use ${layout.root}: it is not a directory`)
}

/** Tokens of a sign-in to an instance on another machine. */
const REMOTE_FILE = 'remote.json'

export function remoteFile({ layout: { root } }: InstanceLocation): string {
  return join(root, REMOTE_FILE)
}

/** Whether the instance is on another machine. A directory with a store or settings is an instance of this machine. */
export async function isRemoteInstance(location: InstanceLocation): Promise<boolean> {
  return (await exists(remoteFile(location))) && !(await hasLocalFiles(location))
}

export async function hasLocalFiles({ layout: { env, store, groups } }: InstanceLocation): Promise<boolean> {
  return (await exists(env)) || (await exists(store)) || (await exists(groups))
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

/** Where `svc start` creates its instance, relative to the checkout. */
const LOCAL_DIRECTORY = '.svc'

/** Suggests the likely cause: a mistyped name, or a variable that is not set in this shell. */
async function refuseMissingInstance(name: string, root: string, environment: SettingSource): Promise<never> {
  const { dir, names } = await listInstances(environment)
  const meant = nearest(name, names)
  if (meant !== undefined) refuse('not_found', `there is no instance ${name} in ${dir}; did you mean ${meant}?`)
  const message = `there is no instance ${name}: ${root} does not exist`
  const local = resolve(LOCAL_DIRECTORY)
  const localNames = local === dir ? [] : await listInstanceNames(local).catch((): string[] => [])
  const near = localNames.includes(name) ? name : nearest(name, localNames)
  if (near !== undefined)
    refuse('not_found', message, `${near} is in ./${LOCAL_DIRECTORY}: export SVC_DATA_DIR=${shellQuote(local)}`)
  if (environment.get('SVC_DATA_DIR')) refuse('not_found', message, `svc create ${name} creates it`)
  refuse(
    'not_found',
    message,
    `SVC_DATA_DIR is not set, so svc looked in ${dir}; set it to the directory of your instances, or create one there with svc create ${name}`,
  )
}

/** Refuses if the instance does not exist. */
export async function findInstance(name: string, environment: SettingSource): Promise<ConfiguredInstance> {
  const location = locateInstance(name, environment)
  await mustFindInstanceDirectory(location, environment)
  return loadInstanceConfig(location, environment)
}

export async function loadInstanceConfig(
  location: InstanceLocation,
  environment: SettingSource,
): Promise<ConfiguredInstance> {
  const { env } = location.layout
  const entries = await readEnv(env)
  const sources = [sourceOf(env, entries), environment]
  const settings = readSettings(INSTANCE_SETTINGS, sources)
  const warnings = [...(await permissionWarnings(env)), ...(await unknownKeyWarnings(location.layout, entries))]
  const { root } = location.layout
  const agents = agentUsers(readSettings(AGENT_USER_SETTINGS, sources), root)
  return { ...location, layout: layout(root, agents), settings, sources, warnings }
}

/** Whether a process may be serving it. A stale socket is possible. */
export async function mayBeServed({ layout: { ipc } }: InstanceLocation): Promise<boolean> {
  const names = await readdir(ipc).catch(() => [])
  return names.some((name) => name.startsWith('.s'))
}

/** Returns a function that reads the current sources. It returns the same array until .env changes. */
export function sourcesReader(
  { layout: { env }, sources }: ConfiguredInstance,
  environment: SettingSource,
): () => Promise<readonly SettingSource[]> {
  const flags = sources.slice(0, -2)
  let cached: { readonly version: string; readonly sources: readonly SettingSource[] } | undefined
  return async () => {
    const version = readFileVersion(env)
    if (cached?.version !== version)
      cached = { version, sources: [...flags, sourceOf(env, await readEnv(env)), environment] }
    return cached.sources
  }
}

/** Changes with every write of the file; empty if it does not exist. Synchronous, since it runs on every turn and is faster. */
function readFileVersion(path: string): string {
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

interface OpenInstanceOptions {
  readonly clock: Clock
  /** Defaults to the store in the settings, which must exist. */
  readonly store?: StoreAddress
  showCommands?(text: string): string
  onBackgroundError?(error: unknown, place: FaultPlace): void
}

export async function openInstance(configured: ConfiguredInstance, options: OpenInstanceOptions): Promise<OpenHost> {
  const { name, settings, layout } = configured
  return openHost({
    instance: name,
    layout,
    store: storeAddress(configured),
    secretsKey: settings.SECRETS_KEY,
    webBase: linkBaseUrl(configured.sources),
    fixedSettings: parseFixedSettings(settings.SETTINGS_FIXED),
    configure: (stored) => readHostSettings(layout, [stored, ...configured.sources]),
    ...options,
  })
}

async function readHostSettings(layout: Layout, sources: readonly SettingSource[]): Promise<HostSettings> {
  const { TZ, ASSISTANT_NAME } = INSTANCE_SETTINGS
  const { TZ: timeZone, ASSISTANT_NAME: assistantName } = readSettings({ TZ, ASSISTANT_NAME }, sources)
  const { CHANNEL_REGISTER_ALLOW_PUBLIC, ANSWER_ALLOW_LOCAL } = readSettings(CHANNEL_SETTINGS, sources)
  return {
    timeZone,
    assistantName,
    rules: readTurnRules(sources),
    limits: readAgentLimits(sources),
    speech: await openSpeech(layout, sources),
    adapters: { isPublicAllowed: CHANNEL_REGISTER_ALLOW_PUBLIC },
    answers: { isPrivateAllowed: ANSWER_ALLOW_LOCAL },
  }
}

/** The sources of an instance, with the settings of its store first. */
export async function withStoredSettings(
  { sources }: ConfiguredInstance,
  { engine, storedSettings }: OpenHost,
): Promise<readonly SettingSource[]> {
  return [await engine.read((tx) => storedSettings.read(tx)), ...sources]
}

/** Undefined if no speech service is set. */
async function openSpeech(layout: Layout, sources: readonly SettingSource[]): Promise<SpeechSynthesizer | undefined> {
  const { TTS_URL: url, TTS_MODEL: model, TTS_VOICE: voice, TTS_KEY: key } = readSettings(SPEECH_SETTINGS, sources)
  if (url === undefined) return undefined
  const { openSpeechSynthesis } = await import('../../daemons/process/speech-synthesis.ts')
  return openSpeechSynthesis({ url, model, voice, key, dir: join(layout.root, 'speech') })
}

/** Empty if there is no .env, as in a container that is configured by its environment. */
export async function readEnv(path: string): Promise<ReadonlyMap<string, string>> {
  return parseDotenv((await readEnvText(path)) ?? '', path)
}

async function permissionWarnings(path: string): Promise<string[]> {
  const mode = await stat(path).then(
    (stats) => stats.mode,
    () => 0,
  )
  if ((mode & READABLE_BY_OTHERS) === 0) return []
  return [`${path} contains secrets and every user of this machine can read it: chmod 600 ${path}`]
}

async function unknownKeyWarnings(
  { env: path, services }: Layout,
  entries: ReadonlyMap<string, string>,
): Promise<string[]> {
  const unknown = unknownKeys(ALL_SETTINGS, entries, isOpenIdKey)
  if (unknown.length === 0) return []
  const [{ bundledProducts, listProducts }, { listValidFragments }] = await Promise.all([
    import('../../core/groups/products.ts'),
    import('../../deploy/valid-fragments.ts'),
  ])
  // Keys on the checklist of a product and those of packages are not typing errors, even if nothing in this process reads them.
  const listed = new Set([
    ...(await listProducts(bundledProducts)).flatMap(({ env }) => env.map(({ key }) => key)),
    ...(await listValidFragments(services)).flatMap(({ settings }) => settings),
  ])
  return unknown
    .filter(({ key }) => !listed.has(key))
    .map(
      ({ key, meant }) => `${path} has the unknown key ${key}${meant === undefined ? '' : `; did you mean ${meant}?`}`,
    )
}
