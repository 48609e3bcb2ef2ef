// Headers that speak of one connection and end with it (RFC 9110, 7.6.1). What passes a message on leaves them behind.

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

/** Those, and the ones that `Connection` names. Not the length: it says where the body ends, whoever names it. */
function hopsOf(connection: string): ReadonlySet<string> {
  const named = connection.toLowerCase().split(/[\s,]+/)
  return new Set([...HOPS, ...named.filter((name) => name !== '' && name !== 'content-length')])
}

export function deleteHops(headers: Headers): void {
  for (const name of hopsOf(headers.get('connection') ?? '')) {
    // What is no header name cannot be a header either.
    if (/^[\w!#$%&'*+.^`|~-]+$/.test(name)) headers.delete(name)
  }
}

/** Names and values in turn, as Node has them; so the result. */
export function withoutHops(raw: readonly string[]): string[] {
  const isName = (at: number): boolean => at % 2 === 0
  const connection = raw.filter((_, at) => !isName(at) && raw[at - 1]?.toLowerCase() === 'connection').join(',')
  const hops = hopsOf(connection)
  return raw.filter((text, at) => !hops.has((isName(at) ? text : (raw[at - 1] ?? '')).toLowerCase()))
}
