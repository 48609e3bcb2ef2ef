// Interface of a runtime: it runs the program of one agent turn, which reads the messages and calls tools through its socket.
import type { ChatDirectory, FilesDirectory, OpenDirectory } from '../cell/cell.ts'
import type { AgentUser } from '../core/agent-user.ts'
import type { ModelUsage } from '../core/turns/costs.ts'
import type { TurnFailure } from '../core/turns/turn-failures.ts'

/** A file of a message. */
export interface TurnFile {
  readonly name: string
  /** By its content. */
  readonly type: string
  readonly size: number
  /** As the agent's process sees it; undefined if the run cannot read it. */
  readonly path?: string | undefined
  readonly transcript?: string | undefined
}

/** One of the messages that a turn answers. */
export interface TurnMessage {
  readonly id: string
  readonly sender: string
  /** Empty if the message has only files. */
  readonly text: string
  /** The chat that it was sent in. */
  readonly jid: string
  readonly files?: readonly TurnFile[] | undefined
}

/** One turn to run. */
export interface Job {
  readonly turnId: string
  /** Sent with the turn id to the socket. See docs/decisions.md#turn-of-a-tool-call. */
  readonly fence: number
  readonly folder: string
  /** The user of its processes; default that of the cell. */
  readonly user?: AgentUser | undefined
  readonly topic: string
  /** The chat that it answers in. */
  readonly jid: string
  readonly sender: string
  readonly prompt: string
  /** The messages of the prompt, for runtimes that do not parse it. */
  readonly messages: readonly TurnMessage[]
  /** The number of messages that earlier attempts of this turn sent, so that a script does not repeat them. */
  readonly sentCount: number
  /** The session to resume; absent for a new one. */
  readonly sessionId?: string | undefined
  /** The session that a new session is forked from. */
  readonly parentSessionId?: string | undefined
  /** The tool socket of this run. */
  readonly socket: string
  /** The workspace. Tools call it /home/node/. */
  readonly home: string
  /** Opens the workspace as a verified directory for a cell to mount; the caller closes it. */
  openHome(): Promise<OpenDirectory>
  /** HOME of a run below reach `all`, with its sessions. Such a run can write only parts of the workspace. */
  readonly chat?: ChatDirectory | undefined
  /** Set if the chat has files. */
  readonly files?: FilesDirectory | undefined
  /** Reads a small file of the workspace; undefined if it does not exist. */
  readText(name: string): string | undefined
  /** The log of this turn; stdout and stderr are appended. */
  readonly logFile: string
  /** The cost limit in cents; absent if there is none. */
  readonly moneyCents?: number | undefined
  /** Milliseconds since 1970. */
  readonly deadline: number
  /** A run without activity for this long is stopped. */
  readonly hangMs: number
  /** Additional environment variables: the secrets of the run. */
  readonly env: Readonly<Record<string, string>>
  /** The variables of `env` that are the sender's own secrets. */
  readonly personal?: ReadonlySet<string> | undefined
  /** Variables with endpoints that cannot be on this machine or a private network. */
  readonly publicOnly?: ReadonlySet<string> | undefined
  /** The `config` of the group. */
  readonly config?: Readonly<Record<string, unknown>> | undefined
  /** When the turn last used its socket, in milliseconds since 1970. Counts as activity, like output. */
  lastActivityAt?(): number | undefined
  /** Takes the answer as it is written. */
  readonly draft?: DraftText | undefined
  /** Takes calls of tools that are the program's own. Those of its socket are known. */
  readonly calls?: ProgramCalls | undefined
  /** Takes what the run has used so far, whenever that changes; a run that fails has used it, too. */
  onUsage?(used: readonly ModelUsage[]): void
  /** Aborted when the turn is stopped, svc shuts down, or another process has claimed the turn. */
  readonly signal: AbortSignal
}

export interface StartedCall {
  readonly tool: string
  /** For readers of the chat. It must tell nothing of the inside. */
  readonly phrase?: string | undefined
  readonly args: Readonly<Record<string, unknown>>
}

export interface ProgramCalls {
  /** Returns a function that ends the call. */
  start(call: StartedCall): (isFailed: boolean) => void
}

export interface DraftText {
  add(text: string): void
  /** What was added so far is not the answer: the model has called a tool, or begins again. */
  restart(): void
}

/** Characters of an answer. A run with a longer one fails, because nobody would notice that a part is missing. */
export const ANSWER_MAX = 1_048_576
/** Characters of a fault's message: agents and providers write it. */
const FAULT_MAX = 2000

export interface AgentRunResult {
  /** Sent to the chat if the run sent nothing itself; at most `ANSWER_MAX` characters. */
  readonly result?: string | undefined
  readonly sessionId?: string | undefined
}

export interface Runtime {
  readonly name: string
  /** Resolves when the run and its processes have ended; throws a `RunFault` if it failed. */
  run(job: Job): Promise<AgentRunResult>
  close(): Promise<void>
}

/**
 * A failed run. The message is for operators; the chat gets the text of `failure`. A `retryable` fault may not recur, a
 * `terminal` one would. `session`: the session cannot be resumed, but a new one may work. `unavailable`: the host
 * failed, not the agent, so the attempt does not count; only svc itself decides this, never a program in a cell.
 */
export class RunFault extends Error {
  readonly kind: 'retryable' | 'terminal' | 'session' | 'unavailable'
  readonly failure: TurnFailure

  constructor(kind: RunFault['kind'], message: string, failure?: TurnFailure) {
    super(message.slice(0, FAULT_MAX))
    this.name = 'RunFault'
    this.kind = kind
    this.failure = failure ?? (kind === 'terminal' ? 'unusable' : 'failed')
  }
}

export function oversizedAnswer(): RunFault {
  return new RunFault('terminal', `its answer is longer than ${ANSWER_MAX} characters`, 'oversized')
}
