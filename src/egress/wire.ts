// A TCP connection as the proxy sees it, and where connections come from. There are two makes: `wires/epoll.ts` asks the
// kernel itself and moves bytes without copying them; `wires/net.ts` stands on Node's sockets, for every other system.
// Everything is a call and a call back within one thread: a promise for each chunk would cost more than the chunk.
import type { Listen } from '../lib/settings.ts'

/** Who is told what becomes of a wire. */
export interface WireOwner {
  /** Bytes came. The memory is used again after the call: copy what must outlive it. */
  bytes(bytes: Buffer): void
  /** The other side has sent its last byte. */
  ended(): void
  /** What `write` could not hand over at once has gone. */
  drained(): void
  /** It is over both ways, with the system's name of the error if it broke. Not told to an owner who ended it by `close` or `reset`. */
  closed(error?: string): void
}

export interface Endpoint {
  /** In its one spelling: IPv4 plain, also where it came in by a socket that takes both families. */
  readonly address: string
  readonly port: number
}

export interface Wire {
  /** Whoever takes a wire over puts himself here. */
  owner: WireOwner
  readonly remote: Endpoint
  readonly local: Endpoint
  /** Bytes that came from the other side, and that it was sent. */
  readonly bytesIn: number
  readonly bytesOut: number
  /** How much of `bytesOut` has not arrived there, as far as this make can tell. */
  readonly unsent: number
  /** Whether the other side has sent its last byte. */
  readonly hasEnded: boolean
  /** False when some of it waits: then no more should be written before `drained`. Never keeps `bytes` itself. */
  write(bytes: Uint8Array): boolean
  /** No more is written; what was written still goes, and then the other side sees the end. When both have ended, it is closed. */
  end(): void
  /** At once, and the other side sees a reset. */
  reset(): void
  /** At once. What waits to be written is dropped. */
  close(): void
  /** No bytes are told until `resume`; a wire starts out telling. */
  pause(): void
  resume(): void
  /** Where a redirected connection was going; nothing when it was not redirected, or nobody can say. */
  originalDestination(): Endpoint | undefined
}

export interface Bound extends Endpoint {
  close(): void
}

/** A source whose connections are known by the listener that they came in by. */
export interface ListenerSource {
  /** Stands in `remote.address` of each of its connections. */
  readonly key: string
  /** With so many connections open the others wait in the kernel. */
  readonly maxOpen: number
}

export interface ListenerUser {
  accepted(wire: Wire): void
  /** No connection will come. Completes "the source …". */
  failed(why: string): void
}

export interface Timer {
  cancel(): void
}

export interface Wires {
  /** Throws the system's error when the address is taken or not ours. */
  listen(at: Listen, accepted: (wire: Wire) => void): Promise<Bound>
  /**
   * Takes a listener that another process sends over `socket`, which is closed afterwards. `close` ends the listener and
   * every connection that came in by it. Only where the system's own calls are at hand.
   */
  receiveListener?(socket: number, source: ListenerSource, user: ListenerUser): { close(): void }
  /** `connected` is told once; before it only `closed` can be. */
  connect(to: Endpoint, owner: WireOwner & { connected(): void }): Wire
  /**
   * From now on what comes from one goes to the other, the end included; `from`'s owner hears no `bytes` and no `ended`
   * any more, and `to`'s no `drained`. What `to` has waiting goes first.
   */
  pump(from: Wire, to: Wire): void
  /** Never early; late by about a hundredth of a second, or of its length. */
  after(ms: number, run: () => void): Timer
  /** Milliseconds of a clock that is never set. */
  now(): number
}
