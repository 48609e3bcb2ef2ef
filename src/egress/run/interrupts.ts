// The signals that ask a run to end. The first is passed on, and waited for; with the second nobody waits any longer.
import { constants } from 'node:os'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const

export type Signal = (typeof SIGNALS)[number]

/** Thrown where a run has been asked to end before its workload started. */
export class Interrupted extends Error {
  readonly code: number

  constructor(signal: Signal) {
    super(`interrupted by ${signal}`)
    this.code = codeOf(signal)
  }
}

export class Interrupts {
  /** The exit code of a run that was given up. */
  readonly second: Promise<number>
  readonly #giveUp: (code: number) => void
  readonly #heard = (signal: NodeJS.Signals): void => this.#hear(signal)
  #first: Signal | undefined
  #listener: ((signal: Signal) => void) | undefined

  /** Listens from now on. */
  constructor() {
    const { promise, resolve } = Promise.withResolvers<number>()
    this.second = promise
    this.#giveUp = resolve
    for (const signal of SIGNALS) process.on(signal, this.#heard)
  }

  /** Throws if a signal has come. */
  check(): void {
    if (this.#first) throw new Interrupted(this.#first)
  }

  /** Told of the first signal, also when it has come already. */
  onFirst(listener: (signal: Signal) => void): void {
    this.#listener = listener
    if (this.#first) listener(this.#first)
  }

  close(): void {
    for (const signal of SIGNALS) process.off(signal, this.#heard)
  }

  #hear(name: NodeJS.Signals): void {
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
