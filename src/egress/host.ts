// The one canonical value of a host: parsed once, and then used to match, to dial, to log and to forward. Two readings of
// one text are how allowlists are passed by, so there is no second parser, and nothing is repaired.
import { readIPv6, readLooseIPv4, showIPv4, showIPv6 } from './address-text.ts'

export type Host =
  /** ASCII in lower case without the final dot: 1 to 253 long, labels of 1 to 63 letters, digits, `-` and `_`. */
  | { readonly kind: 'name'; readonly text: string }
  /** An IP address in its one spelling, without brackets. */
  | { readonly kind: 'address'; readonly text: string }

const LONGEST_NAME = 253
const LONGEST_LABEL = 63

const DOT = 0x2e
const COLON = 0x3a
const OPEN = 0x5b
const CLOSE = 0x5d

// What a character may be in a name.
const NONE = 0
const LOWER = 1
const UPPER = 2
const CLASSES = classifyCharacters()

/**
 * A name, with one final dot or none; an IPv4 address in any spelling that some resolver takes; an IPv6 address, in
 * brackets or not. Nothing when the text is none of them.
 */
export function parseHost(text: string): Host | undefined {
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
    // Beyond ASCII there is no class: `toLowerCase` would turn the Kelvin sign into a plain k.
    const kind = CLASSES[code] ?? NONE
    if (kind === NONE) return code === COLON ? parseBareIPv6(text) : undefined
    if (kind === UPPER) hasUpper = true
  }
  if (end === label || end - label > LONGEST_LABEL || end > LONGEST_NAME) return undefined
  const plain = end === length ? text : text.slice(0, end)
  if (isNumber(text, label, end)) return parseLooseIPv4(plain)
  return { kind: 'name', text: hasUpper ? plain.toLowerCase() : plain }
}

/** No top-level domain is a number: what ends in one is an address, or nothing that anybody should look up. */
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

function parseLooseIPv4(text: string): Host | undefined {
  const value = readLooseIPv4(text)
  return value < 0 ? undefined : { kind: 'address', text: showIPv4(value) }
}

/** Brackets are for IPv6 alone: around a name they have opened a gate before. */
function parseBracketed(text: string): Host | undefined {
  if (text.charCodeAt(text.length - 1) !== CLOSE) return undefined
  return parseBareIPv6(text.slice(1, -1))
}

function parseBareIPv6(text: string): Host | undefined {
  const groups = readIPv6(text)
  return groups && { kind: 'address', text: showIPv6(groups) }
}

function classifyCharacters(): Uint8Array {
  const classes = new Uint8Array(128)
  for (const character of 'abcdefghijklmnopqrstuvwxyz0123456789-_') classes[character.charCodeAt(0)] = LOWER
  for (const character of 'ABCDEFGHIJKLMNOPQRSTUVWXYZ') classes[character.charCodeAt(0)] = UPPER
  return classes
}
