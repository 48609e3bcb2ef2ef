// Finds an instance on the disk, reads what it is told, and opens its store. Nothing here changes an instance: a wrong data
// directory, a wrong setting or a wrong store is one sentence, and all is as it was.
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { CELL_SETTINGS } from '../cell/settings.ts'
import { agentUser } from '../core/agent-user.ts'
import { dataDir, type Layout, layout } from '../core/layout.ts'
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
import { Refusal, refuse } from '../lib/refusal.ts'
import { readSettings, type Source, sourceOf, unknownKeys } from '../lib/settings.ts'
import type { Address } from '../store/index.ts'

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
  const [SVC_DATA_DIR, PREFIX] = [environment.get('SVC_DATA_DIR'), environment.get('PREFIX')]
  return { name, layout: layout(dataDir(name, { SVC_DATA_DIR, PREFIX })) }
}

export async function mustBeThere({ name, layout }: Place): Promise<void> {
  try {
    if ((await stat(layout.root)).isDirectory()) return
  } catch (error) {
    if (diskCode(error) !== 'ENOENT') refuseDisk(error, 'use', layout.root)
    refuse('not_found', `there is no instance ${name}: ${layout.root} does not exist`, `svc create ${name} makes it`)
  }
  refuse('invalid', `cannot use ${layout.root}: it is not a directory`)
}

/** An instance that is there, with what it is told. */
export async function findInstance(name: string, environment: Source): Promise<Configured> {
  const place = placeOf(name, environment)
  await mustBeThere(place)
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
