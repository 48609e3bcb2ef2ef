// Content as an agent is shown it: text where it is text, and else byte by byte (decision L8).

/** What is said beside content that is shown so. */
export const INVALID_UTF8_NOTE = 'not valid UTF-8: bytes that are none are shown as \\xNN, and a backslash as \\\\'

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export function displayContent(content: string | Uint8Array): { text: string; isValid: boolean } {
  if (typeof content === 'string') return { text: content, isValid: true }
  try {
    return { text: strict.decode(content), isValid: true }
  } catch {
    return { text: shownBytes(content), isValid: false }
  }
}

function shownBytes(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; ) {
    const byte = bytes[at] ?? 0
    const length = byte < 0x80 ? 1 : byte < 0xc2 ? 0 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : byte < 0xf5 ? 4 : 0
    const character = length === 0 ? undefined : decoded(bytes.subarray(at, at + length))
    if (character === undefined) text += `\\x${byte.toString(16).padStart(2, '0')}`
    else text += character === '\\' ? '\\\\' : character
    at += character === undefined ? 1 : length
  }
  return text
}

function decoded(bytes: Uint8Array): string | undefined {
  const [byte = 0] = bytes
  if (byte < 0x80) return String.fromCharCode(byte)
  try {
    return strict.decode(bytes)
  } catch {
    return undefined
  }
}
