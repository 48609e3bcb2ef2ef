// Extracts the host from what a user pastes: a name, an address or a whole URL. Only for queries: decisions on connections repair
// nothing.
import { domainToASCII } from 'node:url'
import { throwUsageError } from '../../lib/command-line/program.ts'
import { type CanonicalHost, parseHost } from '../address/host.ts'
import { parseHostHeader } from '../address/host-port.ts'
import { quoteInput } from '../policy/allowlist-entry.ts'

interface PastedHost {
  readonly host: CanonicalHost
  /** The text was the host alone. */
  readonly isBare: boolean
}

export function readPastedHost(text: string): PastedHost {
  const bare = parseHost(text)
  if (bare) return { host: bare, isBare: true }
  const host = parseHostHeader(authorityOf(text.trim()))?.host
  return host ? { host, isBare: false } : throwUsageError(`${quoteInput(text)} ${faultOf(text)}`)
}

/** The part between scheme and path, without user and password. */
function authorityOf(text: string): string {
  const [authority = ''] = text.replace(/^[a-z][a-z0-9+.-]*:\/\//i, '').split(/[/?#]/, 1)
  return authority.slice(authority.lastIndexOf('@') + 1)
}

function faultOf(text: string): string {
  if (text.trim() === '') return 'is empty: give a host name'
  const ascii = parseHost(domainToASCII(authorityOf(text.trim())))
  if (ascii && /[^\0-\x7f]/.test(text)) return `is not ASCII: a client would ask for ${ascii.text}`
  if (text.includes('*')) return 'has a wildcard: give one host name'
  return 'is neither a host name nor an IP address'
}
