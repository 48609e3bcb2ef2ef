// Export and apply of the real resources, and the rows that they must not change.

import { configVersion } from '../../src/core/config-version.ts'
import { type OpenHost, openHost } from '../../src/daemons/process/host.ts'
import { PRODUCT_TABLES } from '../../src/daemons/tables.ts'
import { manifestResources } from '../../src/faces/manifest/manifest-resource.ts'
import { type ApplyResult, manifestVerbs } from '../../src/faces/manifest/manifest-verbs.ts'
import { type Manifest, readManifest } from '../../src/faces/manifest/validator.ts'
import { audit } from '../../src/registry/audit.ts'
import { callVerb } from '../../src/registry/call.ts'
import type { InstanceHost } from '../../src/registry/context.ts'
import { resources } from '../../src/resources/index.ts'
import type { Tx } from '../../src/store/engine.ts'
import type { StoreAddress } from '../../src/store/index.ts'
import { fakeClock } from './clock.ts'
import type { TestHost } from './host.ts'
import { run } from './sql.ts'

export const manifestVerb = manifestVerbs(resources)

/** In creation order. */
export const SHAPES = manifestResources(resources)

export interface ApplyOptions {
  force?: boolean
  dry_run?: boolean
  source?: string
  planned?: string
}

export function exportOf({ cli }: TestHost): Promise<string> {
  return cli.call(manifestVerb.export, {})
}

export function applyTo({ cli }: TestHost, manifest: string | Uint8Array, options: ApplyOptions = {}) {
  return cli.call(manifestVerb.apply, { manifest, ...options })
}

/** Returns the result of an apply that must succeed. */
export async function applied(test: TestHost, manifest: string, options: ApplyOptions = {}) {
  const result = await applyTo(test, manifest, options)
  if (result.kind !== 'applied') throw new Error(`not applied: ${JSON.stringify(result)}`)
  return result
}

/** The changed keys, by resource. */
export function keysOf(result: ApplyResult) {
  if (result.kind === 'mismatch') throw new Error('the versions differ')
  const changed = result.plan.filter(
    ({ added, changed, removed }) => added.length + changed.length + removed.length > 0,
  )
  return Object.fromEntries(changed.map(({ resource, ...keys }) => [resource, keys]))
}

/** Without a store: validates only the text. */
export function read(manifest: string | Uint8Array): Manifest {
  return readManifest(manifest, { exported: SHAPES, names: resources.map(({ name }) => name) })
}

/** Adds a `config_version` line before `body`. */
export function atVersion(version: number, body: string): string {
  return `config_version: ${version}\n${body}`
}

const EXPORTED = SHAPES.filter(({ exported }) => !exported.ignoredByApply).map(({ name }) => name)

/** A separate store, with a fixed clock. */
export function openStore(store: StoreAddress): Promise<OpenHost> {
  return openHost({ instance: 'test', store, webBase: 'http://localhost', clock: fakeClock() })
}

export function exportOfStore(host: InstanceHost): Promise<string> {
  return callVerb({ host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' }, manifestVerb.export, {})
}

/** Every row, as text, of the tables that an apply never writes. */
export function everythingElse({ engine }: InstanceHost): Promise<string> {
  const kept = PRODUCT_TABLES.filter(({ name }) => ![...EXPORTED, audit.name, configVersion.name].includes(name))
  return engine.read(async (tx) => {
    const tables: Record<string, string[]> = {}
    for (const { name } of kept) {
      const { rows } = await run(tx, `select * from ${name}`)
      tables[name] = rows.map((row) => JSON.stringify(row)).sort()
    }
    return JSON.stringify(tables, null, 1)
  })
}

/** Every row of the store, each as a line that starts with its table, without the audit log and the stamps. */
export async function everyRow(tx: Tx): Promise<string[]> {
  const lines: string[] = []
  for (const { name } of PRODUCT_TABLES.filter((table) => table.name !== audit.name)) {
    const { rows } = await run(tx, `select * from ${name}`)
    lines.push(...rows.map((row) => `${name} ${JSON.stringify(row)}`))
  }
  return lines.sort()
}
