// Opens an instance: migrates its store and creates the host that verbs and daemons use.
import type { AddressPolicy } from '../../channels/address-policy.ts'
import { PolicyReader } from '../../core/access/acl.ts'
import { AGENT_LIMITS, type AgentLimits } from '../../core/access/agent-limits.ts'
import type { SpeechSynthesizer } from '../../core/delivery/speech.ts'
import type { Layout } from '../../core/layout.ts'
import { RouteTableCache } from '../../core/routing/route-table.ts'
import { timeZoneOf } from '../../core/schedule/schedule.ts'
import { openSearchIndex } from '../../core/search/message-search.ts'
import { openKeyring } from '../../core/secrets/keyring.ts'
import { StoredSettingsReader } from '../../core/settings/stored-settings.ts'
import { DEFAULT_TURN_RULES, type TurnRules } from '../../core/turns/turn-rules.ts'
import { type Clock, type Random, systemClock, systemRandom, timestamp } from '../../lib/clock.ts'
import { CommitSignals, Signals } from '../../lib/commit-signals.ts'
import { FaultBoundary, type FaultPlace, throwUncaught } from '../../lib/fault-boundary.ts'
import { MetricRegistry } from '../../lib/log/metric-registry.ts'
import type { SettingSource } from '../../lib/settings.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Engine } from '../../store/engine.ts'
import { openEngine, type StoreAddress } from '../../store/index.ts'
import { hasSteps, migrate } from '../../store/migrate.ts'
import { SCHEMA_STEPS } from '../schema-steps.ts'
import { settingRules } from '../setting-rules.ts'
import { INSTANCE_SETTINGS } from '../settings.ts'
import type { AnswerAddresses } from './answer-addresses.ts'
import { openChannelRegistry } from './channel-registry.ts'

/** What settings of the store may decide. */
export interface HostSettings {
  timeZone?: string | undefined
  assistantName?: string | undefined
  rules?: TurnRules | undefined
  limits?: AgentLimits | undefined
  speech?: SpeechSynthesizer | undefined
  /** Allowed addresses of channel adapters. */
  adapters?: AddressPolicy | undefined
  /** Allowed addresses of the URLs that get answers of webhooks. */
  answers?: AnswerAddresses | undefined
}

export interface HostOptions extends HostSettings {
  instance: string
  store: StoreAddress
  secretsKey?: string | undefined
  webBase: string
  layout?: Layout | undefined
  /** Default: commands begin with `svc`. */
  showCommands?(text: string): string
  /** Names of settings that the store does not have. */
  fixedSettings?: readonly string[]
  /** Reads the settings that the store may override, and replaces the members above. */
  configure?(stored: SettingSource): Promise<HostSettings>
  clock?: Clock
  random?: Random
  /** Logs an error of work that no caller waits for. */
  onBackgroundError?(error: unknown, place: FaultPlace): void
}

export interface OpenHost extends InstanceHost {
  close(): Promise<void>
}

export async function openHost(options: HostOptions): Promise<OpenHost> {
  const {
    instance,
    store,
    secretsKey,
    webBase,
    layout,
    showCommands = (text) => text,
    fixedSettings = [],
    clock = systemClock,
    random = systemRandom,
    onBackgroundError,
  } = options
  const metrics = new MetricRegistry()
  const faults = new FaultBoundary(metrics, onBackgroundError)
  // A short command has no log: its exceptions must not be lost.
  const onSignalFault = onBackgroundError ? faults.handler('signal') : throwUncaught
  const engine = await openEngine(store, onSignalFault)
  const [signals, keyring] = [new CommitSignals(onSignalFault), openKeyring(secretsKey)]
  const rulesOfSettings = settingRules(fixedSettings)
  const reader = new StoredSettingsReader(keyring, rulesOfSettings)
  let settings: HostSettings
  try {
    await migrateIfNeeded(engine, clock)
    const { configure } = options
    settings = configure ? await configure(await engine.read((tx) => reader.read(tx))) : options
  } catch (error) {
    await engine.close()
    throw error
  }
  const { speech, adapters, answers } = settings
  const stopping = new AbortController()
  // Copies, because `followSettings` changes them.
  const rules = { ...(settings.rules ?? DEFAULT_TURN_RULES) }
  const limits = { ...(settings.limits ?? AGENT_LIMITS) }
  const onSearchFault = faults.handler('search')
  const search =
    layout &&
    openSearchIndex(engine, layout.search, {
      get deadlineMs() {
        return limits.searchMs
      },
      onBackgroundError: onSearchFault,
    })
  return {
    instance,
    engine,
    rules,
    limits,
    settingRules: rulesOfSettings,
    storedSettings: reader,
    channels: openChannelRegistry({
      ...{ engine, signals, keyring, clock, random, webBase, adapters, answers, stopping: stopping.signal },
    }),
    policies: new PolicyReader(),
    routes: new RouteTableCache(),
    lastSocketUse: new Map(),
    turnCosts: new Map(),
    metrics,
    faults,
    signals,
    preCommitSignals: new CommitSignals(onSignalFault),
    drafts: new Signals(onSignalFault),
    clock,
    random,
    keyring,
    webBase,
    showCommands,
    timeZone: timeZoneOf(settings.timeZone),
    assistantName: settings.assistantName ?? INSTANCE_SETTINGS.ASSISTANT_NAME.initial,
    ...(layout && search ? { layout, search } : {}),
    ...(speech ? { speech } : {}),
    close: async () => {
      // A receiver that hangs would keep the process alive.
      stopping.abort()
      await search?.close()
      await engine.close()
    },
  }
}

/** Loads the table declarations only if needed: that takes as long as the rest of a short command. */
async function migrateIfNeeded(engine: Engine, clock: Clock): Promise<void> {
  if (await hasSteps(engine, SCHEMA_STEPS)) return
  const { PRODUCT_TABLES } = await import('../tables.ts')
  await migrate(engine, PRODUCT_TABLES, () => timestamp(clock.now()))
}
