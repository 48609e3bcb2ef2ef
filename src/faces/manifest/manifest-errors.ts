// What is wrong with a manifest: gathered with its lines and said all at once, so that nobody mends a file error by error.
import { refuse } from '../../lib/refusal.ts'

/** More than anyone reads in one go. */
const SHOWN = 100

export class ManifestErrors {
  readonly #found: { line: number; text: string }[] = []

  get isEmpty(): boolean {
    return this.#found.length === 0
  }

  add(line: number, text: string): void {
    this.#found.push({ line, text })
  }

  /** Returns when there are none; otherwise refuses with every one of them, in the order of the file. */
  throwIfAny(): void {
    if (this.isEmpty) return
    const lines = this.#found.sort((a, b) => a.line - b.line).map(({ line, text }) => `line ${line}: ${text}`)
    const more = lines.length > SHOWN ? [`and ${lines.length - SHOWN} more`] : []
    const all = [...lines.slice(0, SHOWN), ...more].join('\n')
    refuse(
      'invalid',
      lines.length === 1 ? all : `the manifest has ${lines.length} faults\n${all}`,
      'nothing was changed',
    )
  }
}
