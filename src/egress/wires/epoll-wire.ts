// One connection on the kernel's own calls. The kernel says once that there is something to read or room to write; what it
// said is kept here until a call finds that it is no longer so.
import type { Endpoint, Wire, WireOwner } from '../wire.ts'
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
import { NOBODY } from './wiring.ts'

/** What a wire needs of the loop that it lives in. */
export interface Loop {
  readonly kernel: Kernel
  readonly pipes: Pipes
  /** Memory that all wires read into, one after the other. */
  readonly buffer: Buffer
  readonly bufferAt: bigint
  /** Once more, after the others. */
  again(wire: EpollWire): void
  /** The descriptor is closed; the wire is not told anything any more. */
  forget(wire: EpollWire): void
  localOf(fd: number): Endpoint
  originalOf(fd: number, remote: Endpoint): Endpoint | undefined
  /** What was written and the other side has not acknowledged. */
  unsentOf(fd: number): number
  /** Closes with a reset. */
  cut(fd: number): void
  connectError(fd: number): number
}

/** What one wire moves before the others have their turn. */
const TURN_BYTES = 4_194_304
/** Chunks from this size on are moved within the kernel; smaller ones are copied, which costs fewer calls. */
const BULK_BYTES = 65_536
const SPLICE_BYTES = 262_144
/**
 * What is read of a client at once, so that thousands of them that send before they are connected anywhere cost little:
 * a head or a hello at first, and more of one that goes on.
 */
const CLIENT_READ_BYTES = 65_536
const CLIENT_FIRST_READ_BYTES = 16_384

export class EpollWire implements Wire {
  owner: WireOwner = NOBODY
  readonly fd: number
  readonly remote: Endpoint
  bytesIn = 0
  bytesOut = 0
  hasEnded = false
  /** Its place among the wires, by which the kernel names it. */
  slot = -1
  /** Those that came in by the same handed-over listener; a closed one is taken out. */
  group: Set<EpollWire> | undefined
  isQueued = false
  readonly #loop: Loop
  /** Told once when the connection is there. */
  #connected: (() => void) | undefined
  #local: Endpoint | undefined
  #mayRead = false
  #mayWrite: boolean
  /** The other side has ended, says the kernel; what it sent before may still lie there. */
  #isEnding = false
  /** The other side has sent urgent data: a read stops where it lies, and what is moved within the kernel never passes it. */
  #isUrgent = false
  #isPaused = false
  #isFinishing = false
  #isFinished = false
  #isOver = false
  #out: Buffer[] = []
  #to: EpollWire | undefined
  #from: EpollWire | undefined
  #pipe: Pipe | undefined
  #piped = 0
  #isBulk = false
  readonly #isClient: boolean

  constructor(loop: Loop, fd: number, remote: Endpoint, connected?: () => void) {
    this.#loop = loop
    this.fd = fd
    this.remote = remote
    this.#connected = connected
    this.#isClient = connected === undefined
    this.#mayWrite = this.#isClient
  }

  get local(): Endpoint {
    this.#local ??= this.#loop.localOf(this.fd)
    return this.#local
  }

  get unsent(): number {
    return this.#isOver ? 0 : this.#loop.unsentOf(this.fd)
  }

  originalDestination(): Endpoint | undefined {
    return this.#loop.originalOf(this.fd, this.remote)
  }

