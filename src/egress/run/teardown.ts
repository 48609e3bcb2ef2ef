// Takes a run apart again, in the reverse of the order in which it was made.
import type { Out } from '../../lib/print.ts'
import type { Run } from './parts.ts'
import { removeRemains } from './remains.ts'
import type { Watch } from './watch.ts'

/** A network is let go of a moment after its last container. */
const LOOKS = 3

export class Teardown {
  readonly #run: Run
  readonly #watch: Watch
  readonly #stderr: Out
  readonly #undos: (() => Promise<void>)[] = []
  #isSure = false

  constructor(run: Run, watch: Watch, stderr: Out) {
    this.#run = run
    this.#watch = watch
    this.#stderr = stderr
  }

  push(undo: () => Promise<void>): void {
    this.#undos.push(undo)
  }

  /** What was pushed is all that was made; without that, something may have been made by a call that failed. */
  expectAll(): void {
    this.#isSure = true
  }

  /** Never throws. What cannot be removed now is told, and left to the watch. */
  async finish(): Promise<void> {
    for (const undo of this.#undos.reverse()) {
      await undo().catch(() => {
        this.#isSure = false
      })
    }
    const left = this.#isSure ? [] : await this.#sweep()
    if (left.length === 0) return this.#watch.release()
    this.#stderr.write(`egress-proxy: still there, and tried again in the background: ${left.join(', ')}\n`)
    this.#watch.handOver()
  }

  /** What is there after all has been tried. */
  async #sweep(): Promise<readonly string[]> {
    const { engine, tag } = this.#run
    let left: readonly string[] = []
    try {
      for (let looks = 0; looks < LOOKS; looks++) {
        left = await removeRemains(engine, tag)
        if (left.length === 0) break
      }
      return left
    } catch (error) {
      return [`whatever ${engine.command} has of run ${tag} (${error instanceof Error ? error.message : error})`]
    }
  }
}
