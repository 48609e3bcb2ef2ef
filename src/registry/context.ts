// What a verb is given: the transaction, who asks, and the world it may use. No engine: a verb cannot open a second transaction.

import type { Claims, Policy } from '../core/access.ts'
import type { PolicyReader } from '../core/acl.ts'
import type { Caller, Face } from '../core/caller.ts'
import type { Layout } from '../core/layout.ts'
import type { Keyring } from '../core/seal.ts'
import type { Clock, Random } from '../lib/clock.ts'
import type { Signals } from '../lib/signals.ts'
import type { Engine, Tx } from '../store/engine.ts'

/** The parts of a running instance that verbs use. */
export interface World {
  readonly instance: string
  readonly clock: Clock
  readonly random: Random
  readonly keyring: Keyring
  /** Scheme and host of the links that are handed out, such as https://chat.example. */
  readonly webBase: string
  readonly timeZone: string
}

export interface Host extends World {
  readonly engine: Engine
  readonly policies: PolicyReader
  /** Word of what this process has committed. */
  readonly signals: Signals
  /** Where its files are, in a process that has them. */
  readonly layout?: Layout
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
  readonly turnId?: string
}

export interface Context extends World {
  readonly tx: Tx
  readonly caller: Caller
  readonly face: Face
  /** The name of the tool that this verb is, or would be: what a grant names. */
  readonly tool: string
  /** The plain members of the input, by name: what the params of an acl row or a rule are held against. */
  readonly params: Claims
  /** RFC 3339, the same for the whole call. */
  readonly now: string
  policy(): Promise<Policy>
  /** Runs when the commit is done; never inside the transaction. */
  after(effect: () => void | Promise<void>): void
}
