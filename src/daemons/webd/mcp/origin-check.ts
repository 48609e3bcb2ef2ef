// Origin and Host checks of the MCP endpoints, which the protocol requires against DNS rebinding: only our own pages may use
// the tools. A preflight is checked like the request that follows it.
import { webHosts } from '../../../core/links/web-hosts.ts'
import { Refusal } from '../../../lib/refusal.ts'
import type { InstanceHost } from '../../../registry/context.ts'
import type { LinkRequest } from '../link-request.ts'

export interface RequestOrigin {
  /** The Origin header, which only browsers send. */
  readonly origin: string | undefined
  /** The Host header. */
  readonly host: string | undefined
  /** Local address of the connection. */
  readonly local: string | undefined
}

/** For requests at a link: also restricts CORS, which all other link URLs open to every site. */
export async function mustBeOwnPage(host: InstanceHost, request: LinkRequest): Promise<void> {
  const { headers, socket } = request.incoming
  await mustBeOwnOrigin(host, { origin: headers.origin, host: headers.host, local: socket.localAddress })
  request.allowOrigin(headers.origin)
}

export async function mustBeOwnOrigin({ webBase, engine }: InstanceHost, origin: RequestOrigin): Promise<void> {
  const fault = await originFault(webBase, origin, (host) =>
    engine.read(async (tx) => {
      const bare = host.replace(/:\d+$/, '')
      const row = (await webHosts.find(tx, { hostname: host })) ?? (await webHosts.find(tx, { hostname: bare }))
      return row !== undefined
    }),
  )
  if (fault) throw fault
}

/** Why to refuse the request, if at all. `isWebHost` knows the additional hosts of the instance. */
export async function originFault(
  webBase: string,
  { origin, host = '', local = '' }: RequestOrigin,
  isWebHost: (host: string) => Promise<boolean>,
): Promise<Refusal | undefined> {
  const [base, requested] = [hostOf(webBase), hostOf(`http://${host}`)]
  // DNS rebinding: a page whose own host name resolves to this machine sends that name as Host.
  const isOwnHost = !isLoopback(local) || isLocal(requested) || requested === base || (await isWebHost(requested))
  if (!isOwnHost) return new Refusal('forbidden', `unknown host name "${requested}"`, 'use the host name in WEB_HOST')
  if (origin === undefined) return undefined
  const from = hostOf(origin)
  return from !== '' && (from === base || from === requested)
    ? undefined
    : new Refusal('forbidden', 'pages of another site cannot use these tools')
}

/** Normalizes host and port, with "localhost" for loopback addresses; empty for a URL that is not HTTP. */
function hostOf(url: string): string {
  const { protocol = '', hostname = '', port = '' } = URL.parse(url) ?? {}
  if (protocol !== 'http:' && protocol !== 'https:') return ''
  const name = hostname.replace(/\.$/, '')
  const isLoopbackName = name === '127.0.0.1' || name === '[::1]'
  return `${isLoopbackName ? 'localhost' : name}${port === '' ? '' : `:${port}`}`
}

function isLocal(host: string): boolean {
  return /^localhost(:|$)/.test(host)
}

function isLoopback(address: string): boolean {
  return address === '::1' || /^(::ffff:)?127\./.test(address)
}
