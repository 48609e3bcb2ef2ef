// Unblocks the epoll thread from a blocking accept. A process that handed its listener over may keep a copy, and a copy shares
// the non-blocking flag: the process can clear it and accept the pending connection first, so that our accept blocks.
// The main thread detects this and shuts the listener down, which makes accept fail.
import { type FaultHandler, guard } from '../../lib/fault-boundary.ts'
import { SHUT_RDWR } from './kernel.ts'

const STATE = 0
const FD = 1
const COUNT = 2
const WORDS = 3

const IDLE = 0
const ACCEPTING = 1
/** The main thread uses the descriptor, so it must not be closed yet. */
const FREEING = 2
/** The process is exiting: no further accept may start. */
const CLOSED = 3

/** A blocked accept lasts at most twice as long. */
const CHECK_MS = 250

export function createGuardWords(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(4 * WORDS))
}

/** Used by the epoll thread around each accept. */
export class AcceptGuard {
  readonly #words: Int32Array

  constructor(words: Int32Array) {
    this.#words = words
  }

  /** Returns false when the process is exiting: do not accept then. */
  enter(fd: number): boolean {
    Atomics.store(this.#words, FD, fd)
    Atomics.add(this.#words, COUNT, 1)
    return Atomics.compareExchange(this.#words, STATE, IDLE, ACCEPTING) === IDLE
  }

  leave(): void {
    while (Atomics.compareExchange(this.#words, STATE, ACCEPTING, IDLE) === FREEING)
      Atomics.wait(this.#words, STATE, FREEING)
  }
}

type Shutdown = (fd: number, how: number) => number

/** Used by the main thread. */
export class AcceptWatchdog {
  readonly #words: Int32Array
  readonly #shutdown: Shutdown
  readonly #onFault: FaultHandler
  #timer: NodeJS.Timeout | undefined
  #lastCount = 0

  constructor(words: Int32Array, shutdown: Shutdown, onFault: FaultHandler) {
    this.#words = words
    this.#shutdown = shutdown
    this.#onFault = onFault
  }

  start(): void {
    this.#timer ??= setInterval(
      guard(this.#onFault, () => this.check()),
      CHECK_MS,
    ).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Interrupts an accept that has not returned since the last check. */
  check(): void {
    const count = Atomics.load(this.#words, COUNT)
    const isStuck = count === this.#lastCount && Atomics.load(this.#words, STATE) === ACCEPTING
    this.#lastCount = count
    if (!isStuck || Atomics.compareExchange(this.#words, STATE, ACCEPTING, FREEING) !== ACCEPTING) return
    // Another accept may have started just now.
    if (Atomics.load(this.#words, COUNT) === count) this.#shutdown(Atomics.load(this.#words, FD), SHUT_RDWR)
    Atomics.store(this.#words, STATE, IDLE)
    Atomics.notify(this.#words, STATE)
  }

  /** Call when the process exits, because it waits for the epoll thread. */
  close(): void {
    this.stop()
    if (Atomics.exchange(this.#words, STATE, CLOSED) === ACCEPTING)
      this.#shutdown(Atomics.load(this.#words, FD), SHUT_RDWR)
  }
}
