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

function escapeInvalidBytes(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; ) {
    const byte = bytes[at] ?? 0
    const length = byte < 0x80 ? 1 : byte < 0xc2 ? 0 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : byte < 0xf5 ? 4 : 0
    const character = length === 0 ? undefined : tryDecode(bytes.subarray(at, at + length))
    if (character === undefined) text += `\\x${byte.toString(16).padStart(2, '0')}`
    else text += character === '\\' ? '\\\\' : character
    at += character === undefined ? 1 : length
  }
  return text
}

function tryDecode(bytes: Uint8Array): string | undefined {
  const [byte = 0] = bytes
  if (byte < 0x80) return String.fromCharCode(byte)
  try {
    return strictDecoder.decode(bytes)
  } catch {
    return undefined
  }
}
