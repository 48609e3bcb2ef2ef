// Where a page of a list ended, as text that a caller hands back. Anyone can write one, so it is believed in nothing.
import { tryParseJson } from '../lib/text/json.ts'
import type { Value } from './engine.ts'

export function writeCursor(place: readonly Value[]): string {
  const parts = place.map((part) => {
    if (part === null) throw new Error('a list cannot be ordered by a column that may be empty')
    return part instanceof Uint8Array ? { bytes: Buffer.from(part).toString('base64url') } : part
  })
  return Buffer.from(JSON.stringify(parts)).toString('base64url')
}

/** The parts, not yet held against any column; nothing when it is no cursor. */
export function readCursor(cursor: string): unknown[] | undefined {
  const parts = tryParseJson(Buffer.from(cursor, 'base64url').toString('utf8'))
  return Array.isArray(parts) ? parts.map(readPart) : undefined
}

function readPart(part: unknown): unknown {
  const isBytes = typeof part === 'object' && part !== null && 'bytes' in part && typeof part.bytes === 'string'
  return isBytes ? Buffer.from(String(part.bytes), 'base64url') : part
}
