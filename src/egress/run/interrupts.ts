// Termination signals of a run. The first is forwarded to the workload; the second ends the run at once.
import { constants } from 'node:os'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const

export type Signal = (typeof SIGNALS)[number]

/** A signal arrived before the workload started. */
export class Interrupted extends Error {
  readonly code: number

  constructor(signal: Signal) {
    super(`interrupted by ${signal}`)
    this.code = codeOf(signal)
  }
}

export class Interrupts {
  /** The exit code of an interrupted run. */
  readonly forcedExit: Promise<number>
  readonly #giveUp: (code: number) => void
  readonly #handler = (signal: NodeJS.Signals): void => this.#receive(signal)
  #first: Signal | undefined
  #listener: ((signal: Signal) => void) | undefined

  /** Listens from now on. */
  constructor() {
    const { promise, resolve } = Promise.withResolvers<number>()
    this.forcedExit = promise
    this.#giveUp = resolve
    for (const signal of SIGNALS) process.on(signal, this.#handler)
  }

  /** Throws if a signal has arrived. */
  check(): void {
    if (this.#first) throw new Interrupted(this.#first)
  }

  /** Calls back on the first signal, also if it has already arrived. */
  onFirst(listener: (signal: Signal) => void): void {
    this.#listener = listener
    if (this.#first) listener(this.#first)
  }

  close(): void {
    for (const signal of SIGNALS) process.off(signal, this.#handler)
  }

  #receive(name: NodeJS.Signals): void {
    const signal = SIGNALS.find((each) => each === name)
    if (!signal) return
    if (this.#first) {
      this.#giveUp(codeOf(signal))
      return
    }
    this.#first = signal
    this.#listener?.(signal)
  }
}

/** As a shell reports it. */
function codeOf(signal: Signal): number {
  return 128 + constants.signals[signal]
}
