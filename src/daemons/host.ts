// Opens an instance: its store, brought up to date, and the world that verbs are given.
import type { AddressRule } from '../channels/adapter-lookup.ts'
import { PolicyReader } from '../core/acl.ts'
import { AGENT_LIMITS, type AgentLimits } from '../core/agent-limits.ts'
import { coreTables } from '../core/index.ts'
import type { Layout } from '../core/layout.ts'
import { openSearch } from '../core/message-search.ts'
import { RouteReader } from '../core/routing.ts'
import { timeZoneOf } from '../core/schedule.ts'
import { openKeyring } from '../core/seal.ts'
import type { Speech } from '../core/speech.ts'
import { TURN_RULES, type TurnRules } from '../core/turn-rules.ts'
import { type Clock, type Random, systemClock, systemRandom, timestamp } from '../lib/clock.ts'
import { Signals } from '../lib/signals.ts'
import type { Host } from '../registry/context.ts'
import { resources } from '../resources/index.ts'
import { type Address, openEngine } from '../store/index.ts'
import { migrate, type Stored } from '../store/migrate.ts'
import { openChannels } from './channel-book.ts'

export interface HostOptions {
  instance: string
  store: Address
  secretsKey?: string | undefined
  webBase: string
  layout?: Layout | undefined
  timeZone?: string | undefined
  rules?: TurnRules | undefined
  limits?: AgentLimits | undefined
  speech?: Speech | undefined
  /** Where the adapters of platforms may be. */
  adapters?: AddressRule | undefined
  searchDeadlineMs?: number | undefined
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
    rules = TURN_RULES,
    limits = AGENT_LIMITS,
    speech,
    adapters,
    searchDeadlineMs,
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
  const [signals, keyring] = [new Signals(), openKeyring(secretsKey)]
  const search = layout && openSearch(engine, layout.search, { deadlineMs: searchDeadlineMs, onStray })
  return {
    instance,
    engine,
    rules,
    limits,
    channels: openChannels({ engine, signals, keyring, clock, random, adapters }),
    policies: new PolicyReader(),
    routes: new RouteReader(),
    alive: new Map(),
    signals,
    routing: new Signals(),
    clock,
    random,
    keyring,
    webBase,
    timeZone: zone,
    ...(layout && search ? { layout, search } : {}),
    ...(speech ? { speech } : {}),
    ...(onStray ? { onStray } : {}),
    close: async () => {
      await search?.close()
      await engine.close()
    },
  }
}
