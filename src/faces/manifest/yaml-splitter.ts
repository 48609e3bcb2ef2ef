// Splits a manifest at its top-level keys, and lists of rows into batches. Each chunk is parsed alone, because the tree of a large
// manifest would not fit into memory. It splits only where YAML has a boundary too: the value of a top-level key is indented,
// starts with a dash, or closes a bracket.
import type { ManifestErrors } from './manifest-errors.ts'

/** A batch of rows ends at the first row after this many characters. */
const BATCH_LENGTH = 256 * 1024

/** A top-level key without a value on its line: rows may follow. */
const BARE_KEY = /^([A-Za-z0-9_]+): *(?:#.*)?\r?$/
const ROW = /^( *)-(?:[ \r]|$)/
const BLANK = /^ *(?:#.*)?\r?$/
const MARKER = /^(?:---|\.\.\.)(?:[ \r]|$)/
const CONTINUES = /^[ \]}-]/

export type ManifestChunk =
  /** The following `rows` chunks belong to this key. */
  | { kind: 'list'; name: string; line: number }
  | { kind: 'rows'; text: string; line: number }
  /** Part of the root mapping. */
  | { kind: 'entries'; text: string; line: number }

interface OpenChunk {
  kind: 'rows' | 'entries'
  start: number
  line: number
  /** Spaces before the dash of every row. */
  indent?: number | undefined
  /** The key, while the next line may be its first row. */
  key?: string | undefined
}

export function* splitManifest(
  text: string,
  errors: ManifestErrors,
  batchLength = BATCH_LENGTH,
): Generator<ManifestChunk> {
  let open: OpenChunk | undefined
  let document: 'before' | 'inside' | 'after' = 'before'
  const close = (end: number): ManifestChunk[] =>
    open ? [{ kind: open.kind, text: text.slice(open.start, end), line: open.line }] : []

  for (const { start, line, content } of linesOf(text)) {
    if (BLANK.test(content)) continue
    const marker = MARKER.test(content) ? content.slice(0, 3) : ''
    if (document === 'after' || (document === 'inside' && marker === '---'))
      return errors.add(line, 'a second document begins: a manifest has only one')
    if (content.startsWith('%')) return errors.add(line, 'directives are not allowed')
    if (marker) {
      if (!BLANK.test(content.slice(3))) return errors.add(line, `nothing may follow ${marker} on its line`)
      yield* close(start)
      open = undefined
      document = marker === '---' ? 'inside' : 'after'
      continue
    }
    document = 'inside'
    // A root in brackets, indented, or a list cannot be split.
    if (!open && /^[ {[-]/.test(content)) return yield { kind: 'entries', text: text.slice(start), line }
    if (!open || !CONTINUES.test(content)) {
      yield* close(start)
      open = { kind: 'entries', start, line, key: BARE_KEY.exec(content)?.[1] }
      continue
    }
    const indent = ROW.exec(content)?.[1]?.length
    if (open.key !== undefined) {
      const { key: name, line: keyLine } = open
      open.key = undefined
      if (indent === undefined) continue
      yield { kind: 'list', name, line: keyLine }
      open = { kind: 'rows', start, line, indent }
    } else if (open.kind === 'rows' && indent === open.indent && start - open.start > batchLength) {
      yield* close(start)
      open = { kind: 'rows', start, line, indent }
    }
  }
  yield* close(text.length)
  if (document === 'before') errors.add(1, 'the manifest is empty')
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
