// The port of a way to run an agent's turn: a program that is told what was said, works through its folder's socket, and
// comes to an end.
import type { ChatDirectory, OpenDirectory } from '../cell/cell.ts'
import type { TurnFailure } from '../core/turns/turn-failures.ts'
import type { ModelCost } from '../core/turns/turns.ts'

/** One of the messages that a turn answers. */
export interface TurnMessage {
  readonly id: string
  readonly sender: string
  readonly text: string
  /** The chat that it was said in. */
  readonly jid: string
}

/** All that a run is told. */
export interface Job {
  readonly turnId: string
  /** Named with the turn to the socket (decision T10). */
  readonly fence: number
  readonly folder: string
  readonly topic: string
  /** The chat that it answers in. */
  readonly jid: string
  readonly sender: string
  readonly prompt: string
  /** What the prompt asks to answer, for a runtime that reads no prose. */
  readonly messages: readonly TurnMessage[]
  /** How much earlier tries of this turn have said: a script does not say it again. */
  readonly sentCount: number
  /** What it goes on with; absent for a fresh session. */
  readonly sessionId?: string | undefined
  /** A fork starts from this session instead of its own. */
  readonly parentSessionId?: string | undefined
  /** The tool socket of this run. */
  readonly socket: string
  /** The workspace, which every tool calls /home/node/. */
  readonly home: string
  /** The same as a verified open directory, for a cell to mount; the caller closes it. */
  openHome(): Promise<OpenDirectory>
  /** Of a run that visitors ask for: its HOME, where its sessions lie. It can only read the workspace. */
  readonly chat?: ChatDirectory | undefined
  /** The text of a small file of the workspace; undefined where there is none. */
  readText(name: string): string | undefined
  /** The log of this turn: stdout and stderr are added to it. */
  readonly logFile: string
  /** What it may cost, in cents; absent where there is no cap. */
  readonly moneyCents?: number | undefined
  /** When it must be over, in milliseconds since 1970. */
  readonly deadline: number
  /** So long without a sign of life, and it is taken for dead. */
  readonly hangMs: number
  /** What its environment holds besides. */
  readonly env: Readonly<Record<string, string>>
  /** Which variables of `env` the person who asked has set for themselves. */
  readonly personal?: ReadonlySet<string> | undefined
  /** The group's own settings (its `config`), where it has some. */
  readonly config?: Readonly<Record<string, unknown>> | undefined
  /** When its turn last used the socket, in milliseconds since 1970: a sign of life besides what it prints. */
  lastActivityAt?(): number | undefined
  /** Aborted when it must break off: somebody stops it, the process ends, or another has the turn. */
  readonly signal: AbortSignal
}

export interface AgentRunResult {
  /** Said in the chat where the run has said nothing itself. */
  readonly result?: string | undefined
  readonly sessionId?: string | undefined
  readonly models?: readonly ModelCost[] | undefined
}

export interface Runtime {
  readonly name: string
  /** Resolves when the run is over and its processes are gone; throws a `RunFault` where it failed. */
  run(job: Job): Promise<AgentRunResult>
  close(): Promise<void>
}

/**
 * How a run failed. The message is for operators; people in the chat are told `failure`. `again` may go better next time; `terminal` cannot, because it does not
 * even start; `session` means that the session is gone and a fresh one may go; `unavailable` is not the agent's failure (the
 * socket does not answer) and counts as no try.
 */
export class RunFault extends Error {
  readonly kind: 'again' | 'terminal' | 'session' | 'unavailable'
  /** What it has cost all the same. */
  readonly models: readonly ModelCost[]
  readonly failure: TurnFailure

  constructor(kind: RunFault['kind'], message: string, models: readonly ModelCost[] = [], failure?: TurnFailure) {
    super(message)
    this.name = 'RunFault'
    this.kind = kind
    this.models = models
    this.failure = failure ?? (kind === 'terminal' ? 'unusable' : 'failed')
  }
}
