// Limits the descriptors that the transport opens. The rest of the process needs some too: without any left, the admin
// listener resets its clients and DNS lookups fail.

/** Pipes are an optimisation, so the last part of the budget is for connections only. */
const PIPES_PART = 3 / 4

export class FileBudget {
  readonly #max: number
  #open = 0

  constructor(max: number = Number.POSITIVE_INFINITY) {
    this.#max = max
  }

  get hasRoom(): boolean {
    return this.#open < this.#max
  }

  get hasRoomForPipe(): boolean {
    return this.#open + 2 <= this.#max * PIPES_PART
  }

  take(count: number): void {
    this.#open += count
  }

  give(count: number): void {
    this.#open -= count
  }
}
