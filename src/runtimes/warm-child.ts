// A process that waits for jobs: one line of JSON in, one line of JSON out. It is started ahead, so that no message waits
// until a program has loaded.
import type { Socket } from 'node:net'
import type { CellProcessExit, LaunchedProcess } from '../cell/launch.ts'
import { parseFailure, type TurnFailure } from '../core/turns/turn-failures.ts'
import type { Clock } from '../lib/clock.ts'
import { tryParseJson } from '../lib/text/json.ts'
import { RunWatchdog } from './run-watchdog.ts'
import { type AgentRunResult, type Job, RunFault } from './runtime.ts'
import { TextLineSplitter } from './text-line-splitter.ts'
import { TurnLog } from './turn-log.ts'

/** What an agent prints when it is done: how it went. */
export interface AgentOutcome extends AgentRunResult {
  readonly fault?:
    | { readonly kind: RunFault['kind']; readonly message: string; readonly failure?: TurnFailure }
    | undefined
}

interface Running {
  readonly log: TurnLog
  readonly watch: RunWatchdog
  done(outcome: AgentOutcome): void
  /** The process has ended. */
  gone(ended: CellProcessExit): void
}

export class WarmChild {
  readonly #launched: LaunchedProcess
  readonly #clock: Clock
  #running: Running | undefined
  #lastError = ''
  isGone = false

  constructor(launched: LaunchedProcess, clock: Clock) {
    this.#launched = launched
    this.#clock = clock
    const { child, ended } = launched
    const lines = new TextLineSplitter((line) => this.#onLine(line))
    child.stdout?.setEncoding('utf8').on('data', (text: string) => lines.push(text))
    child.stderr?.on('data', (chunk: Uint8Array) => this.#onError(chunk))
    // Once, and not for each job: a promise keeps what waits for it.
    void ended.then((how) => {
      this.isGone = true
      this.#running?.gone(how)
    })
    this.#hold(false)
  }

  /** Resolves when the process is gone. */
  get ended(): Promise<unknown> {
    return this.#launched.ended
  }

  /** After a fault the process may be gone; `isGone` says. */
  async run(job: Job, line: object): Promise<AgentRunResult> {
    this.#hold(true)
    this.#lastError = ''
    const log = new TurnLog(job.logFile)
    const { promise, resolve, reject } = Promise.withResolvers<AgentOutcome>()
    let killedFor: RunFault | undefined
    const watch = new RunWatchdog(job, this.#clock, (fault) => {
      killedFor = fault
      void this.stop()
    })
    const gone = ({ error, signal, code }: CellProcessExit): void => {
      const how = error?.message ?? signal ?? `exit code ${code}`
      reject(killedFor ?? new RunFault('again', `its process ended before it was done (${this.#lastError || how})`))
    }
    this.#running = { log, watch, done: resolve, gone }
    if (this.isGone) void this.#launched.ended.then(gone)
    try {
      this.#launched.child.stdin?.write(`${JSON.stringify(line)}\n`)
      const { fault, ...ran } = await promise
      if (fault) throw new RunFault(fault.kind, fault.message, ran.models, parseFailure(fault.failure))
      return ran
    } finally {
      watch.close()
      this.#running = undefined
      await log.close()
      if (this.isGone) await this.#launched.ended
      else this.#hold(false)
    }
  }

  async stop(): Promise<void> {
    this.isGone = true
    await this.#launched.stop()
  }

  #onLine(line: string): void {
    const running = this.#running
    if (!running) return
    running.watch.recordActivity()
    const outcome = readOutcome(line)
    if (outcome) running.done(outcome)
    else running.log.write(Buffer.from(`${line}\n`))
  }

  #onError(chunk: Uint8Array): void {
    this.#running?.watch.recordActivity()
    this.#running?.log.write(chunk)
    this.#lastError = Buffer.from(chunk).toString('utf8').trim().split('\n').at(-1)?.slice(0, 500) ?? ''
  }

  /** A child that only waits keeps no process running. */
  #hold(isHeld: boolean): void {
    const { child } = this.#launched
    for (const handle of [child, ...child.stdio] as (Partial<Socket> | null)[]) {
      // A pipe that is closed would wait for its next connection, with one more listener each time.
      if (handle?.destroyed) continue
      if (isHeld) handle?.ref?.()
      else handle?.unref?.()
    }
  }
}

export function readOutcome(line: string): AgentOutcome | undefined {
  const read = tryParseJson(line)
  return typeof read === 'object' && read !== null && 'outcome' in read ? (read.outcome as AgentOutcome) : undefined
}
