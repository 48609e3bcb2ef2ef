// The context of a call. Verbs get no engine, so that they cannot open a second transaction.
import type { PolicyReader } from '../core/access/acl.ts'
import type { AgentLimits } from '../core/access/agent-limits.ts'
import type { Caller, Face } from '../core/access/caller.ts'
import type { Policy } from '../core/access/policy.ts'
import type { Reach } from '../core/access/reach.ts'
import type { Claims } from '../core/access/rules.ts'
import type { ToolTiers } from '../core/access/tiers.ts'
import type { ChannelResolver } from '../core/delivery/channel.ts'
import type { SpeechSynthesizer } from '../core/delivery/speech.ts'
import type { Layout } from '../core/layout.ts'
import type { MessageTracer } from '../core/messages/message-tracer.ts'
import type { RouteTable, RouteTableCache } from '../core/routing/route-table.ts'
import type { SearchIndex } from '../core/search/search-index.ts'
import type { Keyring } from '../core/secrets/keyring.ts'
import type { SettingRules, StoredSettingsReader } from '../core/settings/stored-settings.ts'
import type { DraftSignals } from '../core/turns/drafts.ts'
import type { TurnCost } from '../core/turns/turn-cost.ts'
import type { TurnRules } from '../core/turns/turn-rules.ts'
import type { Turn } from '../core/turns/turns.ts'
import type { Clock, Random } from '../lib/clock.ts'
import type { CommitSignals } from '../lib/commit-signals.ts'
import type { FaultBoundary } from '../lib/fault-boundary.ts'
import type { MetricRegistry } from '../lib/log/metric-registry.ts'
import type { Dialect, Engine, Tx } from '../store/engine.ts'

/** The parts of a running instance that verbs use. */
export interface InstanceEnvironment {
  readonly instance: string
  readonly clock: Clock
  readonly random: Random
  readonly keyring: Keyring
  /** Scheme and host of printed links, such as https://chat.example. */
  readonly webBase: string
  readonly timeZone: string
  /** Names the agent of main while it has no other name. */
  readonly assistantName: string
  /** These two change in place while the process runs. */
  readonly rules: TurnRules
  readonly limits: AgentLimits
  readonly settingRules: SettingRules
  /** Notifies workers of this process after a commit. */
  readonly signals: CommitSignals
  readonly metrics: MetricRegistry
  /** Set if traces are exported. */
  readonly tracer?: MessageTracer
  /** Absent in a process without the instance's files. */
  readonly layout?: Layout
}

export interface InstanceHost extends InstanceEnvironment {
  readonly engine: Engine
  readonly policies: PolicyReader
  readonly routes: RouteTableCache
  readonly storedSettings: StoredSettingsReader
  /** Announces a coming commit, so that work which is ready in time can share it. */
  readonly preCommitSignals: CommitSignals
  /** The texts that agents are writing. */
  readonly drafts: DraftSignals
  readonly channels: ChannelResolver
  /** Absent in a process without the instance's files. */
  readonly search?: SearchIndex
  /** Absent unless a speech service is configured. */
  readonly speech?: SpeechSynthesizer
  /** When each turn last used its socket in this process, in milliseconds since 1970. */
  readonly lastSocketUse: Map<string, number>
  /** The costs of the turns that run in this process, by turn. */
  readonly turnCosts: Map<string, TurnCost>
  /** Counts and logs errors of work that no caller waits for. */
  readonly faults: FaultBoundary
  /** Replaces `svc` in commands by what operators type on the machine of this instance. */
  showCommands(text: string): string
}

/** A request before it has a transaction. The face creates it. */
export interface RequestContext {
  readonly host: InstanceHost
  readonly caller: Caller
  readonly face: Face
  readonly requestId?: string
  readonly sourceIp?: string
  /** The turn that an agent's connection names. See docs/decisions.md#turn-of-a-tool-call. */
  readonly turn?: { readonly id: string; readonly fence?: number }
  /** The reach of an agent's turn; absent for other callers. */
  readonly reach?: Reach
  /** A call that changes something is refused if an earlier one had the same key. */
  readonly formKey?: string
  /** Called when the store was temporarily unavailable. */
  onOutage?(): void
}

export interface Context extends InstanceEnvironment {
  readonly tx: Tx
  readonly dialect: Dialect
  readonly caller: Caller
  readonly face: Face
  /** The reach of an agent's turn; `all` for other callers. */
  readonly reach: Reach
  /** The name that a grant uses for this verb, even if it is not offered as a tool. */
  readonly tool: string
  /** The `tiers` of that tool's declaration. */
  readonly tiers: ToolTiers
  /** The tool that lists the rows of the verb's resource. */
  readonly listTool: string
  /** The scalar members of the input, which the params of acl rows and rules are matched against. */
  readonly params: Claims
  /** RFC 3339, the same for the whole call. */
  readonly now: string
  policy(): Promise<Policy>
  /** The routes as of this transaction. */
  routes(): Promise<RouteTable>
  /** The turn that an agent's connection names, else the folder's only running turn. */
  turn(): Promise<Turn | undefined>
  /** Runs the effect after the commit, outside the transaction. */
  afterCommit(effect: () => void | Promise<void>): void
}
