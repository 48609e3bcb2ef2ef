// CONNECT requests: checks the target, dials it, and opens a tunnel to any port.

import { parseAuthority } from '../address/host-port.ts'
import { ByteAccumulator } from '../connection/byte-accumulator.ts'
import type { ClientSession, EgressContext } from '../connection/egress-context.ts'
import { ERROR_RESPONSES, formatErrorResponse, type ProxyErrorCode } from '../connection/error-responses.ts'
import { lingerClose } from '../connection/linger-close.ts'
import { TunnelSession } from '../connection/tunnel-session.ts'
import { hasBody } from '../http/framing.ts'
import type { RequestHead } from '../http/head.ts'
import type { ConnectionOwner, TcpConnection } from '../transport/transport.ts'

const ESTABLISHED = { bytes: Buffer.from('HTTP/1.1 200 Connection Established\r\n\r\n'), status: 200 }

/** `early` are the bytes after the head. `onEnd` is called when the client is closed. */
export function serveConnect(
  context: EgressContext,
  client: TcpConnection,
  head: Pick<RequestHead, 'target' | 'framing'>,
  early: Uint8Array,
  onEnd: () => void,
): ClientSession {
  const session = new TunnelSession(context, client, { mode: 'connect' }, onEnd)
  new ConnectClient(context, client, session).begin(head, early)
  return session
}

/** Owns the client until the tunnel is open. */
class ConnectClient implements ConnectionOwner {
  readonly #context: EgressContext
  readonly #client: TcpConnection
  readonly #session: TunnelSession
  #early = new ByteAccumulator()

  constructor(context: EgressContext, client: TcpConnection, session: TunnelSession) {
    this.#context = context
    this.#client = client
    this.#session = session
    client.owner = this
  }

  begin({ target: text, framing }: Pick<RequestHead, 'target' | 'framing'>, early: Uint8Array): void {
    if (hasBody(framing)) {
      this.#refuse('bad-request', 'CONNECT must not have a body')
      return
    }
    // Copied, because a substring would keep the whole head in memory for as long as the tunnel is open.
    const target = parseAuthority(Buffer.from(text, 'latin1').toString('latin1'))
    if (!target) {
      this.#refuse('bad-request', 'the target of CONNECT must be host:port')
      return
    }
    const { reason } = this.#session.checkPolicy(target)
    if (reason !== 'allowed') this.#refuse(reason)
    else if (this.#context.isStopping) this.#refuse('shutting-down')
    else this.#open(early)
  }

  #open(early: Uint8Array): void {
    if (early.length > 0) this.received(early)
    this.#session.open({
      greeting: ESTABLISHED,
      takeBuffered: () => this.#early.take(),
      failed: ({ code, detail }) => this.#refuse(code, detail),
    })
  }

  /** Keeps the bytes of one read; further ones wait in the kernel until the tunnel is open. */
  received(bytes: Uint8Array): void {
    this.#early.add(bytes)
    this.#client.pause()
  }

  ended(): void {}

  drained(): void {}

  closed(): void {
    this.#session.clientClosed()
  }

  #refuse(code: ProxyErrorCode, detail?: string): void {
    const { status } = ERROR_RESPONSES[code]
    const bytes = formatErrorResponse(
      code,
      { ...this.#session.errorDetails, detail },
      { denyMessage: this.#context.denyMessage },
    )
    this.#session.report({ verdict: status === 403 ? 'deny' : 'error', reason: code }, status)
    lingerClose(this.#context, this.#client, bytes)
  }
}
