// Cursors of paged lists: the position of the last row, as text. Clients can forge them, so callers validate every part.
import { tryParseJson } from '../lib/text/json.ts'
import type { Value } from './engine.ts'

export function writeCursor(position: readonly Value[]): string {
  const parts = position.map((part) => {
    if (part === null) throw new Error('a list cannot be ordered by a nullable column')
    return part instanceof Uint8Array ? { bytes: Buffer.from(part).toString('base64url') } : part
  })
  return Buffer.from(JSON.stringify(parts)).toString('base64url')
}

/** Returns the unvalidated parts, or undefined if the text is not a cursor. */
export function readCursor(cursor: string): unknown[] | undefined {
  const parts = tryParseJson(Buffer.from(cursor, 'base64url').toString('utf8'))
  return Array.isArray(parts) ? parts.map(readPart) : undefined
}

function readPart(part: unknown): unknown {
  const isBytes = typeof part === 'object' && part !== null && 'bytes' in part && typeof part.bytes === 'string'
  return isBytes ? Buffer.from(String(part.bytes), 'base64url') : part
}
