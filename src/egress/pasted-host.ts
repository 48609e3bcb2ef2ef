// The host in what a person has at hand: a name, an address, or all of a URL. For questions only. What decides on a
// connection repairs nothing.
import { domainToASCII } from 'node:url'
import { misuse } from '../lib/program.ts'
import { showTyped } from './entry.ts'
import { type Host, parseHost } from './host.ts'
import { parseHostHeader } from './host-port.ts'

export interface PastedHost {
  readonly host: Host
  /** Nothing stood around it. */
  readonly isBare: boolean
}

export function readPastedHost(text: string): PastedHost {
  const bare = parseHost(text)
  if (bare) return { host: bare, isBare: true }
  const host = parseHostHeader(authorityOf(text.trim()))?.host
  return host ? { host, isBare: false } : misuse(`${showTyped(text)} ${faultOf(text)}`)
}

/** What stands between the scheme and the path, without user and password. */
function authorityOf(text: string): string {
  const [authority = ''] = text.replace(/^[a-z][a-z0-9+.-]*:\/\//i, '').split(/[/?#]/, 1)
  return authority.slice(authority.lastIndexOf('@') + 1)
}

function faultOf(text: string): string {
  if (text.trim() === '') return 'is empty: give a host name'
  const ascii = parseHost(domainToASCII(authorityOf(text.trim())))
  if (ascii && /[^\0-\x7f]/.test(text)) return `is not ASCII: a client would ask for ${ascii.text}`
  if (text.includes('*')) return 'has a wildcard: give one host name'
  return 'is no host name and no IP address'
}
