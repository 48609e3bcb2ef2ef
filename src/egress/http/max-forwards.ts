// Max-Forwards: TRACE and OPTIONS limit the number of proxies they pass; the last one responds itself (RFC 9110, 7.6.2).

import { hasBody } from './framing.ts'
import type { RequestHead } from './head.ts'
import { type HeaderField, headerValue } from './header-field.ts'

/** Credentials that a TRACE response must not show. */
const SECRET: ReadonlySet<string> = new Set(['authorization', 'cookie', 'proxy-authorization'])

export function maxForwardsError({ method, fields, framing }: RequestHead): string | undefined {
  if (method === 'TRACE' && hasBody(framing)) return 'TRACE must not have a body'
  if (method !== 'TRACE' && method !== 'OPTIONS') return undefined
  const all = fields.filter(({ key }) => key === 'max-forwards')
  return all.length > 1 || all.some(({ value }) => !/^\d{1,9}$/.test(value)) ? 'invalid Max-Forwards' : undefined
}

/** The proxy's own response if this is the last hop, else undefined. */
export function lastHopResponse(head: RequestHead, close: boolean, via: string): Buffer | undefined {
  const { method, fields } = head
  if (method !== 'TRACE' && method !== 'OPTIONS') return undefined
  if (Number(headerValue(fields, 'max-forwards') ?? 1) !== 0) return undefined
  const body = method === 'TRACE' ? echoRequest(head) : ''
  const lines = [
    'HTTP/1.1 200 OK',
    ...(method === 'TRACE' ? ['Content-Type: message/http'] : []),
    `Content-Length: ${body.length}`,
    `Via: 1.${head.minor} ${via}`,
    ...(close ? ['Connection: close'] : []),
  ]
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`, 'latin1')
}

function echoRequest({ method, target, minor, fields }: RequestHead): string {
  const lines = fields
    .filter(({ key }) => !SECRET.has(key))
    .map(({ name, value }: HeaderField) => `${name}: ${value}\r\n`)
  return `${method} ${target} HTTP/1.${minor}\r\n${lines.join('')}\r\n`
}
