// The transparent listener: clients whose packets were redirected and that do not know of the proxy. The host comes from the
// Host header or the TLS server name. Only the port comes from the original destination, or a client could name one host and
// reach another.

import { parseHost } from '../address/host.ts'
import { ByteAccumulator } from '../connection/byte-accumulator.ts'
import type { EgressContext } from '../connection/egress-context.ts'
import { type ProxyErrorCode, TLS_ACCESS_DENIED_ALERT } from '../connection/error-responses.ts'
import { lingerClose } from '../connection/linger-close.ts'
import { TunnelSession } from '../connection/tunnel-session.ts'
import { type TargetReader, transparentTarget } from '../http/target.ts'
import { serveHttp } from '../http-relay/http-relay.ts'
import { ClientHelloReader } from '../tls/client-hello.ts'
import type { ConnectionOwner, TcpConnection, Timer } from '../transport/transport.ts'

const HTTP_PORT = 80
const TLS_PORT = 443

export function acceptTransparent(context: EgressContext, client: TcpConnection): void {
  const to = client.originalDestination()
  // A client that connects to the listener directly would be connected to the proxy itself.
  const isDirect = to === undefined || (to.port === client.local.port && to.address === client.local.address)
  if (isDirect) rejectConnection(context, client, 'not-redirected')
  else if (to.port === TLS_PORT) new TransparentTlsClient(context, client)
  else if (to.port === HTTP_PORT) servePlain(context, client)
  else rejectConnection(context, client, 'port-not-allowed', to.port)
}

/** Closes before reading anything. */
function rejectConnection(context: EgressContext, client: TcpConnection, reason: string, port?: number): void {
  const source = client.remote.address
  const id = context.findSource(source)?.id
  const mode = 'transparent-tls'
  context.recordAccess({ mode, source, id, port, verdict: 'deny', reason, bytesUp: 0, bytesDown: 0, ms: 0 })
  client.reset()
}

function servePlain(context: EgressContext, client: TcpConnection): void {
  const { address } = client.remote
  let isAdmitted = true
  const readTarget: TargetReader = (head) => (isAdmitted ? transparentTarget(head) : { code: 'limit-reached' })
  const options = { mode: 'transparent-http', readTarget } as const
  const session = serveHttp(context, client, Buffer.alloc(0), options, () => context.removeSession(address, session))
  // A refused client gets the response to its first request.
  isAdmitted = context.addSession(address, session)
}

/** A TLS client, owned until the tunnel is open. */
class TransparentTlsClient implements ConnectionOwner {
  readonly #context: EgressContext
  readonly #client: TcpConnection
  readonly #session: TunnelSession
  readonly #hello = new ClientHelloReader()
  readonly #received = new ByteAccumulator()
  readonly #timer: Timer

  constructor(context: EgressContext, client: TcpConnection) {
    this.#context = context
    this.#client = client
    client.owner = this
    const { address } = client.remote
    this.#session = new TunnelSession(context, client, { mode: 'transparent-tls', port: TLS_PORT }, () => {
      this.#timer.cancel()
      context.removeSession(address, this.#session)
    })
    const isAdmitted = context.addSession(address, this.#session)
    this.#timer = context.transport.after(context.limits.headMs, () => this.#reset('head-timeout'))
    if (!isAdmitted) this.#refuse('limit-reached')
  }

  received(bytes: Buffer): void {
    this.#received.add(bytes)
    // While dialling, bytes after the ClientHello wait in the kernel.
    if (this.#session.isDialling) {
      this.#client.pause()
      return
    }
    const hello = this.#hello.push(bytes)
    if (hello.kind === 'hello') this.#checkPolicy(hello.sni)
    else if (hello.kind === 'not-tls') this.#reset('not-tls')
    else if (hello.kind === 'unreadable') this.#refuse('sni-unreadable')
  }

  ended(): void {
    if (!this.#session.isDialling) this.#session.abort({ verdict: 'error', reason: 'client-gone' })
  }

  drained(): void {}

  closed(): void {
    this.#session.clientClosed()
  }

  #checkPolicy(sni: string | undefined): void {
    const host = sni === undefined ? undefined : parseHost(sni)
    if (!host) {
      this.#refuse(sni === undefined ? 'sni-missing' : 'sni-unreadable')
      return
    }
    const { allow, reason } = this.#session.checkPolicy({ host, port: TLS_PORT })
    if (!allow) {
      this.#refuse(reason)
      return
    }
    this.#timer.cancel()
    // The tunnel inspects everything again, including the bytes after this ClientHello.
    this.#session.open({ takeBuffered: () => this.#received.take(), failed: ({ code }) => this.#fail(code) })
  }

  #fail(code: ProxyErrorCode): void {
    if (code === 'destination-ip-prohibited') this.#refuse(code)
    else this.#session.abort({ verdict: 'error', reason: code })
  }

  /** The alert makes clients show "access denied" instead of a broken connection. */
  #refuse(reason: string): void {
    this.#session.report({ verdict: 'deny', reason })
    lingerClose(this.#context, this.#client, TLS_ACCESS_DENIED_ALERT)
  }

  /** Without an alert, which only TLS clients understand. */
  #reset(reason: string): void {
    this.#session.abort({ verdict: 'deny', reason })
  }
}
