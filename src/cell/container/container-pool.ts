// Containers that wait for the next run with the same mounts.
import { type FaultHandler, guard } from '../../lib/fault-boundary.ts'

export interface PooledContainer {
  /** False when it has ended or must not be used again. */
  readonly isUsable: boolean
  /** Resolves when nothing of the last run is left, with whether another one may follow. */
  awaitClean(): Promise<boolean>
  remove(): Promise<void>
  /** Whether it keeps svc running. */
  setRef(isReferenced: boolean): void
}

/** Bounds the memory of idle containers: each has a process of the engine besides its own. */
const IDLE_MAX = 16

interface IdleContainer<T> {
  readonly key: string
  readonly container: T
  /** Whether nothing of the last run is left. */
  readonly isClean: Promise<boolean>
  readonly timer: NodeJS.Timeout
}

export class ContainerPool<T extends PooledContainer> {
  readonly #idleMs: number
  /** Oldest first. */
  readonly #idle = new Set<IdleContainer<T>>()
  readonly #onError: FaultHandler
  #isClosed = false

  /** `idleMs` 0: each container is removed after its run. `onError` gets the exceptions of removals. */
  constructor(idleMs: number, onError: FaultHandler) {
    this.#idleMs = idleMs
    this.#onError = onError
  }

  /** The container that was used last with this key. */
  async take(key: string): Promise<T | undefined> {
    for (const idle of [...this.#idle].reverse()) {
      if (idle.key !== key) continue
      this.#idle.delete(idle)
      clearTimeout(idle.timer)
      const isClean = await idle.isClean
      if (isClean && idle.container.isUsable) {
        idle.container.setRef(true)
        return idle.container
      }
      idle.container.remove().catch(this.#onError)
    }
    return undefined
  }

  /** Called when the run has ended. */
  park(key: string, container: T): void {
    if (this.#isClosed || this.#idleMs === 0 || !container.isUsable) {
      container.remove().catch(this.#onError)
      return
    }
    container.setRef(false)
    const drop = guard(this.#onError, () => this.#drop(idle))
    const timer = setTimeout(drop, Math.min(this.#idleMs, TIMER_MAX_MS)).unref()
    const isClean = container.awaitClean()
    const idle: IdleContainer<T> = { key, container, isClean, timer }
    this.#idle.add(idle)
    isClean
      .then((clean) => {
        if (!clean && this.#idle.has(idle)) this.#drop(idle)
      })
      .catch(this.#onError)
    const [oldest] = this.#idle
    if (this.#idle.size > IDLE_MAX && oldest) this.#drop(oldest)
  }

  /** Removes all that wait. */
  clear(): void {
    for (const idle of [...this.#idle]) this.#drop(idle)
  }

  close(): void {
    this.#isClosed = true
    this.clear()
  }

  #drop(idle: IdleContainer<T>): void {
    this.#idle.delete(idle)
    clearTimeout(idle.timer)
    idle.container.remove().catch(this.#onError)
  }
}

/** The longest delay of a Node timer. */
const TIMER_MAX_MS = 2 ** 31 - 1
