// The canonical form of a host: parsed once, then matched, dialled, logged and forwarded. A second parser that reads the same
// text differently is how allowlists get bypassed, so there is none, and nothing is repaired.
import { readIPv6, readLooseIPv4, showIPv4, showIPv6 } from './ip-address.ts'

export type CanonicalHost =
  /** Lower-case ASCII without final dot: 1 to 253 characters, labels of 1 to 63 letters, digits, `-` and `_`. */
  | { readonly kind: 'name'; readonly text: string }
  /** A canonical IP address, without brackets. */
  | { readonly kind: 'address'; readonly text: string }

const LONGEST_NAME = 253
const LONGEST_LABEL = 63

const DOT = 0x2e
const COLON = 0x3a
const OPEN = 0x5b
const CLOSE = 0x5d

// Character classes.
const NONE = 0
const LOWER = 1
const UPPER = 2
const CLASSES = classifyCharacters()

/**
 * Accepts a name with or without final dot, an IPv4 address in any spelling that some resolver accepts, and IPv6 with or
 * without brackets. Undefined for anything else.
 */
export function parseHost(text: string): CanonicalHost | undefined {
  const { length } = text
  if (length === 0 || length > LONGEST_NAME + 1) return undefined
  if (text.charCodeAt(0) === OPEN) return parseBracketed(text)
  let hasUpper = false
  let label = 0
  const end = text.charCodeAt(length - 1) === DOT ? length - 1 : length
  for (let at = 0; at < end; at++) {
    const code = text.charCodeAt(at)
    if (code === DOT) {
      if (at === label || at - label > LONGEST_LABEL) return undefined
      label = at + 1
      continue
    }
    // Non-ASCII has no class: `toLowerCase` would turn the Kelvin sign into a plain k.
    const kind = CLASSES[code] ?? NONE
    if (kind === NONE) return code === COLON ? parseBareIPv6(text) : undefined
    if (kind === UPPER) hasUpper = true
  }
  if (end === label || end - label > LONGEST_LABEL || end > LONGEST_NAME) return undefined
  const plain = end === length ? text : text.slice(0, end)
  if (isNumber(text, label, end)) return parseLooseIPv4(plain)
  return { kind: 'name', text: hasUpper ? plain.toLowerCase() : plain }
}

/** No top-level domain is numeric, so a numeric last label means an address or nothing valid. */
function isNumber(text: string, start: number, end: number): boolean {
  const isHex = text.charCodeAt(start) === 0x30 && (text.charCodeAt(start + 1) | 0x20) === 0x78
  for (let at = isHex ? start + 2 : start; at < end; at++) {
    const code = text.charCodeAt(at)
    if (code >= 0x30 && code <= 0x39) continue
    const lower = code | 0x20
    if (!isHex || lower < 0x61 || lower > 0x66) return false
  }
  return true
}

function parseLooseIPv4(text: string): CanonicalHost | undefined {
  const value = readLooseIPv4(text)
  return value < 0 ? undefined : { kind: 'address', text: showIPv4(value) }
}

/** Only IPv6 may have brackets: bracketed names have bypassed allowlists before. */
function parseBracketed(text: string): CanonicalHost | undefined {
  if (text.charCodeAt(text.length - 1) !== CLOSE) return undefined
  return parseBareIPv6(text.slice(1, -1))
}

function parseBareIPv6(text: string): CanonicalHost | undefined {
  const groups = readIPv6(text)
  return groups && { kind: 'address', text: showIPv6(groups) }
}

function classifyCharacters(): Uint8Array {
  const classes = new Uint8Array(128)
  for (const character of 'abcdefghijklmnopqrstuvwxyz0123456789-_') classes[character.charCodeAt(0)] = LOWER
  for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZ') classes[character.charCodeAt(0)] = UPPER
  return classes
}
