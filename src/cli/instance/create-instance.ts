// Creates an instance: its directory, .env, store and the group main. Safe to repeat: existing parts stay unchanged.

import { randomBytes } from 'node:crypto'
import { link, open, readdir, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { ROOT_FOLDER } from '../../core/access/tiers.ts'
import { securePrivateDirectories } from '../../core/groups/private-directories.ts'
import { bundledProducts, findProduct, listProducts, type Product, setUpFolder } from '../../core/groups/products.ts'
import { INSTANCE_SETTINGS } from '../../daemons/settings.ts'
import { makeMountedDirectories } from '../../deploy/mounted-directories.ts'
import { type Clock, type Random, systemRandom } from '../../lib/clock.ts'
import { errnoCode, makeDirectory, readText, refuseDisk, writeAtomic } from '../../lib/files/atomic-file.ts'
import { ENV_MAX_BYTES } from '../../lib/files/env-file.ts'
import { refuse } from '../../lib/refusal.ts'
import { readSettings, type SettingSource, sourceOf } from '../../lib/settings.ts'
import { formatDotenv, parseDotenv } from '../../lib/text/dotenv.ts'
import { callVerb } from '../../registry/call.ts'
import { groupsResource } from '../../resources/groups.ts'
import { hostCaller } from '../command.ts'
import {
  type ConfiguredInstance,
  type InstanceLocation,
  loadInstanceConfig,
  openInstance,
  readEnv,
  storeAddress,
} from './instance.ts'

export const DEFAULT_PRODUCT = 'assistant'

export interface CreatedInstance {
  readonly configured: ConfiguredInstance
  /** Keys that this call added to .env. */
  readonly written: readonly string[]
  readonly hadEnv: boolean
  readonly isGroupNew: boolean
  /** The product of main: the requested one, or the one that main already had. */
  readonly product: Product
}

interface CreateInstanceOptions {
  readonly environment: SettingSource
  readonly clock: Clock
}

export async function mustFindProduct(name: string): Promise<Product> {
  const found = await findProduct(bundledProducts, name)
  if (found) return found
  const known = (await listProducts(bundledProducts)).map((product) => product.name)
  return refuse('not_found', `unknown product ${JSON.stringify(name.slice(0, 80))}; known: ${known.join(', ')}`)
}

export async function createInstance(
  location: InstanceLocation,
  product: Product,
  { environment, clock }: CreateInstanceOptions,
): Promise<CreatedInstance> {
  const { layout } = location
  await mustBeOursOrNew(layout.root)
  const initial = initialSettings(location, await readEnv(layout.env), environment)
  await makeDirectory(layout.root, 0o755)
  const { written, hadEnv } = await writeEnv(layout.env, initial)
  const configured = await loadInstanceConfig(location, environment)
  await makeDirectory(dirname(layout.store), 0o700)
  const address = storeAddress(configured)
  const store = 'path' in address ? { ...address, create: true } : address
  const host = await openInstance(configured, { clock, store })
  try {
    const existing = await host.engine.read((tx) => groupsResource.table.find(tx, { folder: ROOT_FOLDER }))
    const used = (existing && (await findProduct(bundledProducts, existing.product))) ?? product
    await setUpFolder(configured.layout, ROOT_FOLDER, used)
    await securePrivateDirectories(configured.layout)
    // The rest of what containers mount; `svc generate` gives it to their user.
    await makeMountedDirectories(configured.layout, undefined)
    const context = { host, caller: hostCaller(), face: 'cli' as const }
    const { added } = await callVerb(context, groupsResource.verbs.add, { folder: ROOT_FOLDER, product: used.name })
    return { configured, written, hadEnv, isGroupNew: added, product: used }
  } finally {
    await host.close()
  }
}

/** A directory with other files is probably a mistyped path. */
async function mustBeOursOrNew(root: string): Promise<void> {
  const entries = await readdir(root).catch((error) =>
    errnoCode(error) === 'ENOENT' ? [] : refuseDisk(error, 'use', root),
  )
  const ours = /^(\.env.*|store|groups|services|docker-compose\.yml)$/
  // Ignore temporary files of another `create` that is writing its .env.
  const others = entries.filter((entry) => entry !== 'lost+found' && !/^\.tmp-[0-9a-f]+$/.test(entry))
  if (others.length === 0 || others.some((entry) => ours.test(entry))) return
  refuse('conflict', `${root} contains files but no svc instance; nothing was changed`, 'choose another name')
}

/** Copies values of the environment, because .env takes precedence later. See docs/decisions.md#order-of-settings. */
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

/** Writes a new file, or appends the missing settings: an operator may have started it with DATABASE_URL. */
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

/** Appends in place, so that the file keeps its owner and links stay valid. It contains secrets from now on. */
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

/** Atomic, and false if the file exists: two concurrent `create` commands both use the keys of the first. */
async function writeNew(path: string, text: string): Promise<boolean> {
  const temporary = `${path}.new-${randomBytes(8).toString('hex')}`
  await writeAtomic(temporary, text, 0o600)
  try {
    await link(temporary, path)
    return true
  } catch (error) {
    if (errnoCode(error) === 'EEXIST') return false
    return refuseDisk(error, 'write', path)
  } finally {
    await rm(temporary, { force: true })
  }
}
