// One connection on Linux system calls. epoll is edge-triggered: it reports readiness once, so the connection remembers it
// until a call returns EAGAIN.

import {
  EAGAIN,
  EINTR,
  EPOLLERR,
  EPOLLHUP,
  EPOLLIN,
  EPOLLOUT,
  EPOLLPRI,
  EPOLLRDHUP,
  errorName,
  type Kernel,
  MSG_NOSIGNAL,
  NULL,
  SHUT_WR,
  SPLICE_F_MOVE,
  SPLICE_F_NONBLOCK,
} from './kernel.ts'
import type { Pipe, Pipes } from './pipes.ts'
import { NO_OWNER } from './socket-defaults.ts'
import type { ConnectionOwner, SocketAddress, TcpConnection } from './transport.ts'

/** The part of the event loop that a connection uses. */
export interface EpollLoop {
  readonly kernel: Kernel
  readonly pipes: Pipes
  /** Receive buffer shared by all connections. */
  readonly buffer: Buffer
  readonly bufferPointer: bigint
  /** Calls `process` again after the other connections had their turn. */
  requeue(connection: EpollConnection): void
  /** Unregisters a connection whose descriptor is closed. */
  remove(connection: EpollConnection): void
  localAddressOf(fd: number): SocketAddress
  originalDestinationOf(fd: number, remote: SocketAddress): SocketAddress | undefined
  /** Bytes written that the peer has not acknowledged. */
  countUnsent(fd: number): number
  closeWithReset(fd: number): void
  connectError(fd: number): number
}

/** Bytes that one connection moves before the others have their turn. */
const TURN_BYTES = 4_194_304
/** Chunks of at least this size are spliced; smaller ones are copied, which takes fewer system calls. */
const BULK_BYTES = 65_536
const SPLICE_BYTES = 262_144
const SPLICE_FLAGS = SPLICE_F_MOVE | SPLICE_F_NONBLOCK
/** Limits of one read from a client, so that thousands of clients that send before they are connected cost little memory. */
const CLIENT_READ_BYTES = 65_536
const CLIENT_FIRST_READ_BYTES = 16_384

export class EpollConnection implements TcpConnection {
  owner: ConnectionOwner = NO_OWNER
  readonly fd: number
  readonly remote: SocketAddress
  bytesIn = 0
  bytesOut = 0
  hasEnded = false
  /** Index into the transport's slots; epoll reports it with each event. */
  slot = -1
  /** Connections accepted by the same handed-over listener; closed ones are removed. */
  group: Set<EpollConnection> | undefined
  isQueued = false
  readonly #loop: EpollLoop
  /** Called once when the connection is established. */
  #connected: (() => void) | undefined
  #local: SocketAddress | undefined
  #isReadable = false
  #isWritable: boolean
  /** The kernel reported that the peer has ended; unread bytes may remain. */
  #hasPeerHungUp = false
  /** The peer has sent urgent data: recv() stops there, and splice() never passes it. */
  #isUrgent = false
  #isPaused = false
  #isEndRequested = false
  #isShutDown = false
  #isClosed = false
  #pending: Buffer[] = []
  #pumpTarget: EpollConnection | undefined
  #pumpSource: EpollConnection | undefined
  #pipe: Pipe | undefined
  #pipedBytes = 0
  #isBulk = false
  readonly #isClient: boolean

  constructor(loop: EpollLoop, fd: number, remote: SocketAddress, connected?: () => void) {
    this.#loop = loop
    this.fd = fd
    this.remote = remote
    this.#connected = connected
    this.#isClient = connected === undefined
    this.#isWritable = this.#isClient
  }

  get local(): SocketAddress {
    this.#local ??= this.#loop.localAddressOf(this.fd)
    return this.#local
  }

  get unsent(): number {
    return this.#isClosed ? 0 : this.#loop.countUnsent(this.fd)
  }

  originalDestination(): SocketAddress | undefined {
    return this.#loop.originalDestinationOf(this.fd, this.remote)
  }

