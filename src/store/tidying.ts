// When the work behind the answers is done: at once while nobody waits, and in larger pieces under load.
import type { Dialect, Tx } from './engine.ts'
import type { Tidied, Work } from './lane.ts'

/** So much work behind the answers, or work that has waited so long, is not put off any longer. */
const DUE_ITEMS = 50_000
const DUE_MS = 2000
/** A few items are tidied after the first pause; many wait for a longer one, because together they cost less. */
const FEW = 64
const PAUSE_MS = 1
const LONG_PAUSE_MS = 20
const AGAIN_MS = 1000

export class Tidying {
  readonly #tidy: () => Promise<Tidied>
  readonly #tell: (tidied: Tidied) => void
  #items = 0
  /** When the first of them came. */
  #since = 0
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #isOver = false

  constructor(tidy: () => Promise<Tidied>, tell: (tidied: Tidied) => void) {
    this.#tidy = tidy
    this.#tell = tell
    // What an earlier process left.
    this.#soon(PAUSE_MS)
  }

  /** So many items were written; `isUrgent`: somebody waits for what comes of it. */
  note(items: number, isUrgent = false): void {
    const now = performance.now()
    if (this.#items === 0) this.#since = now
    this.#items += items
    if (this.#items >= DUE_ITEMS || now - this.#since >= DUE_MS) this.#start()
    else this.#soon(isUrgent || this.#items < FEW ? PAUSE_MS : LONG_PAUSE_MS)
  }

  /** Whether so many may be tidied in the commit that they are written by: somebody waits for it, and nothing else is left. */
  isAtOnce(items: number, isUrgent: boolean): boolean {
    return isUrgent && items < FEW && this.#items === 0 && !this.#timer && !this.#running
  }

  /** They were, and there was more of it. */
  goOn(): void {
    this.#soon(0)
  }

  /** Resolved when nothing runs any more; what is left is the next process's. */
  async close(): Promise<void> {
    this.#isOver = true
    clearTimeout(this.#timer)
    await this.#running
  }

  #soon(ms: number): void {
    clearTimeout(this.#timer)
    if (!this.#isOver) this.#timer = setTimeout(() => this.#start(), ms)
  }

  #start(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#isOver || this.#running) return
    this.#items = 0
    this.#running = this.#run()
  }

  async #run(): Promise<void> {
    let next: number | undefined
    try {
      const tidied = await this.#tidy()
      this.#tell(tidied)
      if (tidied.isMore) next = 0
    } catch {
      // Whoever writes is told what is wrong with the store; this only comes after.
      next = AGAIN_MS
    }
    this.#running = undefined
    if (next !== undefined) this.#soon(next)
    else if (this.#items > 0) this.#soon(PAUSE_MS)
  }
}

export interface Batch<I, O> {
  readonly work: Work<I, O>
  readonly items: readonly I[]
  readonly dialect: Dialect
  /** In a transaction of its own. */
  write<T>(run: (tx: Tx) => Promise<T>): Promise<T>
}

export interface Written<O> {
  readonly answers: readonly O[]
  /** What was tidied with it; whoever listens is yet to be told. */
  readonly tidied?: Tidied
}

/** A batch, and what is behind its answers where somebody waits for that. */
export async function writeBatch<I, O>(tidying: Tidying, batch: Batch<I, O>): Promise<Written<O>> {
  const { work, items, dialect, write } = batch
  const isUrgent = items.some(work.isUrgent)
  const written = tidying.isAtOnce(items.length, isUrgent) ? await writeTidily(batch) : undefined
  if (written?.tidied?.isMore) tidying.goOn()
  if (written) return written
  const answers = await write((tx) => work.run(tx, dialect, items))
  tidying.note(items.length, isUrgent)
  return { answers }
}

/** Nothing where it was the tidying that failed. Whatever else fails is told: after a commit nobody knows whether it was one. */
async function writeTidily<I, O>({ work, items, dialect, write }: Batch<I, O>): Promise<Written<O> | undefined> {
  let isTidying = false
  try {
    return await write(async (tx) => {
      isTidying = false
      const answers = await work.run(tx, dialect, items)
      isTidying = true
      const tidied = await work.tidy(tx, dialect)
      isTidying = false
      return { answers, tidied }
    })
  } catch (error) {
    if (!isTidying) throw error
    return undefined
  }
}
