// Filters the request headers for an upstream and adds those of proxyd: clients must not set identity headers.
import { isIdentityHeader } from '../../core/links/proxyd-routes.ts'
import { deleteHopByHopHeaders, withoutHopByHopHeaders } from '../../lib/http/hop-by-hop-headers.ts'

const RESERVED_HEADERS = /^(x-user-.*|x-chat-.*|x-folder|x-group-name|x-forwarded-.*|forwarded|x-real-ip|x-request-id)$/

/** Some backends read _ as -. */
function isReservedHeader(name: string): boolean {
  return RESERVED_HEADERS.test(name.toLowerCase().replaceAll('_', '-'))
}

/** Undefined values are omitted. */
export type ForwardedHeaders = Readonly<Record<string, string | undefined>>

export interface HeaderRules {
  /** Lower-case names to pass on although they are reserved, except identity headers. */
  readonly preserve?: ReadonlySet<string>
  /** More lower-case names to remove. */
  readonly drop?: ReadonlySet<string>
  /** The Cookie header without cookies of this server; undefined drops it. */
  readonly filterCookies?: (value: string) => string | undefined
}

const NONE: ReadonlySet<string> = new Set()

/** `raw` and the result are Node's raw headers: names and values in turn. */
export function upstreamHeaders(
  raw: readonly string[],
  added: ForwardedHeaders,
  { preserve = NONE, drop = NONE, filterCookies }: HeaderRules = {},
): string[] {
  const headers: string[] = []
  const passed = new Set<string>()
  const received = withoutHopByHopHeaders(raw)
  for (let at = 0; at < received.length; at += 2) {
    const [name = '', value = ''] = [received[at], received[at + 1]]
    const lowerName = name.toLowerCase()
    const isPassed = preserve.has(lowerName)
      ? !isIdentityHeader(lowerName)
      : !isReservedHeader(name) && !drop.has(lowerName)
    if (!isPassed) continue
    passed.add(lowerName)
    const shown = lowerName === 'cookie' && filterCookies ? filterCookies(value) : value
    if (shown !== undefined) headers.push(name, shown)
  }
  for (const [name, value] of Object.entries(added)) {
    if (value !== undefined && !passed.has(name.toLowerCase())) headers.push(name, encodeHeaderValue(value))
  }
  return headers
}

/** Does the same in place, for a request that stays in this process. */
export function rewriteHeaders(headers: Headers, added: ForwardedHeaders): void {
  deleteHopByHopHeaders(headers)
  for (const name of [...headers.keys()]) if (isReservedHeader(name)) headers.delete(name)
  for (const [name, value] of Object.entries(added))
    if (value !== undefined) headers.set(name, encodeHeaderValue(value))
}

/** Escapes non-ASCII characters, such as in names of people. */
export function encodeHeaderValue(value: string): string {
  return value.toWellFormed().replace(/[^\x20-\x24\x26-\x7e]/gu, encodeURIComponent)
}

/** Escapes a URL for Location; existing escapes stay. */
export function encodeLocation(value: string): string {
  return value.toWellFormed().replace(/[^\x21-\x7e]/gu, encodeURIComponent)
}
