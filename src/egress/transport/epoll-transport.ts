// TCP transport on Linux system calls with its own epoll loop. It runs in a dedicated thread that blocks in epoll_wait.
import { arch } from 'node:os'
import type { ListenEndpoint } from '../../lib/settings.ts'
import type { AcceptGuard } from './accept-guard.ts'
import { EpollConnection, type EpollLoop } from './epoll-connection.ts'
import { FileBudget } from './file-budget.ts'
import { DescriptorReceiver, kindOfDescriptor } from './handover.ts'
import {
  AF_INET6,
  EAGAIN,
  EBADF,
  EINPROGRESS,
  EINVAL,
  EIO,
  EMFILE,
  ENFILE,
  ENOBUFS,
  ENOMEM,
  ENOTSOCK,
  EOPNOTSUPP,
  EPOLL_CTL_ADD,
  EPOLL_CTL_DEL,
  EPOLLERR,
  EPOLLET,
  EPOLLHUP,
  EPOLLIN,
  EPOLLOUT,
  EPOLLPRI,
  EPOLLRDHUP,
  F_GETFL,
  F_SETFL,
  IPPROTO_IP,
  IPPROTO_IPV6,
  IPPROTO_TCP,
  IPV6_V6ONLY,
  type Kernel,
  SIOCOUTQ,
  SO_ERROR,
  SO_KEEPALIVE,
  SO_LINGER,
  SO_ORIGINAL_DST,
  SO_REUSEADDR,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  SOL_SOCKET,
  systemError,
  TCP_KEEPIDLE,
  TCP_KEEPINTVL,
  TCP_NODELAY,
} from './kernel.ts'
import { Pipes } from './pipes.ts'
import { ADDRESS_BYTES, readAddress, writeAddress } from './socket-address.ts'
import { KEEP_ALIVE_MS, PROBE_MS } from './socket-defaults.ts'
import { Timers } from './timers.ts'
import type {
  BoundListener,
  ConnectionOwner,
  ListenerCallbacks,
  ListenerSource,
  SocketAddress,
  TcpConnection,
  TcpTransport,
  Timer,
} from './transport.ts'

const BACKLOG = 4096
/** Used in place of a descriptor when the budget forbids opening one. */
const NO_ROOM = -2
const EVENTS_MAX = 512
/** Connections accepted per event, so that open connections get their turn. */
const ACCEPTS_MAX = 64
const BUFFER_BYTES = 262_144
/** Pause of accepting when files or memory run out. */
const STARVED_MS = 100
/** struct epoll_event is packed on x64: three 32-bit words there, four on arm64. */
const EVENT_WORDS = arch() === 'x64' ? 3 : 4
const CONNECTION_EVENTS = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET
/** With these errors the connection stays in the backlog, and epoll would report it again at once. */
const STARVING: ReadonlySet<number> = new Set([EMFILE, ENFILE, ENOBUFS, ENOMEM])
/** The descriptor is no longer a listener. */
const NOT_LISTENING: ReadonlySet<number> = new Set([EINVAL, EBADF, ENOTSOCK, EOPNOTSUPP])
const HANDOVER_ERRORS = {
  nothing: 'sent no descriptor',
  lost: 'sent a listener, but the proxy can open no more files',
} as const
/** epoll data: the low word is the slot, the high word its generation; for other descriptors, this marker and the descriptor. */
const NOT_A_CONNECTION = 0xffff_ffff

interface Slot {
  connection: EpollConnection | undefined
  /** Incremented on each reuse, so that an event for the previous connection is ignored. */
  generation: number
}

interface Listener {
  readonly fd: number
  readonly accepted: (connection: TcpConnection) => void
  /** Set if another process handed it over. */
  readonly handedOver?: HandedOver
  isStarved: boolean
}

/** A listener from another process, which may keep a copy and change it at any time. */
interface HandedOver {
  readonly source: ListenerSource
  readonly callbacks: ListenerCallbacks
  readonly connections: Set<EpollConnection>
  /** The handover socket, then the listener; -1 once both are closed. */
  fd: number
}

export interface EpollCallbacks {
  /** Another thread wrote to `wakeFd`. */
  woken(): void
  /** A bug that affects one connection only. */
  failed(error: unknown): void
  /** No more files can be opened; called once when that begins. */
  starved(): void
  /** Closes a non-socket descriptor on another thread: with FUSE the sender decides how long close() takes. */
  discard?(fd: number): void
  readonly acceptGuard?: AcceptGuard
  /** Maximum of descriptors for connections and pipes; unlimited by default. */
  readonly maxFiles?: number
}

