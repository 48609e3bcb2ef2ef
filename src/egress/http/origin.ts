// The connection to an origin, kept for the next request of the same client to the same authority. It is never shared: what
// one client could leave behind in it, no other can read.
import type { Wire, WireOwner } from '../wire.ts'

/** Who is using it now. */
export interface OriginUser {
  fromOrigin(bytes: Buffer): void
  originEnded(): void
  originDrained(): void
  originClosed(error?: string): void
}

export class Origin implements WireOwner {
  readonly wire: Wire
  readonly address: string
  /** Host and port, by which it is found again. */
  readonly key: string
  /** Whether it has served a request before. */
  isReused = false
  isOver = false
  #user: OriginUser | undefined

  constructor(wire: Wire, address: string, key: string) {
    this.wire = wire
    this.address = address
    this.key = key
    wire.owner = this
  }

  /** Nothing when it is idle. */
  useBy(user: OriginUser | undefined): void {
    this.#user = user
  }

  bytes(bytes: Buffer): void {
    // What nobody asked for would be read as the answer to the next request.
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
    this.isOver = true
    this.#user?.originClosed(error)
  }

  close(): void {
    this.#user = undefined
    if (!this.isOver) this.wire.close()
    this.isOver = true
  }

  /** So that what was begun cannot look complete. */
  reset(): void {
    this.#user = undefined
    if (!this.isOver) this.wire.reset()
    this.isOver = true
  }
}
