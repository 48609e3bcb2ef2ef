// Notifies subscribers in this process that something was committed. Only a hint: subscribers read the store.
import { type FaultHandler, throwUncaught } from './fault-boundary.ts'

/** The worker that has something to do: the router, the turn runner, or the outbox sender. */
export const WORK_KINDS = ['arrivals', 'turns', 'outbox'] as const
export type WorkKind = (typeof WORK_KINDS)[number]

/** Calls listeners in this process; the exception of one keeps the event from no other. */
export class Signals<Event extends readonly unknown[]> {
  readonly #listeners = new Set<(...event: Event) => void>()
  readonly #onFault: FaultHandler

  /** `onFault` gets the exceptions of listeners. */
  constructor(onFault: FaultHandler = throwUncaught) {
    this.#onFault = onFault
  }

  on(listener: (...event: Event) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  emit(...event: Event): void {
    for (const listener of this.#listeners) {
      try {
        listener(...event)
      } catch (error) {
        this.#onFault(error)
      }
    }
  }
}

/** `keys` lists what can be read now (undefined: anything). `work` is empty if no worker has to act. */
export class CommitSignals extends Signals<[keys: readonly string[] | undefined, work: readonly WorkKind[]]> {
  /** Absent keys concern every reader, an empty list none. */
  override emit(keys?: readonly string[], work: readonly WorkKind[] = WORK_KINDS): void {
    super.emit(keys, work)
  }
}
