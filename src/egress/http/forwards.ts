// Max-Forwards: TRACE and OPTIONS say how many proxies they may pass, and the last one answers itself (RFC 9110, 7.6.2).

import { type Field, findField } from './field.ts'
import { hasBody } from './framing.ts'
import type { RequestHead } from './head.ts'

/** What a TRACE would show to whoever can read its answer. */
const SECRET: ReadonlySet<string> = new Set(['authorization', 'cookie', 'proxy-authorization'])

/** What is wrong with how the request speaks of it. */
export function findForwardsFault({ method, fields, framing }: RequestHead): string | undefined {
  if (method === 'TRACE' && hasBody(framing)) return 'a TRACE with a body'
  if (method !== 'TRACE' && method !== 'OPTIONS') return undefined
  const all = fields.filter(({ key }) => key === 'max-forwards')
  return all.length > 1 || all.some(({ value }) => !/^\d{1,9}$/.test(value)) ? 'a malformed Max-Forwards' : undefined
}

/** Our own answer, where the request goes no further; otherwise nothing. */
export function answerLastForward(head: RequestHead, close: boolean, via: string): Buffer | undefined {
  const { method, fields } = head
  if (method !== 'TRACE' && method !== 'OPTIONS') return undefined
  if (Number(findField(fields, 'max-forwards') ?? 1) !== 0) return undefined
  const body = method === 'TRACE' ? showRequest(head) : ''
  const lines = [
    'HTTP/1.1 200 OK',
    ...(method === 'TRACE' ? ['Content-Type: message/http'] : []),
    `Content-Length: ${body.length}`,
    `Via: 1.${head.minor} ${via}`,
    ...(close ? ['Connection: close'] : []),
  ]
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`, 'latin1')
}

function showRequest({ method, target, minor, fields }: RequestHead): string {
  const lines = fields.filter(({ key }) => !SECRET.has(key)).map(({ name, value }: Field) => `${name}: ${value}\r\n`)
  return `${method} ${target} HTTP/1.${minor}\r\n${lines.join('')}\r\n`
}
