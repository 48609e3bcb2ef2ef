// Whose pages may speak to the tools: our own. A page elsewhere has no business there, whatever it has got hold of. The
// protocol asks for that, because a page can have its own name lead to a server on the visitor's machine. A preflight and the
// request after it are judged alike.
import { webHosts } from '../../core/web-hosts.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { Visit } from './visit.ts'

export interface Whence {
  /** What the browser says of the page that asks; a program says nothing. */
  readonly origin: string | undefined
  /** The host that was asked at. */
  readonly host: string | undefined
  /** The address that was connected to. */
  readonly local: string | undefined
}

/** The same at a link, whose answers other sites may read everywhere else. */
export async function mustBeOwnPage(host: Host, visit: Visit): Promise<void> {
  const { headers, socket } = visit.request
  await mustBeOwnOrigin(host, { origin: headers.origin, host: headers.host, local: socket.localAddress })
  visit.readableBy(headers.origin)
}

/** Refuses whoever comes from elsewhere. */
export async function mustBeOwnOrigin({ webBase, engine }: Host, whence: Whence): Promise<void> {
  const fault = await originFault(webBase, whence, (host) =>
    engine.read(async (tx) => {
      const [whole, bare] = [host, host.replace(/:\d+$/, '')]
      const found = (await webHosts.find(tx, { hostname: whole })) ?? (await webHosts.find(tx, { hostname: bare }))
      return found !== undefined
    }),
  )
  if (fault) throw fault
}

/** Why nobody from there is answered, or nothing. `isOurs` knows the further hosts of the instance. */
export async function originFault(
  webBase: string,
  { origin, host = '', local = '' }: Whence,
  isOurs: (host: string) => Promise<boolean>,
): Promise<Refusal | undefined> {
  const [base, asked] = [hostOf(webBase), hostOf(`http://${host}`)]
  // A page can have its own name lead to this machine: then it asks at its own name, and that is no name of ours.
  const isNamedWell = !isLoopback(local) || isLocal(asked) || asked === base || (await isOurs(asked))
  if (!isNamedWell)
    return new Refusal('forbidden', 'this server is not known by that name', 'WEB_HOST says which name it has')
  if (origin === undefined) return undefined
  const from = hostOf(origin)
  return from !== '' && (from === base || from === asked)
    ? undefined
    : new Refusal('forbidden', 'pages of another site cannot use these tools')
}

/** One spelling for each host and port, and one for this machine; empty for what is no web page's. */
function hostOf(url: string): string {
  const { protocol = '', hostname = '', port = '' } = URL.parse(url) ?? {}
  if (protocol !== 'http:' && protocol !== 'https:') return ''
  const name = hostname.replace(/\.$/, '')
  const isHere = name === '127.0.0.1' || name === '[::1]'
  return `${isHere ? 'localhost' : name}${port === '' ? '' : `:${port}`}`
}

function isLocal(host: string): boolean {
  return /^localhost(:|$)/.test(host)
}

function isLoopback(address: string): boolean {
  return address === '::1' || /^(::ffff:)?127\./.test(address)
}
