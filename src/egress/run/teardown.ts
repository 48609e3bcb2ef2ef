// Removes what a run has created, in reverse order.
import type { OutputStream } from '../../lib/command-line/print.ts'
import type { Run } from '../container/engine-args.ts'
import type { CleanupWatcher } from './cleanup-watcher.ts'
import { removeRunResources } from './run-resources.ts'

/** Engines release a network a moment after its last container. */
const CHECKS = 3

export class Teardown {
  readonly #run: Run
  readonly #watch: CleanupWatcher
  readonly #stderr: OutputStream
  readonly #undos: (() => Promise<void>)[] = []
  #isSure = false

  constructor(run: Run, watch: CleanupWatcher, stderr: OutputStream) {
    this.#run = run
    this.#watch = watch
    this.#stderr = stderr
  }

  push(undo: () => Promise<void>): void {
    this.#undos.push(undo)
  }

  /** Everything created was pushed. Otherwise a failed call may have created something. */
  expectAll(): void {
    this.#isSure = true
  }

  /** Never throws. Reports resources that cannot be removed and leaves them to the cleanup watcher. */
  async finish(): Promise<void> {
    for (const undo of this.#undos.reverse()) {
      await undo().catch(() => {
        this.#isSure = false
      })
    }
    const left = this.#isSure ? [] : await this.#sweep()
    if (left.length === 0) return this.#watch.release()
    this.#stderr.write(`egress-proxy: not removed yet, retrying in the background: ${left.join(', ')}\n`)
    this.#watch.handOver()
  }

  /** Returns the resources that remain after all attempts. */
  async #sweep(): Promise<readonly string[]> {
    const { engine, tag } = this.#run
    let left: readonly string[] = []
    try {
      for (let looks = 0; looks < CHECKS; looks++) {
        left = await removeRunResources(engine, tag)
        if (left.length === 0) break
      }
      return left
    } catch (error) {
      return [`whatever ${engine.command} has of run ${tag} (${error instanceof Error ? error.message : error})`]
    }
  }
}
