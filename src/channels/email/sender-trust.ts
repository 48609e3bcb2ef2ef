// Whether the author of a mail is who it says: only the result that the own receiving server wrote counts, as everything else in
// a mail can be made up by its sender.
import { domainOf } from './mail-account.ts'

export interface MailHeader {
  /** In lower case. */
  readonly key: string
  readonly value: string
}

export interface AuthenticationResults {
  /** Of the server that wrote it; empty if it does not say. */
  readonly server: string
  readonly results: readonly AuthenticationResult[]
}

interface AuthenticationResult {
  readonly method: string
  readonly result: string
  /** Such as `header.from`. */
  readonly properties: Readonly<Record<string, string>>
}

const HEADER_MAX = 20_000

/** The value of a header `Authentication-Results` (RFC 8601). */
export function parseAuthenticationResults(value: string): AuthenticationResults {
  const [first = '', ...rest] = withoutComments(value.slice(0, HEADER_MAX))
    .toLowerCase()
    .split(';')
    .map((part) => part.trim())
  const [server = ''] = first.split(/\s/, 1)
  // Some servers leave their name out.
  const parts = server.includes('=') ? [first, ...rest] : rest
  return { server: server.includes('=') ? '' : server, results: parts.flatMap(readResult) }
}

function readResult(part: string): AuthenticationResult[] {
  const [method, ...properties] = part.split(/\s+/).map(readPair)
  if (method === undefined || method.name === '') return []
  return [
    {
      method: method.name.split('/', 1)[0] ?? '',
      result: method.value,
      properties: Object.fromEntries(properties.map(({ name, value }) => [name, value])),
    },
  ]
}

function readPair(text: string): { readonly name: string; readonly value: string } {
  const at = text.indexOf('=')
  if (at < 0) return { name: '', value: '' }
  return { name: text.slice(0, at), value: text.slice(at + 1).replaceAll('"', '') }
}

/** Comments are in brackets and may be nested. */
function withoutComments(text: string): string {
  let [kept, depth] = ['', 0]
  for (const character of text) {
    if (character === '(') depth++
    else if (character === ')') depth = Math.max(0, depth - 1)
    else if (depth === 0) kept += character
  }
  return kept
}

/**
 * Of the header that the receiving server wrote: the topmost one with the name of the setting, which the server removes from mail
 * that it receives (RFC 8601, 5); without a setting only one above all `Received`, as the sender cannot write there.
 */
function resultsOf(headers: readonly MailHeader[], server: string | undefined): AuthenticationResults | undefined {
  const firstReceived = headers.findIndex(({ key }) => key === 'received')
  const shown = server === undefined ? headers.slice(0, Math.max(0, firstReceived)) : headers
  return shown
    .filter(({ key }) => key === 'authentication-results')
    .map(({ value }) => parseAuthenticationResults(value))
    .find((each) => server === undefined || each.server === server.toLowerCase())
}

/** `from` is the only address of the header From. */
export function isBelieved(headers: readonly MailHeader[], from: string, server: string | undefined): boolean {
  const { results = [] } = resultsOf(headers, server) ?? {}
  const domain = domainOf(from)
  const dmarc = results.find(({ method }) => method === 'dmarc')
  if (dmarc) {
    const { 'header.from': of = domain } = dmarc.properties
    return dmarc.result === 'pass' && domainOf(of) === domain
  }
  return results.some(({ method, result, properties }) => {
    if (result !== 'pass') return false
    if (method === 'dkim') return isAligned(properties['header.d'] ?? properties['header.i'], domain)
    return method === 'spf' && isAligned(properties['smtp.mailfrom'], domain)
  })
}

/** The same domain or one above it, but not a top-level one. */
function isAligned(signer: string | undefined, domain: string): boolean {
  if (signer === undefined) return false
  const name = domainOf(signer)
  return name === domain || (name.split('.').length > 2 && domain.endsWith(`.${name}`))
}
