// Pool of pipes for splicing bytes from one connection to another. A tunnel holds a pipe only while bytes are in it, so idle
// tunnels need none.
import type { FileBudget } from './file-budget.ts'
import { F_SETPIPE_SZ, type Kernel, SOCK_CLOEXEC, SOCK_NONBLOCK } from './kernel.ts'

export interface Pipe {
  readonly from: number
  readonly to: number
}

/** Buffered for a tunnel whose reader has stopped; a larger pipe is not faster. The kernel may grant less. */
const PIPE_BYTES = 262_144
const SPARE_MAX = 64

export class Pipes {
  readonly #kernel: Kernel
  readonly #budget: FileBudget
  readonly #spare: Pipe[] = []
  readonly #ends = new Int32Array(2)
  readonly #endsAt: bigint

  constructor(kernel: Kernel, budget: FileBudget) {
    this.#kernel = kernel
    this.#budget = budget
    this.#endsAt = kernel.pointerTo(new Uint8Array(this.#ends.buffer))
  }

  /** Undefined when no more files can be opened: the caller copies bytes instead. */
  take(): Pipe | undefined {
    const spare = this.#spare.pop()
    if (spare) return spare
    if (!this.#budget.hasRoomForPipe) return undefined
    if (this.#kernel.pipe2(this.#endsAt, SOCK_NONBLOCK | SOCK_CLOEXEC) !== 0) return undefined
    this.#budget.take(2)
    const [from = -1, to = -1] = this.#ends
    this.#kernel.fcntl(to, F_SETPIPE_SZ, PIPE_BYTES)
    return { from, to }
  }

  /** Returns an empty pipe to the pool. */
  give(pipe: Pipe): void {
    if (this.#spare.length < SPARE_MAX) this.#spare.push(pipe)
    else this.drop(pipe)
  }

  drop({ from, to }: Pipe): void {
    this.#kernel.close(from)
    this.#kernel.close(to)
    this.#budget.give(2)
  }

  /** Closes the spare pipes. */
  close(): void {
    for (const pipe of this.#spare.splice(0)) this.drop(pipe)
  }
}
