// Parses an allowlist entry as an operator writes it: a host name, which also covers every name below it. Entries that would
// never match, or match far more than intended, are errors that say what to write instead.
import { domainToASCII } from 'node:url'
import { topLevelFault } from '../../lib/http/public-suffix.ts'
import { parseHost } from '../address/host.ts'
import { canonicalAddress } from '../address/ip-address.ts'

export type ParsedAllowlistEntry = { readonly host: string } | { readonly fault: string }

const LONGEST_SHOWN = 100
/** Far beyond any name; longer texts get no suggestion. */
const LONGEST_EXAMINED = 2_000
const NOT_A_NAME =
  'is not a host name, which has labels of 1 to 63 letters, digits, "-" and "_", dots between them, and 253 characters at most.'

export function parseAllowlistEntry(text: string): ParsedAllowlistEntry {
  const shown = quoteInput(text)
  const host = parseHost(text)
  if (!host) return { fault: `${shown} ${findFault(text)}` }
  if (host.kind === 'address') return { fault: `${shown} is an IP address; an entry is a host name.` }
  const fault = topLevelFault(host.text)
  return fault === undefined ? { host: host.text } : { fault: `${fault}.` }
}

/** Completes a message about a text that is not a host. */
function findFault(text: string): string {
  if (text === '') return 'is empty; write a host name.'
  if (text.length > LONGEST_EXAMINED) return NOT_A_NAME
  if (text === '*') return 'would allow every host; list each host.'
  if (text.includes('://')) return `is a URL; an entry is a host name alone${suggest(hostOfUrl(text))}.`
  if (text.startsWith('*.')) return `has a wildcard; a name already covers all names below it${suggest(text.slice(2))}.`
  if (text.includes('*')) return 'has a wildcard; a name already covers all names below it.'
  if (isRange(text)) return 'is a range of IP addresses; an entry is a host name.'
  if (/[^\0-\x7f]/.test(text))
    return `is not ASCII; names are compared in their DNS form${suggest(domainToASCII(text))}.`
  if (/[\0- \x7f]/.test(text)) return `contains a blank or a control character${suggest(text.trim())}.`
  if (text.includes('/')) return `has a path; an entry is a host name alone${suggest(text.split('/', 1)[0])}.`
  if (/^[^:]*:\d*$/.test(text))
    return `has a port; an entry is a host name alone, at any port${suggest(text.split(':', 1)[0])}.`
  if (text.startsWith('.'))
    return `starts with a dot; a name already covers all names below it${suggest(text.slice(1))}.`
  return NOT_A_NAME
}

/** A suggestion, if it would be a valid entry. */
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

/** Quotes input so that no byte of it can affect a terminal or a log. */
export function quoteInput(text: string): string {
  const isLong = text.length > LONGEST_SHOWN
  const quoted = JSON.stringify(isLong ? `${text.slice(0, LONGEST_SHOWN)}…` : text)
  return quoted.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (mark) => `\\u{${mark.codePointAt(0)?.toString(16)}}`)
}
