// Notifies subscribers in this process that something was committed. Only a hint: subscribers read the store.
import { type FaultHandler, throwUncaught } from './fault-boundary.ts'

/** The worker that has something to do: the router, the turn runner, or the outbox sender. */
export const WORK_KINDS = ['arrivals', 'turns', 'outbox'] as const
export type WorkKind = (typeof WORK_KINDS)[number]

/** `keys` lists what can be read now (absent: anything). `work` is empty if no worker has to act. */
export type SignalListener = (keys: readonly string[] | undefined, work: readonly WorkKind[]) => void

export class CommitSignals {
  readonly #listeners = new Set<SignalListener>()
  readonly #onFault: FaultHandler

  /** `onFault` gets the exceptions of listeners; the others are notified anyway. */
  constructor(onFault: FaultHandler = throwUncaught) {
    this.#onFault = onFault
  }

  on(listener: SignalListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Absent keys concern every reader, an empty list none. */
  emit(keys?: readonly string[], work: readonly WorkKind[] = WORK_KINDS): void {
    for (const listener of this.#listeners) {
      try {
        listener(keys, work)
      } catch (error) {
        this.#onFault(error)
      }
    }
  }
}