  write(bytes: Uint8Array): boolean {
    if (this.#isClosed || this.#isEndRequested) return true
    let sent = 0
    if (this.#isWritable && this.#pending.length === 0) {
      sent = this.#send(this.#loop.kernel.pointerTo(bytes), bytes.length)
      if (sent < 0 || sent === bytes.length) return true
    }
    this.#pending.push(Buffer.from(bytes.subarray(sent)))
    return false
  }

  end(): void {
    if (this.#isEndRequested) return
    this.#isEndRequested = true
    if (this.#pending.length === 0) this.#finish()
  }

  reset(): void {
    this.#release(() => this.#loop.closeWithReset(this.fd))
  }

  close(): void {
    this.#release(() => this.#loop.kernel.close(this.fd))
  }

  pause(): void {
    this.#isPaused = true
  }

  resume(): void {
    this.#isPaused = false
    if (this.#isReadable) this.#loop.requeue(this)
  }

  pumpTo(to: EpollConnection): void {
    this.#pumpTarget = to
    to.#pumpSource = this
    this.#isPaused = false
    if (this.hasEnded) to.end()
    else if (this.#isReadable) this.#loop.requeue(this)
  }

  handleEvents(events: number): void {
    if (events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) this.#isReadable = true
    if (events & EPOLLPRI) this.#switchToUrgent()
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) this.#hasPeerHungUp = true
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) this.#isWritable = true
    if (this.#connected) {
      if (this.#isWritable) this.#connect(events & (EPOLLERR | EPOLLHUP) ? this.#loop.connectError(this.fd) : 0)
      return
    }
    if (events & EPOLLERR && (this.#isPaused || this.#isBlocked)) this.closeWithError(this.#loop.connectError(this.fd))
    else this.process()
  }

  /** Writes and reads as much as is possible now. */
  process(): void {
    if (this.#isClosed) return
    if (this.#isWritable && (this.#pending.length > 0 || this.#pumpSource)) this.#flush()
    if (this.#isClosed || !this.#isReadable) return
    if (this.#pumpTarget) this.#pump(this.#pumpTarget)
    else this.#read()
  }

  #connect(error: number): void {
    const connected = this.#connected
    this.#connected = undefined
    if (error !== 0) this.closeWithError(error)
    else connected?.()
    // Writes and end() before the connection was established were queued.
    if (!this.#isClosed && (this.#pending.length > 0 || this.#isEndRequested)) this.#flush()
    if (!this.#isClosed && this.#isReadable) this.process()
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  get #isBlocked(): boolean {
    return this.#pipedBytes > 0 || (this.#pumpTarget !== undefined && this.#pumpTarget.#pending.length > 0)
  }

  #read(): void {
    const { buffer, bufferPointer, kernel } = this.#loop
    for (let moved = 0; this.#isReadable && !this.#isPaused && !this.#isClosed && !this.#pumpTarget; ) {
      if (moved > TURN_BYTES) {
        this.#loop.requeue(this)
        return
      }
      const limit = this.#readLimit
      const received = kernel.recv(this.fd, bufferPointer, limit, 0)
      if (received <= 0) {
        this.#stopReading(received)
        return
      }
      moved += received
      this.bytesIn += received
      if (received < limit) this.#noteShortRead()
      this.owner.received(buffer.subarray(0, received))
    }
    // The owner may have called pump() from `received`.
    if (this.#pumpTarget && this.#isReadable && !this.#isClosed) this.#pump(this.#pumpTarget)
  }

  get #readLimit(): number {
    if (!this.#isClient) return this.#loop.buffer.length
    return this.bytesIn < CLIENT_READ_BYTES ? CLIENT_FIRST_READ_BYTES : CLIENT_READ_BYTES
  }

  /** A short read has emptied the socket, unless only its end is left or the read stopped at urgent data. */
  #noteShortRead(): void {
    if (!this.#hasPeerHungUp && !this.#isUrgent) this.#isReadable = false
  }

  #switchToUrgent(): void {
    this.#isUrgent = true
    this.#isBulk = false
    this.#returnPipe()
  }

  #stopReading(received: number): void {
    if (received < 0) {
      const error = this.#loop.kernel.errno()
      if (error === EINTR) this.#loop.requeue(this)
      else if (error === EAGAIN) this.#isReadable = false
      else this.closeWithError(error)
      return
    }
    this.#isReadable = false
    this.hasEnded = true
    if (this.#pumpTarget) this.#pumpTarget.end()
    else this.owner.ended()
    this.#closeIfDone()
  }

  #pump(to: EpollConnection): void {
    for (let moved = 0; this.#isReadable && !this.#isClosed && !to.#isClosed; ) {
      if (this.#pipedBytes > 0 || to.#pending.length > 0) return
      if (moved > TURN_BYTES) {
        this.#loop.requeue(this)
        return
      }
      const received = this.#isBulk ? this.#spliceChunk(to) : this.#copyChunk(to)
      if (received <= 0) return
      moved += received
    }
  }

  /** One recv() and one send(). */
  #copyChunk(to: EpollConnection): number {
    const { buffer, bufferPointer, kernel } = this.#loop
    const received = kernel.recv(this.fd, bufferPointer, BULK_BYTES, 0)
    if (received <= 0) {
      this.#stopReading(received)
      return received
    }
    this.bytesIn += received
    if (received < BULK_BYTES) this.#noteShortRead()
    else this.#isBulk = !this.#isUrgent
    const sent = to.#isWritable ? to.#send(bufferPointer, received) : 0
    if (sent >= 0 && sent < received) to.#pending.push(Buffer.from(buffer.subarray(sent, received)))
    return received
  }

  /** Through a pipe in the kernel. */
  #spliceChunk(to: EpollConnection): number {
    this.#pipe ??= this.#loop.pipes.take()
    if (!this.#pipe) {
      this.#isBulk = false
      return 1
    }
    const received = this.#loop.kernel.splice(this.fd, NULL, this.#pipe.to, NULL, SPLICE_BYTES, SPLICE_FLAGS)
    if (received < 0) {
      // First, because closing a pipe may change errno.
      this.#stopReading(received)
      this.#returnPipe()
      return received
    }
    if (received === 0) {
      // Either the end or urgent data, which splice() never passes. recv() tells which.
      this.#isBulk = false
      this.#returnPipe()
      return 1
    }
    this.bytesIn += received
    this.#pipedBytes = received
    if (received < BULK_BYTES / 4) this.#isBulk = false
    this.#drainPipe(to)
    return received
  }

  #drainPipe(to: EpollConnection): void {
    while (this.#pipedBytes > 0 && this.#pipe && to.#isWritable) {
      const sent = this.#loop.kernel.splice(this.#pipe.from, NULL, to.fd, NULL, this.#pipedBytes, SPLICE_FLAGS)
      if (sent < 0) {
        to.#stopWriting()
        return
      }
      this.#pipedBytes -= sent
      to.bytesOut += sent
    }
    if (this.#pipedBytes === 0 && !this.#isBulk) this.#returnPipe()
  }

  #send(at: bigint, length: number): number {
    const sent = this.#loop.kernel.send(this.fd, at, length, MSG_NOSIGNAL)
    if (sent < 0) {
      this.#stopWriting()
      return this.#isClosed ? -1 : 0
    }
    this.bytesOut += sent
    if (sent < length) this.#isWritable = false
    return sent
  }

  #stopWriting(): void {
    const error = this.#loop.kernel.errno()
    if (error === EAGAIN) this.#isWritable = false
    else if (error !== EINTR) this.closeWithError(error)
    else this.#loop.requeue(this)
  }

  /** Sends queued bytes, then pipedBytes ones, then resumes the pump source. */
  #flush(): void {
    const hadPending = this.#pending.length > 0
    while (this.#pending.length > 0 && this.#isWritable) {
      const [first] = this.#pending
      if (!first) break
      const sent = this.#send(this.#loop.kernel.pointerTo(first), first.length)
      if (sent < 0) return
      if (sent === first.length) this.#pending.shift()
      else this.#pending[0] = first.subarray(sent)
    }
    if (this.#pending.length > 0 || this.#isClosed) return
    if (this.#isEndRequested) this.#finish()
    const from = this.#pumpSource
    if (from && !from.#isClosed) {
      if (from.#pipedBytes > 0) from.#drainPipe(this)
      if (from.#pipedBytes === 0 && from.#isReadable) this.#loop.requeue(from)
    } else if (hadPending && !this.#isEndRequested) this.owner.drained()
  }

  #finish(): void {
    if (this.#isShutDown || this.#isClosed || this.#connected) return
    this.#isShutDown = true
    // If the peer has ended, close() has the same effect.
    if (!this.hasEnded) this.#loop.kernel.shutdown(this.fd, SHUT_WR)
    this.#closeIfDone()
  }

  #closeIfDone(): void {
    if (this.hasEnded && this.#isShutDown && !this.#isClosed) this.closeWithError(0)
  }

  /** 0 is an orderly end. */
  closeWithError(error: number): void {
    if (this.#isClosed) return
    this.close()
    this.owner.closed(error === 0 ? undefined : errorName(error))
  }

  #release(closeDescriptor: () => void): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#pending = []
    this.#returnPipe()
    if (this.#pipe) this.#loop.pipes.drop(this.#pipe)
    this.#pipe = undefined
    closeDescriptor()
    this.#loop.remove(this)
  }

  #returnPipe(): void {
    if (this.#pipe && this.#pipedBytes === 0) {
      this.#loop.pipes.give(this.#pipe)
      this.#pipe = undefined
    }
  }
}
