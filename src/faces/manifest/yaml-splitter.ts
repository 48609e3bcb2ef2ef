// Cuts a manifest at its top-level keys, and lists of rows further into batches: each piece is parsed by itself, because the
// tree of a whole large manifest would not fit into memory. It cuts only where YAML itself must see a boundary: whatever
// belongs to a top-level key is indented, or is one of its rows, or closes its bracket.
import type { ManifestErrors } from './manifest-errors.ts'

/** A batch of rows ends at the first row beyond this many characters. */
const BATCH = 256 * 1024

/** A top-level key with nothing behind it: its rows may follow. */
const BARE_KEY = /^([A-Za-z0-9_]+): *(?:#.*)?\r?$/
const ROW = /^( *)-(?:[ \r]|$)/
const IDLE = /^ *(?:#.*)?\r?$/
const MARKER = /^(?:---|\.\.\.)(?:[ \r]|$)/
const CONTINUES = /^[ \]}-]/

export type ManifestChunk =
  /** What follows are the rows of this key, until another kind of chunk. */
  | { kind: 'list'; name: string; line: number }
  | { kind: 'rows'; text: string; line: number }
  /** A part of the root mapping. */
  | { kind: 'entries'; text: string; line: number }

interface OpenChunk {
  kind: 'rows' | 'entries'
  start: number
  line: number
  /** Of the dash of every row. */
  indent?: number | undefined
  /** The key of entries that may yet turn out to be rows. */
  bare?: string | undefined
}

export function* splitManifest(text: string, faults: ManifestErrors, batch = BATCH): Generator<ManifestChunk> {
  let open: OpenChunk | undefined
  let document: 'before' | 'inside' | 'after' = 'before'
  const close = (end: number): ManifestChunk[] =>
    open ? [{ kind: open.kind, text: text.slice(open.start, end), line: open.line }] : []

  for (const { start, line, content } of linesOf(text)) {
    if (IDLE.test(content)) continue
    const marker = MARKER.test(content) ? content.slice(0, 3) : ''
    if (document === 'after' || (document === 'inside' && marker === '---'))
      return faults.add(line, 'a second document begins: a manifest is one')
    if (content.startsWith('%')) return faults.add(line, 'a manifest has no directives')
    if (marker) {
      if (!IDLE.test(content.slice(3))) return faults.add(line, `nothing may follow ${marker} on its line`)
      yield* close(start)
      open = undefined
      document = marker === '---' ? 'inside' : 'after'
      continue
    }
    document = 'inside'
    // A root in brackets, indented, or a list: nothing to cut by.
    if (!open && /^[ {[-]/.test(content)) return yield { kind: 'entries', text: text.slice(start), line }
    if (!open || !CONTINUES.test(content)) {
      yield* close(start)
      open = { kind: 'entries', start, line, bare: BARE_KEY.exec(content)?.[1] }
      continue
    }
    const indent = ROW.exec(content)?.[1]?.length
    if (open.bare !== undefined) {
      const { bare: name, line: head } = open
      open.bare = undefined
      if (indent === undefined) continue
      yield { kind: 'list', name, line: head }
      open = { kind: 'rows', start, line, indent }
    } else if (open.kind === 'rows' && indent === open.indent && start - open.start > batch) {
      yield* close(start)
      open = { kind: 'rows', start, line, indent }
    }
  }
  yield* close(text.length)
  if (document === 'before') faults.add(1, 'the manifest is empty')
}

function* linesOf(text: string): Generator<{ start: number; line: number; content: string }> {
  let line = 1
  for (let start = 0; start < text.length; line++) {
    const found = text.indexOf('\n', start)
    const end = found < 0 ? text.length : found
    yield { start, line, content: text.slice(start, end) }
    start = end + 1
  }
}
