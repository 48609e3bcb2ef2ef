// What a verb is given: the transaction, who asks, and the world it may use. No engine: a verb cannot open a second transaction.

import type { Claims, Policy } from '../core/access.ts'
import type { PolicyReader } from '../core/acl.ts'
import type { AgentLimits } from '../core/agent-limits.ts'
import type { Caller, Face } from '../core/caller.ts'
import type { Channels } from '../core/channel.ts'
import type { Layout } from '../core/layout.ts'
import type { Reach } from '../core/reach.ts'
import type { RouteReader, RouteTable } from '../core/routing.ts'
import type { Keyring } from '../core/seal.ts'
import type { SearchIndex } from '../core/search.ts'
import type { Speech } from '../core/speech.ts'
import type { TurnRules } from '../core/turn-rules.ts'
import type { Turn } from '../core/turns.ts'
import type { Clock, Random } from '../lib/clock.ts'
import type { Signals } from '../lib/signals.ts'
import type { Dialect, Engine, Tx } from '../store/engine.ts'

/** The parts of a running instance that verbs use. */
export interface World {
  readonly instance: string
  readonly clock: Clock
  readonly random: Random
  readonly keyring: Keyring
  /** Scheme and host of the links that are handed out, such as https://chat.example. */
  readonly webBase: string
  readonly timeZone: string
  readonly rules: TurnRules
  readonly limits: AgentLimits
  /** Where its files are, in a process that has them. */
  readonly layout?: Layout
}

export interface Host extends World {
  readonly engine: Engine
  readonly policies: PolicyReader
  readonly routes: RouteReader
  /** Word of what this process has committed. */
  readonly signals: Signals
  /** Word that it is about to commit what was routed: who claims a turn in the same breath shares the commit. */
  readonly routing: Signals
  /** The ways to the platforms. */
  readonly channels: Channels
  /** The index of what was said, in a process that has files. */
  readonly search?: SearchIndex
  /** Who speaks texts, where the instance names a service for it. */
  readonly speech?: Speech
  /** When each turn last used its socket in this process, in milliseconds since 1970. */
  readonly alive: Map<string, number>
  /** What a finished call left to do went wrong; nobody waits for it. */
  readonly onStray?: (error: unknown) => void
}

/** A request before it has a transaction: put together by the face. */
export interface Asking {
  readonly host: Host
  readonly caller: Caller
  readonly face: Face
  readonly requestId?: string
  readonly sourceIp?: string
  /** The turn that an agent's connection names (decision T10). */
  readonly turn?: { readonly id: string; readonly fence?: number }
  /** What the person who asked may use of an agent's tools; absent where no agent asks. */
  readonly reach?: Reach
}

export interface Context extends World {
  readonly tx: Tx
  readonly dialect: Dialect
  readonly caller: Caller
  readonly face: Face
  /** Of an agent's turn; all others are limited by their rights alone. */
  readonly reach: Reach
  /** The name of the tool that this verb is, or would be: what a grant names. */
  readonly tool: string
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
  after(effect: () => void | Promise<void>): void
}
