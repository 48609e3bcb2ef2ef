// Opens an instance: its store, brought up to date, and the world that verbs are given.
import { PolicyReader } from '../core/acl.ts'
import { coreTables } from '../core/index.ts'
import type { Layout } from '../core/layout.ts'
import { timeZoneOf } from '../core/schedule.ts'
import { openKeyring } from '../core/seal.ts'
import { type Clock, type Random, systemClock, systemRandom, timestamp } from '../lib/clock.ts'
import { Signals } from '../lib/signals.ts'
import type { Host } from '../registry/context.ts'
import { resources } from '../resources/index.ts'
import { type Address, openEngine } from '../store/index.ts'
import { migrate, type Stored } from '../store/migrate.ts'

export interface HostOptions {
  instance: string
  store: Address
  secretsKey?: string | undefined
  webBase: string
  layout?: Layout | undefined
  timeZone?: string | undefined
  clock?: Clock
  random?: Random
  onStray?(error: unknown): void
}

export interface OpenHost extends Host {
  close(): Promise<void>
}

/** Every table of the product, in creation order. */
export const TABLES: readonly Stored[] = [...new Set([...coreTables, ...resources.map(({ table }) => table)])]

export async function openHost(options: HostOptions): Promise<OpenHost> {
  const {
    instance,
    store,
    secretsKey,
    webBase,
    layout,
    timeZone,
    clock = systemClock,
    random = systemRandom,
    onStray,
  } = options
  const zone = timeZoneOf(timeZone)
  const engine = await openEngine(store)
  try {
    await migrate(engine, TABLES, () => timestamp(clock.now()))
  } catch (error) {
    await engine.close()
    throw error
  }
  return {
    instance,
    engine,
    policies: new PolicyReader(),
    signals: new Signals(),
    clock,
    random,
    keyring: openKeyring(secretsKey),
    webBase,
    timeZone: zone,
    ...(layout ? { layout } : {}),
    ...(onStray ? { onStray } : {}),
    close: () => engine.close(),
  }
}
