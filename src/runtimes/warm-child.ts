// A process that waits for jobs: one line of JSON in, one line of JSON out. It is started ahead, so that no message waits
// until a program has loaded.
import type { Socket } from 'node:net'
import type { Launched } from '../cell/launch.ts'
import { type Failure, knownFailure } from '../core/failures.ts'
import type { Clock } from '../lib/clock.ts'
import { tryJson } from '../lib/json.ts'
import { Lines } from './lines.ts'
import { type Job, type Ran, RunFault } from './runtime.ts'
import { TurnLog } from './turn-log.ts'
import { Watch } from './watch.ts'

/** What an agent prints when it is done: how it went. */
export interface Outcome extends Ran {
  readonly fault?: { readonly kind: RunFault['kind']; readonly message: string; readonly failure?: Failure } | undefined
}

interface Running {
  readonly log: TurnLog
  readonly watch: Watch
  done(outcome: Outcome): void
}

export class WarmChild {
  readonly #launched: Launched
  readonly #clock: Clock
  #running: Running | undefined
  #lastError = ''
  isGone = false

  constructor(launched: Launched, clock: Clock) {
    this.#launched = launched
    this.#clock = clock
    const { child, ended } = launched
    const lines = new Lines((line) => this.#onLine(line))
    child.stdout?.setEncoding('utf8').on('data', (text: string) => lines.push(text))
    child.stderr?.on('data', (chunk: Uint8Array) => this.#onError(chunk))
    void ended.then(() => {
      this.isGone = true
    })
    this.#hold(false)
  }

  /** Resolves when the process is gone. */
  get ended(): Promise<unknown> {
    return this.#launched.ended
  }

  /** After a fault the process may be gone; `isGone` says. */
  async run(job: Job, line: object): Promise<Ran> {
    this.#hold(true)
    this.#lastError = ''
    const log = new TurnLog(job.logFile)
    const { promise, resolve, reject } = Promise.withResolvers<Outcome>()
    let killedFor: RunFault | undefined
    const watch = new Watch(job, this.#clock, (fault) => {
      killedFor = fault
      void this.stop()
    })
    this.#running = { log, watch, done: resolve }
    const onGone = this.#launched.ended.then((ended) => {
      if (this.#running?.log !== log) return
      this.isGone = true
      const how = ended.error?.message ?? ended.signal ?? `exit code ${ended.code}`
      reject(killedFor ?? new RunFault('again', `its process ended before it was done (${this.#lastError || how})`))
    })
    try {
      this.#launched.child.stdin?.write(`${JSON.stringify(line)}\n`)
      const { fault, ...ran } = await promise
      if (fault) throw new RunFault(fault.kind, fault.message, ran.models, knownFailure(fault.failure))
      return ran
    } finally {
      watch.close()
      this.#running = undefined
      await log.close()
      if (this.isGone) await onGone
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
    running.watch.alive()
    const outcome = readOutcome(line)
    if (outcome) running.done(outcome)
    else running.log.write(Buffer.from(`${line}\n`))
  }

  #onError(chunk: Uint8Array): void {
    this.#running?.watch.alive()
    this.#running?.log.write(chunk)
    this.#lastError = Buffer.from(chunk).toString('utf8').trim().split('\n').at(-1)?.slice(0, 500) ?? ''
  }

  /** A child that only waits keeps no process running. */
  #hold(isHeld: boolean): void {
    const { child } = this.#launched
    for (const handle of [child, ...child.stdio] as (Pick<Socket, 'ref' | 'unref'> | null)[]) {
      if (isHeld) handle?.ref?.()
      else handle?.unref?.()
    }
  }
}

export function readOutcome(line: string): Outcome | undefined {
  const read = tryJson(line)
  return typeof read === 'object' && read !== null && 'outcome' in read ? (read.outcome as Outcome) : undefined
}
