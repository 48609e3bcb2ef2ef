// Full-text search over what was said: the port. The index is derived from the store, made anew where it is lost, and the
// same on every engine.
import type { CommitSignals } from '../../lib/commit-signals.ts'

export interface SearchRequest {
  /** FTS5 syntax: word, "a phrase", a OR b, a NOT b, prefix*, NEAR(a b, 5). */
  readonly query: string
  readonly jid?: string | undefined
  /** This folder and what lies below it. */
  readonly below?: string | undefined
  readonly sender?: string | undefined
  /** RFC 3339, inclusive. */
  readonly since?: string | undefined
  readonly limit: number
  /** Folders, with what lies below each, that the caller may see; nothing where that is everything. */
  readonly reach?: readonly string[] | undefined
  /** Folders that a row takes away again. */
  readonly except?: readonly string[] | undefined
}

export interface SearchHit {
  readonly id: string
  readonly chat_jid: string
  readonly sender: string
  readonly timestamp: string
  /** A snippet with « and » around the hit. */
  readonly content: string
  /** Lower is better. */
  readonly rank: number
  /** Whose it is; nothing where nobody has it, or not yet. */
  readonly folder: string | undefined
}

export interface SearchIndex {
  /** Everything that was committed before is found. A query that the engine does not understand is a refusal with its words. */
  search(ask: SearchRequest): Promise<SearchHit[]>
  /** From now on it keeps up by itself, a little at a time, so that nobody waits for it. */
  follow(signals: CommitSignals): void
  close(): Promise<void>
}
