// TCP connections as the proxy uses them, and the transport that opens them. `epoll-transport.ts` uses Linux system calls and
// splices bytes without copying; `node-transport.ts` uses Node's sockets on every other system.
// The API is synchronous calls and callbacks within one thread: a promise per chunk would cost more than the chunk.
import type { ListenEndpoint } from '../../lib/settings.ts'

/** Callbacks of one connection. */
export interface ConnectionOwner {
  /** The buffer is reused after the call: copy what must outlive it. */
  received(bytes: Buffer): void
  /** The peer has sent its last byte. */
  ended(): void
  /** All bytes that `write` had to queue are sent. */
  drained(): void
  /** Closed in both directions, with the system's error name if it failed. Not called after the owner's own `close` or `reset`. */
  closed(error?: string): void
}

export interface SocketAddress {
  /** Canonical: an IPv4 address mapped into IPv6 is written as IPv4. */
  readonly address: string
  readonly port: number
}

export interface TcpConnection {
  /** Receives the callbacks; replaced when another object takes the connection over. */
  owner: ConnectionOwner
  readonly remote: SocketAddress
  readonly local: SocketAddress
  /** Bytes received from the peer and sent to it. */
  readonly bytesIn: number
  readonly bytesOut: number
  /** How much of `bytesOut` the peer has not acknowledged, as far as the transport can tell. */
  readonly unsent: number
  /** Whether the peer has sent its last byte. */
  readonly hasEnded: boolean
  /** Returns false when some bytes were queued: wait for `drained` before writing more. Never keeps a reference to `bytes`. */
  write(bytes: Uint8Array): boolean
  /** Half-closes after the queued bytes are sent. The connection closes when both sides have ended. */
  end(): void
  /** Closes at once; the peer sees a reset. */
  reset(): void
  /** Closes at once and drops queued bytes. */
  close(): void
  /** Stops `received` until `resume`. A new connection is not paused. */
  pause(): void
  resume(): void
  /** Where a redirected connection was going; undefined if it was not redirected or the system cannot tell. */
  originalDestination(): SocketAddress | undefined
}

export interface BoundListener extends SocketAddress {
  close(): void
}

/** A source identified by the listener that accepts its connections. */
export interface ListenerSource {
  /** Used as `remote.address` of each of its connections. */
  readonly key: string
  /** Above this many open connections, further ones wait in the kernel's backlog. */
  readonly maxOpen: number
}

export interface ListenerCallbacks {
  accepted(connection: TcpConnection): void
  /** No connection will be accepted. `why` completes "the source …". */
  failed(why: string): void
}

export interface Timer {
  cancel(): void
}

export interface TcpTransport {
  /** Rejects with the system's error when the address is in use or not local. */
  listen(at: ListenEndpoint, accepted: (connection: TcpConnection) => void): Promise<BoundListener>
  /**
   * Receives a listener that another process sends over `socket`, which is closed afterwards. `close` closes the listener and
   * every connection accepted by it. Only the epoll transport has it.
   */
  receiveListener?(socket: number, source: ListenerSource, callbacks: ListenerCallbacks): { close(): void }
  /** `connected` is called once; before it only `closed` can be. */
  connect(to: SocketAddress, owner: ConnectionOwner & { connected(): void }): TcpConnection
  /**
   * Forwards everything from one connection to the other, including the end. `from`'s owner gets no more `received` and
   * `ended`, `to`'s owner no `drained`. Bytes that `to` has queued go first.
   */
  pump(from: TcpConnection, to: TcpConnection): void
  /** Never early; late by up to 10 ms or 1 % of the delay. */
  after(ms: number, run: () => void): Timer
  /** Monotonic milliseconds. */
  now(): number
}
