// Makes an instance: its directory, its .env, its store and the group main. Safe to repeat: what is there stays as it is.
import { randomBytes } from 'node:crypto'
import { link, mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { securePrivateDirectories } from '../../core/groups/private-directories.ts'
import { bundledProducts, findProduct, listProducts, type Product, setUpFolder } from '../../core/groups/products.ts'
import { INSTANCE_SETTINGS } from '../../daemons/settings.ts'
import { type Clock, type Random, systemRandom } from '../../lib/clock.ts'
import { errnoCode, readText, refuseDisk, writeAtomic } from '../../lib/files/atomic-file.ts'
import { refuse } from '../../lib/refusal.ts'
import { readSettings, type SettingSource, sourceOf } from '../../lib/settings.ts'
import { formatDotenv, parseDotenv } from '../../lib/text/dotenv.ts'
import { callVerb } from '../../registry/call.ts'
import { groupsResource } from '../../resources/groups.ts'
import { hostCaller } from '../command.ts'
import {
  type ConfiguredInstance,
  ENV_MAX_BYTES,
  type InstanceLocation,
  loadInstanceConfig,
  openInstance,
  readEnv,
  storeAddress,
} from './instance.ts'

const MAIN = 'main'
export const DEFAULT_PRODUCT = 'assistant'

export interface CreatedInstance {
  readonly configured: ConfiguredInstance
  /** The settings that were written into .env now. */
  readonly written: readonly string[]
  /** Whether there was an .env before. */
  readonly hadEnv: boolean
  readonly isGroupNew: boolean
  /** What main is made of: the product asked for, or the one that it had already. */
  readonly product: Product
}

interface CreateInstanceOptions {
  readonly environment: SettingSource
  readonly clock: Clock
}

/** Asked before anything is made. */
export async function mustFindProduct(name: string): Promise<Product> {
  const found = await findProduct(bundledProducts, name)
  if (found) return found
  const known = (await listProducts(bundledProducts)).map((product) => product.name)
  return refuse('not_found', `unknown product ${JSON.stringify(name.slice(0, 80))}; known: ${known.join(', ')}`)
}

export async function createInstance(
  place: InstanceLocation,
  product: Product,
  { environment, clock }: CreateInstanceOptions,
): Promise<CreatedInstance> {
  const { layout } = place
  await mustBeOursOrNew(layout.root)
  const initial = initialSettings(place, await readEnv(layout.env), environment)
  await makeDir(layout.root, 0o755)
  const { written, hadEnv } = await writeEnv(layout.env, initial)
  const configured = await loadInstanceConfig(place, environment)
  await makeDir(dirname(layout.store), 0o700)
  const address = storeAddress(configured)
  const store = 'path' in address ? { ...address, create: true } : address
  const host = await openInstance(configured, { clock, store })
  try {
    const known = await host.engine.read((tx) => groupsResource.table.find(tx, { folder: MAIN }))
    const kept = (known && (await findProduct(bundledProducts, known.product))) ?? product
    await setUpFolder(configured.layout, MAIN, kept)
    await securePrivateDirectories(configured.layout)
    const asking = { host, caller: hostCaller(), face: 'cli' as const }
    const { added } = await callVerb(asking, groupsResource.verbs.add, { folder: MAIN, product: kept.name })
    return { configured, written, hadEnv, isGroupNew: added, product: kept }
  } finally {
    await host.close()
  }
}

/** A directory full of somebody else's files is a mistyped path. */
async function mustBeOursOrNew(root: string): Promise<void> {
  const entries = await readdir(root).catch((error) =>
    errnoCode(error) === 'ENOENT' ? [] : refuseDisk(error, 'use', root),
  )
  const ours = /^(\.env.*|store|groups|services|docker-compose\.yml)$/
  // Another `create` may be writing its .env at this very moment.
  const others = entries.filter((entry) => entry !== 'lost+found' && !/^\.tmp-[0-9a-f]+$/.test(entry))
  if (others.length === 0 || others.some((entry) => ours.test(entry))) return
  refuse('conflict', `${root} holds files, but no instance of svc: nothing was changed`, 'choose another name')
}

/** What holds now, written down: from then on the file decides, and no variable of a shell (decision P7). */
function initialSettings(
  { name, layout }: InstanceLocation,
  file: ReadonlyMap<string, string>,
  environment: SettingSource,
  random: Random = systemRandom,
): [key: string, value: string][] {
  const { WEB_LISTEN } = readSettings(INSTANCE_SETTINGS, [sourceOf(layout.env, file), environment])
  const { WEB_LISTEN: listen, WEB_HOST: host } = INSTANCE_SETTINGS
  const secret = (): string => Buffer.from(random.bytes(32)).toString('hex')
  const initial: [string, string][] = [
    ['ASSISTANT_NAME', name],
    ['WEB_LISTEN', listen.initial],
    ['WEB_HOST', WEB_LISTEN.port === 0 ? host.initial : `localhost:${WEB_LISTEN.port}`],
    ['CHANNEL_SECRET', secret()],
    ['SECRETS_KEY', secret()],
  ]
  return initial.map(([key, value]) => [key, environment.get(key) ?? value])
}

/** A new file, or the settings that an old one lacks at its end: an operator may have begun it with DATABASE_URL. */
async function writeEnv(
  path: string,
  initial: readonly (readonly [string, string])[],
): Promise<Pick<CreatedInstance, 'written' | 'hadEnv'>> {
  const keysOf = (entries: readonly (readonly [string, string])[]): string[] => entries.map(([key]) => key)
  if (await writeNew(path, formatDotenv(initial))) return { written: keysOf(initial), hadEnv: false }
  const text = await readText(path, ENV_MAX_BYTES)
  const known = parseDotenv(text, path)
  const missing = initial.filter(([key]) => !known.has(key))
  if (missing.length > 0) await append(path, `${/[^\n]$/.test(text) ? '\n' : ''}${formatDotenv(missing)}`)
  return { written: keysOf(missing), hadEnv: true }
}

/** In place: the file keeps its owner, and stays what a link leads to. It holds secrets now. */
async function append(path: string, text: string): Promise<void> {
  try {
    await using file = await open(path, 'a')
    await file.chmod(0o600)
    await file.writeFile(text)
    await file.sync()
  } catch (error) {
    refuseDisk(error, 'write', path)
  }
}

/** With those above it, one by one: Node's own `recursive` never ends where a file system lets nobody make one (/proc). */
async function makeDir(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, mode).catch(async (error) => {
      if (errnoCode(error) !== 'ENOENT' || dirname(path) === path) throw error
      await makeDir(dirname(path), mode)
      await mkdir(path, mode)
    })
  } catch (error) {
    const isThere = errnoCode(error) === 'EEXIST' && (await stat(path).catch(() => undefined))?.isDirectory()
    if (!isThere) refuseDisk(error, 'make', path)
  }
}

/** Whole or not at all, and only where there is none: of two that create at once, both use the keys of the first. */
async function writeNew(path: string, text: string): Promise<boolean> {
  const newborn = `${path}.new-${randomBytes(8).toString('hex')}`
  await writeAtomic(newborn, text, 0o600)
  try {
    await link(newborn, path)
    return true
  } catch (error) {
    if (errnoCode(error) === 'EEXIST') return false
    return refuseDisk(error, 'write', path)
  } finally {
    await rm(newborn, { force: true })
  }
}
