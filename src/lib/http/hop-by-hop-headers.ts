// Removes hop-by-hop headers (RFC 9110, 7.6.1) from forwarded messages.

const HOPS: ReadonlySet<string> = new Set([
  'connection',
  'expect',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Includes the headers that `Connection` lists, except the content length, which delimits the body. */
function hopsOf(connection: string): ReadonlySet<string> {
  const named = connection.toLowerCase().split(/[\s,]+/)
  return new Set([...HOPS, ...named.filter((name) => name !== '' && name !== 'content-length')])
}

export function deleteHopByHopHeaders(headers: Headers): void {
  for (const name of hopsOf(headers.get('connection') ?? '')) {
    // Skip values that are not header names.
    if (/^[\w!#$%&'*+.^`|~-]+$/.test(name)) headers.delete(name)
  }
}

/** Takes and returns alternating names and values, as in Node's rawHeaders. */
export function withoutHopByHopHeaders(raw: readonly string[]): string[] {
  const isName = (at: number): boolean => at % 2 === 0
  const connection = raw.filter((_, at) => !isName(at) && raw[at - 1]?.toLowerCase() === 'connection').join(',')
  const hops = hopsOf(connection)
  return raw.filter((text, at) => !hops.has((isName(at) ? text : (raw[at - 1] ?? '')).toLowerCase()))
}
