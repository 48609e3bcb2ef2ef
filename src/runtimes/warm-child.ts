// An agent process that runs one job after another: a line of JSON in, a line of JSON out. It is started in advance, so that
// no message waits for a program to load.
import { StringDecoder } from 'node:string_decoder'
import type { CellProcess, CellProcessExit } from '../cell/cell.ts'
import { parseFailure, type TurnFailure } from '../core/turns/turn-failures.ts'
import type { Clock } from '../lib/clock.ts'
import type { FaultHandler } from '../lib/fault-boundary.ts'
import { isHostFault } from '../lib/host-fault.ts'
import { tryParseJson } from '../lib/text/json.ts'
import { OutputReader } from './output-reader.ts'
import { RunWatchdog } from './run-watchdog.ts'
import { type AgentRunResult, type Job, RunFault } from './runtime.ts'
import { TextLineSplitter } from './text-line-splitter.ts'
import { TurnLog } from './turn-log.ts'

/** What an agent prints at the end of a job. */
export interface AgentOutcome extends AgentRunResult {
  readonly fault?:
    | { readonly kind: RunFault['kind']; readonly message: string; readonly failure?: TurnFailure }
    | undefined
}

interface CurrentRun {
  readonly log: TurnLog
  readonly watchdog: RunWatchdog
  onOutcome(outcome: AgentOutcome): void
  onExit(exit: CellProcessExit): void
  /** An exception of a handler of its output. */
  onFault(error: unknown): void
}

export class WarmChild {
  readonly #process: CellProcess
  readonly #clock: Clock
  readonly #onFault: FaultHandler
  #current: CurrentRun | undefined
  #lastError = ''
  isGone = false

  /** `onFault` gets exceptions that no run waits for. */
  constructor(process: CellProcess, clock: Clock, onFault: FaultHandler) {
    this.#process = process
    this.#clock = clock
    this.#onFault = onFault
    const { stdout, stderr, ended } = process
    const lines = new TextLineSplitter((line) => this.#onLine(line))
    const fail: FaultHandler = (error) => {
      if (this.#current) this.#current.onFault(error)
      else onFault(error)
      this.stop().catch(onFault)
    }
    const decoder = new StringDecoder('utf8')
    const output = new OutputReader(fail)
    const read = (slice: Buffer): void => lines.push(decoder.write(slice))
    output.read(stdout, { hasLineCost: true, onSlice: read })
    output.read(stderr, { hasLineCost: true, onSlice: (slice) => this.#onError(slice) })
    // One listener for all jobs: a promise keeps its listeners until it settles.
    ended
      .then(async (exit) => {
        this.isGone = true
        await output.finish()
        this.#current?.onExit(exit)
      })
      .catch(fail)
    this.#setRef(false)
  }

  /** Resolves when the process has exited. */
  get ended(): Promise<unknown> {
    return this.#process.ended
  }

  /** After a fault, check `isGone`: the process may have exited. */
  async run(job: Job, line: object): Promise<AgentRunResult> {
    this.#setRef(true)
    this.#lastError = ''
    const log = new TurnLog(job.logFile)
    const { promise, resolve, reject } = Promise.withResolvers<AgentOutcome>()
    let killedFor: unknown
    const watchdog = new RunWatchdog(job, this.#clock, (fault) => {
      killedFor = fault
      this.stop().catch(this.#onFault)
    })
    const onExit = ({ error, signal, code }: CellProcessExit): void => {
      const cause = this.#lastError || (error?.message ?? signal ?? `exit code ${code}`)
      const kind = isHostFault(error) ? 'unavailable' : 'retryable'
      reject(killedFor ?? new RunFault(kind, `its process exited early (${cause})`))
    }
    this.#current = { log, watchdog, onOutcome: resolve, onExit, onFault: reject }
    if (this.isGone) this.#process.ended.then(onExit).catch(reject)
    try {
      this.#process.stdin.write(`${JSON.stringify(line)}\n`)
      return requireResult(await promise)
    } finally {
      watchdog.close()
      this.#current = undefined
      await log.close()
      if (this.isGone) await this.#process.ended
      else this.#setRef(false)
    }
  }

  async stop(): Promise<void> {
    this.isGone = true
    await this.#process.stop()
  }

  #onLine(line: string): void {
    const current = this.#current
    if (!current) return
    current.watchdog.recordActivity()
    const outcome = readOutcome(line)
    if (outcome) current.onOutcome(outcome)
    else current.log.write(Buffer.from(`${line}\n`))
  }

  #onError(chunk: Buffer): void {
    this.#current?.watchdog.recordActivity()
    this.#current?.log.write(chunk)
    this.#lastError = chunk.toString('utf8').trim().split('\n').at(-1)?.slice(0, 500) ?? ''
  }

  /** Unrefs an idle child, so that it does not keep svc running. */
  #setRef(isReferenced: boolean): void {
    this.#process.setRef(isReferenced)
  }
}

/** Throws the fault of a failed run. */
export function requireResult({ fault, ...result }: AgentOutcome): AgentRunResult {
  if (fault) throw new RunFault(fault.kind, fault.message, parseFailure(fault.failure))
  return result
}

export function readOutcome(line: string): AgentOutcome | undefined {
  const read = tryParseJson(line)
  return typeof read === 'object' && read !== null && 'outcome' in read ? (read.outcome as AgentOutcome) : undefined
}
