// Converts message content to text for the prompt, escaping bytes that are not valid UTF-8.
// See docs/decisions.md#request-bodies.

export const INVALID_UTF8_NOTE = 'not valid UTF-8: invalid bytes are shown as \\xNN, and backslashes as \\\\'

const strictDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export function displayContent(content: string | Uint8Array): { text: string; isValid: boolean } {
  if (typeof content === 'string') return { text: content, isValid: true }
  try {
    return { text: strictDecoder.decode(content), isValid: true }
  } catch {
    return { text: escapeInvalidBytes(content), isValid: false }
  }
}

/** Decodes whole stretches, because an exception for each invalid byte would take seconds for a megabyte. */
function escapeInvalidBytes(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const parts: string[] = []
  let start = 0
  const flush = (end: number): void => {
    if (start < end) parts.push(buffer.toString('utf8', start, end).replaceAll('\\', '\\\\'))
  }
  for (let at = 0; at < bytes.length; ) {
    const length = sequenceLength(bytes, at)
    if (length === 0) {
      flush(at)
      parts.push(`\\x${(bytes[at] ?? 0).toString(16).padStart(2, '0')}`)
      start = at + 1
    }
    at += length || 1
  }
  flush(bytes.length)
  return parts.join('')
}

/** Bytes of the UTF-8 character that begins here; 0 if it is not valid (Unicode, table 3-7). */
function sequenceLength(bytes: Uint8Array, at: number): number {
  const [first = 0, second = 0] = [bytes[at], bytes[at + 1]]
  if (first < 0x80) return 1
  const length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0
  const [low, high] = SECOND_BYTES[first] ?? [0x80, 0xbf]
  if (length === 0 || second < low || second > high) return 0
  for (let next = at + 2; next < at + length; next++) if (((bytes[next] ?? 0) & 0xc0) !== 0x80) return 0
  return length
}

/** First bytes that allow fewer second bytes: overlong forms, surrogates and what is beyond U+10FFFF. */
const SECOND_BYTES: Readonly<Record<number, readonly [low: number, high: number]>> = {
  224: [0xa0, 0xbf],
  237: [0x80, 0x9f],
  240: [0x90, 0xbf],
  244: [0x80, 0x8f],
}
