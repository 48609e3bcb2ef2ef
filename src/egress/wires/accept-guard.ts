// Frees the epoll thread from a blocked accept. A process that handed its listener over may keep a copy, and a copy shares the
// non-blocking flag: the process can clear it and take the pending connection first, and then accept waits for the next one.
// The main thread notices and shuts the listener down, which makes accept fail.
import { SHUT_RDWR } from './kernel.ts'

const STATE = 0
const FD = 1
const COUNT = 2
const WORDS = 3

const IDLE = 0
const ACCEPTING = 1
/** The main thread uses the descriptor: it must not be closed meanwhile. */
const FREEING = 2
/** No further accept may begin. */
const CLOSED = 3

/** How often the main thread looks. A blocked accept lasts at most twice as long. */
const LOOK_MS = 250

export function createGuardWords(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(4 * WORDS))
}

/** In the epoll thread. */
export class AcceptGuard {
  readonly #words: Int32Array

  constructor(words: Int32Array) {
    this.#words = words
  }

  /** False when the process is about to end: then nothing may be accepted. */
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

/** In the main thread. */
export class AcceptWatchdog {
  readonly #words: Int32Array
  readonly #shutdown: Shutdown
  #timer: NodeJS.Timeout | undefined
  #seen = 0

  constructor(words: Int32Array, shutdown: Shutdown) {
    this.#words = words
    this.#shutdown = shutdown
  }

  start(): void {
    this.#timer ??= setInterval(() => this.look(), LOOK_MS).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  /** Ends an accept that has not returned since the last look. */
  look(): void {
    const count = Atomics.load(this.#words, COUNT)
    const isStuck = count === this.#seen && Atomics.load(this.#words, STATE) === ACCEPTING
    this.#seen = count
    if (!isStuck || Atomics.compareExchange(this.#words, STATE, ACCEPTING, FREEING) !== ACCEPTING) return
    // Another accept may have begun just before.
    if (Atomics.load(this.#words, COUNT) === count) this.#shutdown(Atomics.load(this.#words, FD), SHUT_RDWR)
    Atomics.store(this.#words, STATE, IDLE)
    Atomics.notify(this.#words, STATE)
  }

  /** For the end of the process, which waits for the epoll thread. */
  close(): void {
    this.stop()
    if (Atomics.exchange(this.#words, STATE, CLOSED) === ACCEPTING)
      this.#shutdown(Atomics.load(this.#words, FD), SHUT_RDWR)
  }
}
