// A connection to an origin, kept for the next request of the same client to the same authority. It is never shared, so that
// no client can read what another one left in it.
import type { ConnectionOwner, TcpConnection } from '../transport/transport.ts'

export interface OriginConnectionUser {
  fromOrigin(bytes: Buffer): void
  originEnded(): void
  originDrained(): void
  originClosed(error?: string): void
}

export class OriginConnection implements ConnectionOwner {
  readonly connection: TcpConnection
  readonly address: string
  /** Host and port, the key of the pool. */
  readonly key: string
  /** Whether it has served a request before. */
  isReused = false
  isClosed = false
  #user: OriginConnectionUser | undefined

  constructor(connection: TcpConnection, address: string, key: string) {
    this.connection = connection
    this.address = address
    this.key = key
    connection.owner = this
  }

  /** Undefined when it is idle. */
  useBy(user: OriginConnectionUser | undefined): void {
    this.#user = user
  }

  received(bytes: Buffer): void {
    // Unrequested bytes would be read as the response to the next request.
    if (this.#user) this.#user.fromOrigin(bytes)
    else this.close()
  }

  ended(): void {
    if (this.#user) this.#user.originEnded()
    else this.close()
  }

  drained(): void {
    this.#user?.originDrained()
  }

  closed(error?: string): void {
    this.isClosed = true
    this.#user?.originClosed(error)
  }

  close(): void {
    this.#user = undefined
    if (!this.isClosed) this.connection.close()
    this.isClosed = true
  }

  /** A reset, so that the origin does not take an incomplete request for complete. */
  reset(): void {
    this.#user = undefined
    if (!this.isClosed) this.connection.reset()
    this.isClosed = true
  }
}
