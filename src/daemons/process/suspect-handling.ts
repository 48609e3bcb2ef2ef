// Handles suspects one at a time when a process starts: messages first, then tasks, then deliveries, so that a slow platform
// delays nothing else. Their ordinary work begins when this is over. See docs/decisions.md#rows-that-end-their-process.
import { setTimeout as pause } from 'node:timers/promises'
import { setAside } from '../../core/processes/set-aside.ts'
import { noteNextSuspect, type Suspect, type SuspectWork } from '../../core/processes/suspects.ts'
import { writeContextOf } from '../../core/turns/rounds.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'

const RETRY_MS = 1000
/** Reason of rows whose handling failed; operators find the cause in the log. */
export const INTERNAL_ERROR = 'internal error; see the log'

/** Handles one suspect. Calls `next` in its transaction, which removes the suspect, and returns the result. */
export type SuspectHandler = (
  suspect: Suspect,
  next: (tx: Tx) => Promise<Suspect | undefined>,
) => Promise<Suspect | undefined>

type QuickWork = Exclude<SuspectWork, 'delivery'>

interface Waiter {
  readonly handler: SuspectHandler
  resolve(isOver: boolean): void
}

export interface SuspectHandlingOptions {
  readonly host: Pick<InstanceHost, 'engine' | 'clock' | 'random' | 'faults' | 'signals'>
  /** Id of this process. */
  readonly process: string
  readonly stopping: AbortSignal
}

export class SuspectHandling {
  readonly process: string
  readonly #options: SuspectHandlingOptions
  readonly #waiters = new Map<QuickWork, Waiter>()
  readonly #over = Promise.withResolvers<boolean>()

  constructor(options: SuspectHandlingOptions) {
    this.#options = options
    this.process = options.process
  }

  /** Resolves when the suspects of this work are handled; false if the process stops instead. */
  handle(work: QuickWork, handler: SuspectHandler): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    this.#waiters.set(work, { handler, resolve })
    return promise
  }

  /** Resolves when the suspects of all other work are handled. */
  get isOver(): Promise<boolean> {
    return this.#over.promise
  }

  /** Called when all daemons have been opened. */
  async start(): Promise<void> {
    for (const work of ['routing', 'task'] as const) {
      const waiter = this.#waiters.get(work)
      if (!waiter) continue
      try {
        await this.#handleAll(work, waiter.handler)
      } catch (error) {
        // Ordinary work must not wait for ever.
        this.#options.host.faults.report('job', error)
      }
      waiter.resolve(!this.#options.stopping.aborted)
    }
    this.#over.resolve(!this.#options.stopping.aborted)
  }

  async #handleAll(work: QuickWork, handler: SuspectHandler): Promise<void> {
    const { engine } = this.#options.host
    const noteNext = (done?: Suspect) => (tx: Tx) => noteNextSuspect(tx, work, this.process, done)
    let suspect = await this.#retry(() => engine.transaction(noteNext()))
    while (suspect) {
      const current: Suspect = suspect
      suspect = await this.#retry(() => this.#handleOne(current, handler, noteNext(current)))
    }
  }

  async #handleOne(
    suspect: Suspect,
    handler: SuspectHandler,
    next: (tx: Tx) => Promise<Suspect | undefined>,
  ): Promise<Suspect | undefined> {
    const { host } = this.#options
    try {
      return await handler(suspect, next)
    } catch (error) {
      if (error instanceof Refusal) throw error
      host.faults.report('job', error)
      return host.engine.transaction(async (tx) => {
        const keys = await setAside(tx, writeContextOf(host), suspect, INTERNAL_ERROR)
        tx.onCommit(() => host.signals.emit(keys))
        return next(tx)
      })
    }
  }

  /** While the store refuses, nothing is handled. Undefined if the process stops. */
  async #retry<T>(attempt: () => Promise<T>): Promise<T | undefined> {
    const { stopping } = this.#options
    while (!stopping.aborted) {
      try {
        return await attempt()
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        await pause(RETRY_MS, undefined, { ref: false, signal: stopping }).catch(() => undefined)
      }
    }
    return undefined
  }
}
