// An entry of an allowlist as an operator writes it: a host name, which also stands for every name below it. Whatever
// would silently never match, or match far more than was meant, is a fault, and the sentence says what to write instead.
import { domainToASCII } from 'node:url'
import { topLevelFault } from '../lib/public-suffix.ts'
import { canonicalAddress } from './address-text.ts'
import { parseHost } from './host.ts'

export type ParsedEntry = { readonly host: string } | { readonly fault: string }

const LONGEST_SHOWN = 100
/** Far beyond any name; what is longer is not worth finding out what it was meant to be. */
const LONGEST_EXAMINED = 2_000
const NOT_A_NAME =
  'is not a host name, which has labels of 1 to 63 letters, digits, "-" and "_", dots between them, and 253 characters at most.'

export function parseEntry(text: string): ParsedEntry {
  const shown = showTyped(text)
  const host = parseHost(text)
  if (!host) return { fault: `${shown} ${findFault(text)}` }
  if (host.kind === 'address') return { fault: `${shown} is an IP address; an entry is a host name.` }
  const fault = topLevelFault(host.text)
  return fault === undefined ? { host: host.text } : { fault: `${fault}.` }
}

/** The end of a sentence about a text that is no host. */
function findFault(text: string): string {
  if (text === '') return 'is empty; an entry is a host name.'
  if (text.length > LONGEST_EXAMINED) return NOT_A_NAME
  if (text === '*') return 'would allow every host; name each host that is needed.'
  if (text.includes('://')) return `is a URL; an entry is a host name alone${suggest(hostOfUrl(text))}.`
  if (text.startsWith('*.'))
    return `has a wildcard; a name stands for all names below it already${suggest(text.slice(2))}.`
  if (text.includes('*')) return 'has a wildcard; a name stands for all names below it already.'
  if (isRange(text)) return 'is a range of IP addresses; an entry is a host name.'
  if (/[^\0-\x7f]/.test(text))
    return `is not ASCII; names are compared as they are looked up${suggest(domainToASCII(text))}.`
  if (/[\0- \x7f]/.test(text)) return `has a blank or a control character in it${suggest(text.trim())}.`
  if (text.includes('/')) return `has a path; an entry is a host name alone${suggest(text.split('/', 1)[0])}.`
  if (/^[^:]*:\d*$/.test(text))
    return `has a port; an entry is a host name alone, at any port${suggest(text.split(':', 1)[0])}.`
  if (text.startsWith('.'))
    return `starts with a dot; a name stands for all names below it already${suggest(text.slice(1))}.`
  return NOT_A_NAME
}

/** What to write instead, if that would be an entry. */
function suggest(text = ''): string {
  const host = parseHost(text)
  if (host?.kind !== 'name' || topLevelFault(host.text) !== undefined) return ''
  return `: write ${host.text}`
}

function hostOfUrl(text: string): string | undefined {
  return /^[^:]*:\/\/(?:[^/?#@]*@)?([^/?#:]*)/.exec(text)?.[1]
}

function isRange(text: string): boolean {
  const [address = '', bits] = text.split('/', 2)
  return canonicalAddress(address) !== undefined && bits !== undefined
}

/** In quotes, and so that no byte of it can do anything to a terminal or a log. */
export function showTyped(text: string): string {
  const isLong = text.length > LONGEST_SHOWN
  const quoted = JSON.stringify(isLong ? `${text.slice(0, LONGEST_SHOWN)}…` : text)
  return quoted.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (mark) => `\\u{${mark.codePointAt(0)?.toString(16)}}`)
}
