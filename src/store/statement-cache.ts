// Statements by the words of their shape: each is written once, and found again without a text being put together for it.

interface Entry {
  sql?: string
  readonly next: Map<string, Entry>
}

export class StatementCache {
  readonly #first: Entry = { next: new Map() }

  getOrCreate(shape: readonly string[], write: () => string): string {
    let at = this.#first
    for (const word of shape) {
      let next = at.next.get(word)
      if (!next) {
        next = { next: new Map() }
        at.next.set(word, next)
      }
      at = next
    }
    at.sql ??= write()
    return at.sql
  }
}
