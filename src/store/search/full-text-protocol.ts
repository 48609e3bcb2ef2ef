// The messages between a full-text index, its writer thread and its search processes.

export interface IndexedDocument {
  readonly key: number
  readonly content: Uint8Array
  readonly name: string
  readonly place: string
  readonly path: string | null
  readonly author: string
  readonly at: string
}

/** One atomic update. It is applied only if the index is still at the mark `from`: other processes update it too. */
export interface IndexUpdate {
  readonly from: string
  readonly to: string
  readonly added: readonly IndexedDocument[]
  /** Replace the documents with the same keys. */
  readonly changed: readonly IndexedDocument[]
  readonly moved: readonly { readonly key: number; readonly path: string | null }[]
  readonly removed: readonly number[]
}

export interface FullTextQuery {
  /** The mark that the index must have. */
  readonly mark: string
  readonly query: string
  readonly limit: number
  readonly place?: string | undefined
  readonly author?: string | undefined
  readonly since?: string | undefined
  /** For each of these lists, the path of a document must be one of its paths or below one. */
  readonly within: readonly (readonly string[])[]
  /** Paths whose documents are left out. */
  readonly except: readonly string[]
}

export interface FullTextHit extends Omit<IndexedDocument, 'content'> {
  readonly snippet: string
  readonly rank: number
}

/** A command to the writer thread. */
export type IndexCommand =
  | { readonly kind: 'mark' }
  | { readonly kind: 'reset' }
  | { readonly kind: 'update'; readonly update: IndexUpdate }
  | { readonly kind: 'replace'; readonly damagedInode: number | undefined }
  | { readonly kind: 'close' }

/** `mark` is how far the index is filled; it is empty in a new index. */
export type IndexReply = { readonly mark: string } | { readonly error: string }

/** The reply of a search process; `mark` if the index is at another mark than the query. */
export type FullTextReply =
  | IndexReply
  | { readonly hits: readonly FullTextHit[] }
  | { readonly queryError: string }
  /** The query is invalid: the message of FTS5. */
  | { readonly syntaxError: string }
  /** The file is damaged, or missing if undefined. */
  | { readonly damagedInode?: number | undefined }
