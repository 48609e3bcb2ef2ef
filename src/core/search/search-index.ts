// Interface of the full-text search over messages. The index is derived from the store, rebuilt if it is lost, and the same
// for every engine.
import type { CommitSignals } from '../../lib/commit-signals.ts'

export interface SearchRequest {
  /** FTS5 syntax: word, "a phrase", a OR b, a NOT b, prefix*, NEAR(a b, 5). */
  readonly query: string
  readonly jid?: string | undefined
  /** This folder and its children. */
  readonly below?: string | undefined
  readonly sender?: string | undefined
  /** RFC 3339, inclusive. */
  readonly since?: string | undefined
  readonly limit: number
  /** The principal that searches: each waits in a queue of its own. */
  readonly requester?: string | undefined
  /** Folders, with their children, that the caller may read; absent: all. */
  readonly reach?: readonly string[] | undefined
  /** Folders that a deny rule excludes from `reach`. */
  readonly except?: readonly string[] | undefined
}

export interface SearchHit {
  readonly id: string
  readonly chat_jid: string
  readonly sender: string
  readonly timestamp: string
  /** A snippet with the hits in « and ». */
  readonly content: string
  /** Lower is better. */
  readonly rank: number
  /** Undefined if no folder handles it, or it is not routed yet. */
  readonly folder: string | undefined
}

export interface SearchIndex {
  /** Finds everything committed before the call. Throws a `QuerySyntaxRefusal` for a query with a syntax error. */
  search(request: SearchRequest): Promise<SearchHit[]>
  /** Updates the index in the background from now on, so that searches do not wait for it. */
  follow(signals: CommitSignals): void
  close(): Promise<void>
}
