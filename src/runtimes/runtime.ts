// What a way to run an agent's turn is: given what was said, it says things, and comes to an end.
import type { Message } from '../core/messages.ts'

export interface Turn {
  readonly id: string
  readonly folder: string
  readonly jid: string
  readonly topic: string | undefined
  /** What it is about, oldest first. */
  readonly messages: readonly Message[]
  /** How many frames an earlier try has said, which were broken off with it. */
  readonly said: number
  /** Aborted when the process stops, or when somebody else has the turn: the time to break off. */
  readonly signal: AbortSignal
  /** Recorded when it resolves. */
  say(kind: 'message' | 'status', content: string): Promise<void>
}

export interface Runtime {
  readonly name: string
  /** Returns when the turn is over. A refusal is how it failed, in a sentence for whoever waits; all else is a bug. */
  run(turn: Turn): Promise<void>
}