  write(bytes: Uint8Array): boolean {
    if (this.#isOver || this.#isFinishing) return true
    let sent = 0
    if (this.#mayWrite && this.#out.length === 0) {
      sent = this.#send(this.#loop.kernel.pointerTo(bytes), bytes.length)
      if (sent < 0 || sent === bytes.length) return true
    }
    this.#out.push(Buffer.from(bytes.subarray(sent)))
    return false
  }

  end(): void {
    if (this.#isFinishing) return
    this.#isFinishing = true
    if (this.#out.length === 0) this.#finish()
  }

  reset(): void {
    this.#leave(() => this.#loop.cut(this.fd))
  }

  close(): void {
    this.#leave(() => this.#loop.kernel.close(this.fd))
  }

  pause(): void {
    this.#isPaused = true
  }

  resume(): void {
    this.#isPaused = false
    if (this.#mayRead) this.#loop.again(this)
  }

  pumpTo(to: EpollWire): void {
    this.#to = to
    to.#from = this
    this.#isPaused = false
    if (this.hasEnded) to.end()
    else if (this.#mayRead) this.#loop.again(this)
  }

  /** The kernel has something to say. */
  notice(events: number): void {
    if (events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) this.#mayRead = true
    if (events & EPOLLPRI) this.#goCarefully()
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) this.#isEnding = true
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) this.#mayWrite = true
    if (this.#connected) {
      if (this.#mayWrite) this.#connect(events & (EPOLLERR | EPOLLHUP) ? this.#loop.connectError(this.fd) : 0)
      return
    }
    if (events & EPOLLERR && (this.#isPaused || this.#isBlocked)) this.#break(this.#loop.connectError(this.fd))
    else this.serve()
  }

  /** Everything that can be done now. */
  serve(): void {
    if (this.#isOver) return
    if (this.#mayWrite && (this.#out.length > 0 || this.#from)) this.#flush()
    if (this.#isOver || !this.#mayRead) return
    if (this.#to) this.#pump(this.#to)
    else this.#read()
  }

  /** For a connection that could not even be tried. */
  fail(error: number): void {
    this.#break(error)
  }

  #connect(error: number): void {
    const connected = this.#connected
    this.#connected = undefined
    if (error !== 0) this.#break(error)
    else connected?.()
    // What was written meanwhile, and the end behind it, has waited for this.
    if (!this.#isOver && (this.#out.length > 0 || this.#isFinishing)) this.#flush()
    if (!this.#isOver && this.#mayRead) this.serve()
  }

  get isGone(): boolean {
    return this.#isOver
  }

  get #isBlocked(): boolean {
    return this.#piped > 0 || (this.#to !== undefined && this.#to.#out.length > 0)
  }

  #read(): void {
    const { buffer, bufferAt, kernel } = this.#loop
    for (let moved = 0; this.#mayRead && !this.#isPaused && !this.#isOver && !this.#to; ) {
      if (moved > TURN_BYTES) {
        this.#loop.again(this)
        return
      }
      const most = this.#readBytes
      const got = kernel.recv(this.fd, bufferAt, most, 0)
      if (got <= 0) {
        this.#stopReading(got)
        return
      }
      moved += got
      this.bytesIn += got
      if (got < most) this.#fellShort()
      this.owner.bytes(buffer.subarray(0, got))
    }
    // Whoever owns it may have had it pumped meanwhile.
    if (this.#to && this.#mayRead && !this.#isOver) this.#pump(this.#to)
  }

  get #readBytes(): number {
    if (!this.#isClient) return this.#loop.buffer.length
    return this.bytesIn < CLIENT_READ_BYTES ? CLIENT_FIRST_READ_BYTES : CLIENT_READ_BYTES
  }

  /** What fell short has emptied the socket, unless its end is all that is left, or it stopped at urgent data. */
  #fellShort(): void {
    if (!this.#isEnding && !this.#isUrgent) this.#mayRead = false
  }

  #goCarefully(): void {
    this.#isUrgent = true
    this.#isBulk = false
    this.#returnPipe()
  }

  #stopReading(got: number): void {
    if (got < 0) {
      const error = this.#loop.kernel.errno()
      if (error === EINTR) this.#loop.again(this)
      else if (error === EAGAIN) this.#mayRead = false
      else this.#break(error)
      return
    }
    this.#mayRead = false
    this.hasEnded = true
    if (this.#to) this.#to.end()
    else this.owner.ended()
    this.#closeIfDone()
  }

  #pump(to: EpollWire): void {
    for (let moved = 0; this.#mayRead && !this.#isOver && !to.#isOver; ) {
      if (this.#piped > 0 || to.#out.length > 0) return
      if (moved > TURN_BYTES) {
        this.#loop.again(this)
        return
      }
      const got = this.#isBulk ? this.#moveBulk(to) : this.#moveSome(to)
      if (got <= 0) return
      moved += got
    }
  }

  /** By a copy: one call in and one out. */
  #moveSome(to: EpollWire): number {
    const { buffer, bufferAt, kernel } = this.#loop
    const got = kernel.recv(this.fd, bufferAt, BULK_BYTES, 0)
    if (got <= 0) {
      this.#stopReading(got)
      return got
    }
    this.bytesIn += got
    if (got < BULK_BYTES) this.#fellShort()
    else this.#isBulk = !this.#isUrgent
    const sent = to.#mayWrite ? to.#send(bufferAt, got) : 0
    if (sent >= 0 && sent < got) to.#out.push(Buffer.from(buffer.subarray(sent, got)))
    return got
  }

  /** Through a pipe, without a copy. */
  #moveBulk(to: EpollWire): number {
    this.#pipe ??= this.#loop.pipes.take()
    if (!this.#pipe) {
      this.#isBulk = false
      return 1
    }
    const flags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK
    const got = this.#loop.kernel.splice(this.fd, NULL, this.#pipe.to, NULL, SPLICE_BYTES, flags)
    if (got < 0) {
      // Before anything else: closing a pipe may change errno.
      this.#stopReading(got)
      this.#returnPipe()
      return got
    }
    if (got === 0) {
      // The end, or urgent data in front of it, which splice() never passes. recv() tells which.
      this.#isBulk = false
      this.#returnPipe()
      return 1
    }
    this.bytesIn += got
    this.#piped = got
    if (got < BULK_BYTES / 4) this.#isBulk = false
    this.#empty(to)
    return got
  }

  /** What lies in the pipe, to where it goes. */
  #empty(to: EpollWire): void {
    while (this.#piped > 0 && this.#pipe && to.#mayWrite) {
      const flags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK
      const sent = this.#loop.kernel.splice(this.#pipe.from, NULL, to.fd, NULL, this.#piped, flags)
      if (sent < 0) {
        to.#stopWriting()
        return
      }
      this.#piped -= sent
      to.bytesOut += sent
    }
    if (this.#piped === 0 && !this.#isBulk) this.#returnPipe()
  }

  #send(at: bigint, length: number): number {
    const sent = this.#loop.kernel.send(this.fd, at, length, MSG_NOSIGNAL)
    if (sent < 0) {
      this.#stopWriting()
      return this.#isOver ? -1 : 0
    }
    this.bytesOut += sent
    if (sent < length) this.#mayWrite = false
    return sent
  }

  #stopWriting(): void {
    const error = this.#loop.kernel.errno()
    if (error === EAGAIN) this.#mayWrite = false
    else if (error !== EINTR) this.#break(error)
    else this.#loop.again(this)
  }

  /** There is room: for what waits here, for what waits in the pipe, and then for more. */
  #flush(): void {
    const hadWaiting = this.#out.length > 0
    while (this.#out.length > 0 && this.#mayWrite) {
      const [first] = this.#out
      if (!first) break
      const sent = this.#send(this.#loop.kernel.pointerTo(first), first.length)
      if (sent < 0) return
      if (sent === first.length) this.#out.shift()
      else this.#out[0] = first.subarray(sent)
    }
    if (this.#out.length > 0 || this.#isOver) return
    if (this.#isFinishing) this.#finish()
    const from = this.#from
    if (from && !from.#isOver) {
      if (from.#piped > 0) from.#empty(this)
      if (from.#piped === 0 && from.#mayRead) this.#loop.again(from)
    } else if (hadWaiting && !this.#isFinishing) this.owner.drained()
  }

  #finish(): void {
    if (this.#isFinished || this.#isOver || this.#connected) return
    this.#isFinished = true
    // With nothing left to come, closing says the same.
    if (!this.hasEnded) this.#loop.kernel.shutdown(this.fd, SHUT_WR)
    this.#closeIfDone()
  }

  #closeIfDone(): void {
    if (this.hasEnded && this.#isFinished && !this.#isOver) this.#break(0)
  }

  #break(error: number): void {
    if (this.#isOver) return
    this.close()
    this.owner.closed(error === 0 ? undefined : errorName(error))
  }

  #leave(closeDescriptor: () => void): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#out = []
    if (this.#pipe) {
      if (this.#piped > 0) this.#loop.pipes.drop(this.#pipe)
      else this.#loop.pipes.give(this.#pipe)
    }
    this.#pipe = undefined
    closeDescriptor()
    this.#loop.forget(this)
  }

  #returnPipe(): void {
    if (this.#pipe && this.#piped === 0) {
      this.#loop.pipes.give(this.#pipe)
      this.#pipe = undefined
    }
  }
}