export class EpollTransport implements TcpTransport, EpollLoop {
  readonly kernel: Kernel
  readonly pipes: Pipes
  readonly buffer: Buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES)
  readonly bufferPointer: bigint
  /** Any thread wakes the loop by writing an 8-byte number here. The waking thread closes it at the end. */
  readonly wakeFd: number
  readonly #callbacks: EpollCallbacks
  readonly #budget: FileBudget
  readonly #epoll: number
  readonly #events = new Uint32Array(EVENTS_MAX * EVENT_WORDS)
  readonly #eventsPointer: bigint
  readonly #event = new Uint32Array(EVENT_WORDS)
  readonly #eventPointer: bigint
  readonly #address = Buffer.allocUnsafeSlow(ADDRESS_BYTES)
  readonly #addressPointer: bigint
  readonly #ints = new Int32Array(2)
  readonly #intsPointer: bigint
  readonly #slots: Slot[] = []
  readonly #free: number[] = []
  readonly #listeners = new Map<number, Listener>()
  /** Expected listeners by their handover socket. */
  readonly #handovers = new Map<number, HandedOver>()
  readonly #receiver: DescriptorReceiver
  readonly #timers = new Timers()
  #queue: EpollConnection[] = []
  #nowMs = performance.now()
  #isStopped = false

  constructor(kernel: Kernel, callbacks: EpollCallbacks) {
    this.kernel = kernel
    this.#callbacks = callbacks
    this.#budget = new FileBudget(callbacks.maxFiles)
    this.pipes = new Pipes(kernel, this.#budget)
    this.#receiver = new DescriptorReceiver(kernel)
    this.bufferPointer = kernel.pointerTo(this.buffer)
    this.#eventsPointer = kernel.pointerTo(bytesOf(this.#events))
    this.#eventPointer = kernel.pointerTo(bytesOf(this.#event))
    this.#addressPointer = kernel.pointerTo(this.#address)
    this.#intsPointer = kernel.pointerTo(bytesOf(this.#ints))
    this.#epoll = this.#mustSucceed(kernel.epoll_create1(SOCK_CLOEXEC))
    this.wakeFd = this.#mustSucceed(kernel.eventfd(0, SOCK_NONBLOCK | SOCK_CLOEXEC))
    this.#watch(this.wakeFd, EPOLLIN, NOT_A_CONNECTION, this.wakeFd)
  }

  /** Returns after `stop`. */
  run(): void {
    while (!this.#isStopped) this.#runOnce()
  }

  stop(): void {
    this.#isStopped = true
  }

  /** Call after `run` has returned. Leaves `wakeFd` open because another thread may be writing to it. */
  close(): void {
    for (const { connection } of this.#slots) connection?.close()
    for (const fd of [...this.#listeners.keys(), ...this.#handovers.keys()]) this.kernel.close(fd)
    this.pipes.close()
    this.kernel.close(this.#epoll)
  }

  now(): number {
    return this.#nowMs
  }

  after(ms: number, run: () => void): Timer {
    return this.#timers.add(ms, this.#nowMs, run)
  }

  requeue(connection: EpollConnection): void {
    if (connection.isQueued) return
    connection.isQueued = true
    this.#queue.push(connection)
  }

  remove(connection: EpollConnection): void {
    const { slot } = connection
    if (connection.fd >= 0) this.#budget.give(1)
    connection.group?.delete(connection)
    const entry = this.#slots[slot]
    if (!entry) return
    entry.connection = undefined
    entry.generation++
    this.#free.push(slot)
  }

  /** `listen` without a promise, for callers that start the loop afterwards. */
  listenNow(at: ListenEndpoint, accepted: (connection: TcpConnection) => void): BoundListener {
    const { kernel } = this
    const { family, length } = writeAddress(this.#address, { address: at.host, port: at.port })
    const fd = this.#mustSucceed(kernel.socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0))
    this.#setOption(fd, SOL_SOCKET, SO_REUSEADDR, 1)
    if (family === AF_INET6) this.#setOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, at.host === '::' ? 0 : 1)
    // Accepted sockets inherit these options.
    this.#setSocketOptions(fd)
    writeAddress(this.#address, { address: at.host, port: at.port })
    if (kernel.bind(fd, this.#addressPointer, length) !== 0 || kernel.listen(fd, BACKLOG) !== 0) {
      const error = systemError(kernel.errno())
      kernel.close(fd)
      throw error
    }
    this.#listeners.set(fd, { fd, accepted, isStarved: false })
    this.#watch(fd, EPOLLIN, NOT_A_CONNECTION, fd)
    const close = (): void => {
      if (this.#listeners.delete(fd)) kernel.close(fd)
    }
    return { ...this.localAddressOf(fd), close }
  }

  listen(at: ListenEndpoint, accepted: (connection: TcpConnection) => void): Promise<BoundListener> {
    return new Promise((resolve) => resolve(this.listenNow(at, accepted)))
  }

  receiveListener(socket: number, source: ListenerSource, callbacks: ListenerCallbacks): { close(): void } {
    const handedOver: HandedOver = { source, callbacks, connections: new Set(), fd: socket }
    this.#handovers.set(socket, handedOver)
    const error = this.#tryWatch(socket, EPOLLIN, NOT_A_CONNECTION, socket)
    if (error !== 0) {
      this.#closeListener(handedOver)
      throw systemError(error)
    }
    const close = (): void => {
      this.#closeListener(handedOver)
      for (const connection of [...handedOver.connections]) connection.close()
    }
    return { close }
  }

  connect(to: SocketAddress, owner: ConnectionOwner & { connected(): void }): TcpConnection {
    const { kernel } = this
    const { family, length } = writeAddress(this.#address, to)
    const fd = this.#makeRoom() ? kernel.socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : NO_ROOM
    // Read errno before allocating: garbage collection makes system calls that change it.
    const openError = fd === NO_ROOM ? EMFILE : fd < 0 ? kernel.errno() : 0
    const connection = new EpollConnection(this, fd, to, () => owner.connected())
    connection.owner = owner
    if (openError !== 0) return this.#failLater(connection, openError)
    this.#budget.take(1)
    this.#setSocketOptions(fd)
    const error = kernel.connect(fd, this.#addressPointer, length) === 0 ? 0 : kernel.errno()
    if (error !== 0 && error !== EINPROGRESS) return this.#failLater(connection, error)
    const watchError = this.#register(connection)
    return watchError === 0 ? connection : this.#failLater(connection, watchError)
  }

  pump(from: TcpConnection, to: TcpConnection): void {
    if (from instanceof EpollConnection && to instanceof EpollConnection) from.pumpTo(to)
  }

  localAddressOf(fd: number): SocketAddress {
    this.#ints[0] = ADDRESS_BYTES
    if (this.kernel.getsockname(fd, this.#addressPointer, this.#intsPointer) !== 0) return { address: '', port: 0 }
    return readAddress(this.#address)
  }

  /** The option level depends on the family of the packets, not of the socket. */
  originalDestinationOf(fd: number, { address }: SocketAddress): SocketAddress | undefined {
    this.#ints[0] = ADDRESS_BYTES
    const level = address.includes(':') ? IPPROTO_IPV6 : IPPROTO_IP
    const failed = this.kernel.getsockopt(fd, level, SO_ORIGINAL_DST, this.#addressPointer, this.#intsPointer) !== 0
    return failed ? undefined : readAddress(this.#address)
  }

  countUnsent(fd: number): number {
    this.#ints[0] = 0
    this.kernel.ioctl(fd, SIOCOUTQ, this.#intsPointer)
    return this.#ints[0] ?? 0
  }

  closeWithReset(fd: number): void {
    this.#setLinger(fd, 1)
    this.kernel.close(fd)
  }

  /** With SO_LINGER on and a timeout of 0, close() resets the connection. */
  #setLinger(fd: number, isOn: 0 | 1): void {
    this.#ints[0] = isOn
    this.#ints[1] = 0
    this.kernel.setsockopt(fd, SOL_SOCKET, SO_LINGER, this.#intsPointer, 8)
  }

  connectError(fd: number): number {
    this.#ints[0] = 0
    this.#ints[1] = 4
    this.kernel.getsockopt(fd, SOL_SOCKET, SO_ERROR, this.#intsPointer, this.#intsPointer + 4n)
    return this.#ints[0] ?? 0
  }

  #runOnce(): void {
    const { kernel } = this
    const nextMs = this.#queue.length > 0 ? 0 : this.#timers.nextMs()
    // Rounded up, because an early wake-up would find no due timer.
    const waitMs = nextMs === undefined ? -1 : nextMs === 0 ? 0 : Math.max(0, Math.ceil(nextMs - performance.now()))
    const count = kernel.epoll_wait(this.#epoll, this.#eventsPointer, EVENTS_MAX, Math.min(waitMs, 0x7fff_ffff))
    this.#nowMs = performance.now()
    const queue = this.#queue
    this.#queue = []
    for (let at = 0; at < count; at++) this.#handleEvents(at * EVENT_WORDS)
    for (const connection of queue) {
      connection.isQueued = false
      this.#guard(() => connection.process(), connection)
    }
    this.#guard(() => this.#timers.run(this.#nowMs))
  }

  #handleEvents(at: number): void {
    const events = this.#events[at] ?? 0
    const slot = this.#events[at + EVENT_WORDS - 2] ?? 0
    const high = this.#events[at + EVENT_WORDS - 1] ?? 0
    if (slot === NOT_A_CONNECTION) {
      if (high === this.wakeFd) this.#wake()
      else if (this.#listeners.has(high)) this.#accept(high, events)
      else this.#receive(high)
      return
    }
    const entry = this.#slots[slot]
    const connection = entry?.generation === high ? entry.connection : undefined
    if (connection) this.#guard(() => connection.handleEvents(events), connection)
  }

  #wake(): void {
    this.kernel.read(this.wakeFd, this.#intsPointer, 8)
    this.#guard(() => this.#callbacks.woken())
  }

  #accept(fd: number, events: number): void {
    const listener = this.#listeners.get(fd)
    const handedOver = listener?.handedOver
    // epoll would report a listener that its owner has shut down again and again.
    if (handedOver && events & (EPOLLERR | EPOLLHUP)) {
      this.#closeListener(handedOver)
      return
    }
    for (let count = 0; listener && count < ACCEPTS_MAX && this.#listeners.get(fd) === listener; count++) {
      if (handedOver && handedOver.connections.size >= handedOver.source.maxOpen) {
        this.#pauseListener(listener)
        return
      }
      const accepted = !this.#makeRoom() ? -EMFILE : handedOver ? this.#acceptGuarded(fd) : this.#acceptOne(fd)
      if (accepted < 0) {
        this.#stopAccepting(listener, -accepted)
        return
      }
      const connection = this.#openAccepted(accepted, handedOver)
      this.#guard(() => listener.accepted(connection), connection)
      const error = this.#register(connection)
      if (error !== 0) this.#guard(() => connection.closeWithError(error))
    }
  }

  /** Whether another connection may be opened; closes spare pipes if that makes room. */
  #makeRoom(): boolean {
    if (!this.#budget.hasRoom) this.pipes.close()
    return this.#budget.hasRoom
  }

  /** Returns the accepted descriptor or a negative errno. */
  #acceptOne(fd: number): number {
    this.#ints[0] = ADDRESS_BYTES
    const accepted = this.kernel.accept4(fd, this.#addressPointer, this.#intsPointer, SOCK_NONBLOCK | SOCK_CLOEXEC)
    return accepted < 0 ? -this.kernel.errno() : accepted
  }

  #acceptGuarded(fd: number): number {
    const { acceptGuard } = this.#callbacks
    if (!acceptGuard) return this.#acceptOne(fd)
    const accepted = acceptGuard.enter(fd) ? this.#acceptOne(fd) : -EAGAIN
    acceptGuard.leave()
    return accepted
  }

  #openAccepted(fd: number, handedOver: HandedOver | undefined): EpollConnection {
    this.#budget.take(1)
    const remote = readAddress(this.#address)
    if (!handedOver) return new EpollConnection(this, fd, remote)
    // Inherited from the listener, whose owner could make close() block until the last byte is sent.
    this.#setLinger(fd, 0)
    const connection = new EpollConnection(this, fd, { address: handedOver.source.key, port: remote.port })
    connection.group = handedOver.connections.add(connection)
    return connection
  }

  #stopAccepting(listener: Listener, error: number): void {
    if (error === EAGAIN) {
      // Only an empty backlog ends the shortage; otherwise each single accept would repeat the warning.
      listener.isStarved = false
      return
    }
    if (listener.handedOver && NOT_LISTENING.has(error)) {
      this.#closeListener(listener.handedOver)
      return
    }
    // Any other error concerns one connection that failed in the backlog.
    if (STARVING.has(error)) {
      if (!listener.isStarved) this.#callbacks.starved()
      listener.isStarved = true
    } else if (!listener.handedOver) return
    this.#pauseListener(listener)
  }

  #pauseListener(listener: Listener): void {
    const { fd } = listener
    this.#unwatch(fd)
    this.after(STARVED_MS, () => {
      if (this.#listeners.get(fd) !== listener) return
      if (this.#tryWatch(fd, EPOLLIN, NOT_A_CONNECTION, fd) !== 0) this.#pauseListener(listener)
    })
  }

  #receive(socket: number): void {
    const handedOver = this.#handovers.get(socket)
    if (!handedOver) return
    const received = this.#receiver.receive(socket)
    if (received.kind === 'waiting') return
    // Only the first message counts; the kernel drops the rest.
    this.#closeListener(handedOver)
    if (received.kind === 'descriptor') this.#adoptListener(handedOver, received.fd)
    else if (received.kind !== 'end') this.#guard(() => handedOver.callbacks.failed(HANDOVER_ERRORS[received.kind]))
  }

  #adoptListener(handedOver: HandedOver, fd: number): void {
    const kind = kindOfDescriptor(this.kernel, fd)
    if (kind !== 'tcp-listener') {
      if (kind === 'other-socket') this.closeWithReset(fd)
      else if (this.#callbacks.discard) this.#callbacks.discard(fd)
      else this.kernel.close(fd)
      this.#guard(() => handedOver.callbacks.failed('sent a descriptor that is not a listening TCP socket'))
      return
    }
    this.kernel.fcntl(fd, F_SETFL, this.kernel.fcntl(fd, F_GETFL, 0) | SOCK_NONBLOCK)
    this.#setSocketOptions(fd)
    handedOver.fd = fd
    const accepted = (connection: TcpConnection): void => handedOver.callbacks.accepted(connection)
    this.#listeners.set(fd, { fd, accepted, handedOver, isStarved: false })
    if (this.#tryWatch(fd, EPOLLIN, NOT_A_CONNECTION, fd) === 0) return
    this.#closeListener(handedOver)
    this.#guard(() => handedOver.callbacks.failed('has a listener that the kernel cannot watch'))
  }

  /** Unwatches before closing: epoll keeps reporting a closed descriptor while the sender has a copy. */
  #closeListener(handedOver: HandedOver): void {
    const { fd } = handedOver
    if (fd < 0) return
    handedOver.fd = -1
    this.#unwatch(fd)
    this.#handovers.delete(fd)
    this.#listeners.delete(fd)
    // The sender may have turned it into a connection whose close() blocks.
    this.closeWithReset(fd)
  }

  /** Returns an errno or 0. The kernel limits epoll watches per user, and other processes may have used them up. */
  #register(connection: EpollConnection): number {
    if (connection.slot >= 0 || connection.isClosed) return 0
    const slot = this.#free.pop() ?? this.#slots.push({ connection: undefined, generation: 0 }) - 1
    const entry = this.#slots[slot]
    if (!entry) return 0
    entry.connection = connection
    connection.slot = slot
    return this.#tryWatch(connection.fd, CONNECTION_EVENTS, slot, entry.generation)
  }

  #failLater(connection: EpollConnection, error: number): TcpConnection {
    this.#timers.add(0, this.#nowMs, () => connection.closeWithError(error))
    return connection
  }

  #setSocketOptions(fd: number): void {
    this.#setOption(fd, IPPROTO_TCP, TCP_NODELAY, 1)
    this.#setOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1)
    this.#setOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_ALIVE_MS / 1000)
    this.#setOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_MS / 1000)
  }

  #setOption(fd: number, level: number, name: number, value: number): void {
    this.#ints[0] = value
    this.kernel.setsockopt(fd, level, name, this.#intsPointer, 4)
  }

  #unwatch(fd: number): void {
    this.kernel.epoll_ctl(this.#epoll, EPOLL_CTL_DEL, fd, this.#eventPointer)
  }

  #watch(fd: number, events: number, low: number, high: number): void {
    const error = this.#tryWatch(fd, events, low, high)
    if (error !== 0) throw systemError(error)
  }

  #tryWatch(fd: number, events: number, low: number, high: number): number {
    this.#event[0] = events >>> 0
    this.#event[EVENT_WORDS - 2] = low
    this.#event[EVENT_WORDS - 1] = high
    return this.kernel.epoll_ctl(this.#epoll, EPOLL_CTL_ADD, fd, this.#eventPointer) === 0 ? 0 : this.kernel.errno()
  }

  /** After an exception the state of the connection is unknown, and epoll reports no byte twice: it is closed. */
  #guard(run: () => void, connection?: EpollConnection): void {
    try {
      run()
    } catch (error) {
      this.#callbacks.failed(error)
      if (connection && !connection.isClosed) this.#guard(() => connection.closeWithError(EIO))
    }
  }

  #mustSucceed(result: number): number {
    if (result < 0) throw systemError(this.kernel.errno())
    return result
  }
}

function bytesOf(words: Uint32Array | Int32Array): Uint8Array {
  return new Uint8Array(words.buffer)
}
