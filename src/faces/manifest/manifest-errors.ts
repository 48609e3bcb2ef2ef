// Collects the errors of a manifest with their lines, so that one refusal reports all of them.
import { refuse } from '../../lib/refusal.ts'

const SHOWN_MAX = 100

export class ManifestErrors {
  readonly #errors: { line: number; text: string }[] = []

  get isEmpty(): boolean {
    return this.#errors.length === 0
  }

  add(line: number, text: string): void {
    this.#errors.push({ line, text })
  }

  /** Refuses with all errors, sorted by line. */
  throwIfAny(): void {
    if (this.isEmpty) return
    const lines = this.#errors.sort((a, b) => a.line - b.line).map(({ line, text }) => `line ${line}: ${text}`)
    const more = lines.length > SHOWN_MAX ? [`and ${lines.length - SHOWN_MAX} more`] : []
    const all = [...lines.slice(0, SHOWN_MAX), ...more].join('\n')
    refuse(
      'invalid',
      lines.length === 1 ? all : `the manifest has ${lines.length} errors\n${all}`,
      'nothing was changed',
    )
  }
}
