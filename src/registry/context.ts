// What a verb is given: the transaction, who asks, and the world it may use. No engine: a verb cannot open a second transaction.

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
import type { RouteTable, RouteTableCache } from '../core/routing/route-table.ts'
import type { SearchIndex } from '../core/search/search-index.ts'
import type { Keyring } from '../core/secrets/keyring.ts'
import type { TurnRules } from '../core/turns/turn-rules.ts'
import type { Turn } from '../core/turns/turns.ts'
import type { Clock, Random } from '../lib/clock.ts'
import type { CommitSignals } from '../lib/commit-signals.ts'
import type { Dialect, Engine, Tx } from '../store/engine.ts'

/** The parts of a running instance that verbs use. */
export interface InstanceEnvironment {
  readonly instance: string
  readonly clock: Clock
  readonly random: Random
  readonly keyring: Keyring
  /** Scheme and host of the links that are handed out, such as https://chat.example. */
  readonly webBase: string
  readonly timeZone: string
  readonly rules: TurnRules
  readonly limits: AgentLimits
  /** Word of what this process has committed. */
  readonly signals: CommitSignals
  /** Where its files are, in a process that has them. */
  readonly layout?: Layout
}

export interface InstanceHost extends InstanceEnvironment {
  readonly engine: Engine
  readonly policies: PolicyReader
  readonly routes: RouteTableCache
  /** Word of work that this process is about to commit: where it is done in the same breath, it shares the commit. */
  readonly preCommitSignals: CommitSignals
  /** The ways to the platforms. */
  readonly channels: ChannelResolver
  /** The index of what was said, in a process that has files. */
  readonly search?: SearchIndex
  /** Who speaks texts, where the instance names a service for it. */
  readonly speech?: SpeechSynthesizer
  /** When each turn last used its socket in this process, in milliseconds since 1970. */
  readonly lastSocketUse: Map<string, number>
  /** What a finished call left to do went wrong; nobody waits for it. */
  readonly onBackgroundError?: (error: unknown) => void
}

/** A request before it has a transaction: put together by the face. */
export interface RequestContext {
  readonly host: InstanceHost
  readonly caller: Caller
  readonly face: Face
  readonly requestId?: string
  readonly sourceIp?: string
  /** The turn that an agent's connection names (decision T10). */
  readonly turn?: { readonly id: string; readonly fence?: number }
  /** What the person who asked may use of an agent's tools; absent where no agent asks. */
  readonly reach?: Reach
  /** Told that a call failed because the store could not do it at the moment. */
  onOutage?(): void
}

export interface Context extends InstanceEnvironment {
  readonly tx: Tx
  readonly dialect: Dialect
  readonly caller: Caller
  readonly face: Face
  /** Of an agent's turn; all others are limited by their rights alone. */
  readonly reach: Reach
  /** The name of the tool that this verb is, or would be: what a grant names. */
  readonly tool: string
  /** The `tiers` of that tool's declaration. */
  readonly tiers: ToolTiers
  /** The plain members of the input, by name: what the params of an acl row or a rule are held against. */
  readonly params: Claims
  /** RFC 3339, the same for the whole call. */
  readonly now: string
  policy(): Promise<Policy>
  /** Where messages go, as it stands in this transaction. */
  routes(): Promise<RouteTable>
  /** The turn that an agent's call belongs to: the one its connection names, else the folder's only one. */
  turn(): Promise<Turn | undefined>
  /** Runs when the commit is done; never inside the transaction. */
  afterCommit(effect: () => void | Promise<void>): void
}
