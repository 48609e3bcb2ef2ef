// Wires on the kernel's own calls, with a loop of their own: they live in a thread that does nothing else, and waits in the
// kernel until something happens.
import { arch } from 'node:os'
import type { Listen } from '../../lib/settings.ts'
import type { Bound, Endpoint, ListenerSource, ListenerUser, Timer, Wire, WireOwner, Wires } from '../wire.ts'
import type { AcceptGuard } from './accept-guard.ts'
import { EpollWire, type Loop } from './epoll-wire.ts'
import { FileBudget } from './file-budget.ts'
import { DescriptorReceiver, kindOfDescriptor } from './handover.ts'
import {
  AF_INET6,
  EAGAIN,
  EBADF,
  EINPROGRESS,
  EINVAL,
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
import { Timers } from './timers.ts'
import { KEEP_ALIVE_MS, PROBE_MS } from './wiring.ts'

const BACKLOG = 4096
/** In place of a descriptor that was not even asked for. */
const NO_ROOM = -2
const EVENTS_MAX = 512
/** Connections that are taken in one go, before those that are there have their turn. */
const ACCEPTS_MAX = 64
const BUFFER_BYTES = 262_144
/** How long nothing is accepted when there are no files or no memory for it. */
const STARVED_MS = 100
/** The kernel packs its events on one of the two kinds of machine: three words each, or four. */
const EVENT_WORDS = arch() === 'x64' ? 3 : 4
const WIRE_EVENTS = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET
/** With these the one that waits goes on waiting, and would be told of again at once. */
const STARVING: ReadonlySet<number> = new Set([EMFILE, ENFILE, ENOBUFS, ENOMEM])
/** The descriptor is not a listener any more. */
const NOT_LISTENING: ReadonlySet<number> = new Set([EINVAL, EBADF, ENOTSOCK, EOPNOTSUPP])
const HANDOVER_FAULTS = {
  nothing: 'sent no descriptor',
  lost: 'sent a descriptor, but no more files can be opened',
} as const
/** The low word of an event's data says which wire; the high word, which of those that had its place. */
const NOT_A_WIRE = 0xffff_ffff

interface Place {
  wire: EpollWire | undefined
  /** Counts who has had it, so that an event for the one before is not taken for this one's. */
  turn: number
}

interface Listener {
  readonly fd: number
  readonly accepted: (wire: Wire) => void
  /** Where another process has handed it over. */
  readonly handedOver?: HandedOver
  isStarved: boolean
}

/** A listener of another process, which may do anything to it at any time: the process may keep a copy. */
interface HandedOver {
  readonly source: ListenerSource
  readonly user: ListenerUser
  readonly wires: Set<EpollWire>
  /** The socket that it is to come by, then the listener; -1 once neither is open. */
  fd: number
}

export interface EpollHost {
  /** Somebody wrote to `wakeFd`. */
  woken(): void
  /** A fault of ours, in something that concerns one connection alone. */
  failed(error: unknown): void
  /** No more files can be opened: said once, when it begins. */
  starved(): void
  /** Closes a descriptor that is not a socket, elsewhere: for some files (FUSE) the sender decides how long that takes. */
  discard?(fd: number): void
  readonly acceptGuard?: AcceptGuard
  /** Descriptors that connections and pipes may take in all; as many as there are unless said. */
  readonly maxFiles?: number
}

export class EpollWires implements Wires, Loop {
  readonly kernel: Kernel
  readonly pipes: Pipes
  readonly buffer: Buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES)
  readonly bufferAt: bigint
  /** An 8-byte number written here wakes the loop, from any thread. Closed by whoever wakes it, when it is over. */
  readonly wakeFd: number
  readonly #host: EpollHost
  readonly #budget: FileBudget
  readonly #epoll: number
  readonly #events = new Uint32Array(EVENTS_MAX * EVENT_WORDS)
  readonly #eventsAt: bigint
  readonly #event = new Uint32Array(EVENT_WORDS)
  readonly #eventAt: bigint
  readonly #address = Buffer.allocUnsafeSlow(ADDRESS_BYTES)
  readonly #addressAt: bigint
  readonly #number = new Int32Array(2)
  readonly #numberAt: bigint
  readonly #places: Place[] = []
  readonly #free: number[] = []
  readonly #listeners = new Map<number, Listener>()
  /** Listeners that are still to come, by the socket over which they are sent. */
  readonly #handovers = new Map<number, HandedOver>()
  readonly #receiver: DescriptorReceiver
  readonly #timers = new Timers()
  #again: EpollWire[] = []
  #nowMs = performance.now()
  #isStopped = false

  constructor(kernel: Kernel, host: EpollHost) {
    this.kernel = kernel
    this.#host = host
    this.#budget = new FileBudget(host.maxFiles)
    this.pipes = new Pipes(kernel, this.#budget)
    this.#receiver = new DescriptorReceiver(kernel)
    this.bufferAt = kernel.pointerTo(this.buffer)
    this.#eventsAt = kernel.pointerTo(bytesOf(this.#events))
    this.#eventAt = kernel.pointerTo(bytesOf(this.#event))
    this.#addressAt = kernel.pointerTo(this.#address)
    this.#numberAt = kernel.pointerTo(bytesOf(this.#number))
    this.#epoll = this.#must(kernel.epoll_create1(SOCK_CLOEXEC))
    this.wakeFd = this.#must(kernel.eventfd(0, SOCK_NONBLOCK | SOCK_CLOEXEC))
    this.#watch(this.wakeFd, EPOLLIN, NOT_A_WIRE, this.wakeFd)
  }

  /** Until `stop`. */
  run(): void {
    while (!this.#isStopped) this.#turn()
  }

  stop(): void {
    this.#isStopped = true
  }

  /** Every descriptor but `wakeFd`: whoever wakes the loop may be just about to. After `run` has returned. */
  close(): void {
    for (const { wire } of this.#places) wire?.close()
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

  again(wire: EpollWire): void {
    if (wire.isQueued) return
    wire.isQueued = true
    this.#again.push(wire)
  }

  forget(wire: EpollWire): void {
    const { slot } = wire
    if (wire.fd >= 0) this.#budget.give(1)
    wire.group?.delete(wire)
    const place = this.#places[slot]
    if (!place) return
    place.wire = undefined
    place.turn++
    this.#free.push(slot)
  }

  /** Without a promise for whoever starts the loop afterwards. */
  listenNow(at: Listen, accepted: (wire: Wire) => void): Bound {
    const { kernel } = this
    const { family, length } = writeAddress(this.#address, { address: at.host, port: at.port })
    const fd = this.#must(kernel.socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0))
    this.#set(fd, SOL_SOCKET, SO_REUSEADDR, 1)
    if (family === AF_INET6) this.#set(fd, IPPROTO_IPV6, IPV6_V6ONLY, at.host === '::' ? 0 : 1)
    // Those that are accepted have what the listener has.
    this.#prepare(fd)
    writeAddress(this.#address, { address: at.host, port: at.port })
    if (kernel.bind(fd, this.#addressAt, length) !== 0 || kernel.listen(fd, BACKLOG) !== 0) {
      const error = systemError(kernel.errno())
      kernel.close(fd)
      throw error
    }
    this.#listeners.set(fd, { fd, accepted, isStarved: false })
    this.#watch(fd, EPOLLIN, NOT_A_WIRE, fd)
    const close = (): void => {
      if (this.#listeners.delete(fd)) kernel.close(fd)
    }
    return { ...this.localOf(fd), close }
  }

  listen(at: Listen, accepted: (wire: Wire) => void): Promise<Bound> {
    return new Promise((resolve) => resolve(this.listenNow(at, accepted)))
  }

  receiveListener(socket: number, source: ListenerSource, user: ListenerUser): { close(): void } {
    const handedOver: HandedOver = { source, user, wires: new Set(), fd: socket }
    this.#handovers.set(socket, handedOver)
    const error = this.#tryWatch(socket, EPOLLIN, NOT_A_WIRE, socket)
    if (error !== 0) {
      this.#endListener(handedOver)
      throw systemError(error)
    }
    const close = (): void => {
      this.#endListener(handedOver)
      for (const wire of [...handedOver.wires]) wire.close()
    }
    return { close }
  }

  connect(to: Endpoint, owner: WireOwner & { connected(): void }): Wire {
    const { kernel } = this
    const { family, length } = writeAddress(this.#address, to)
    const fd = this.#makeRoom() ? kernel.socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : NO_ROOM
    // At once: to make an object may have Node collect garbage, whose calls change errno.
    const unopened = fd === NO_ROOM ? EMFILE : fd < 0 ? kernel.errno() : 0
    const wire = new EpollWire(this, fd, to, () => owner.connected())
    wire.owner = owner
    if (unopened !== 0) return this.#failLater(wire, unopened)
    this.#budget.take(1)
    this.#prepare(fd)
    const error = kernel.connect(fd, this.#addressAt, length) === 0 ? 0 : kernel.errno()
    if (error !== 0 && error !== EINPROGRESS) return this.#failLater(wire, error)
    const unwatched = this.#add(wire)
    return unwatched === 0 ? wire : this.#failLater(wire, unwatched)
  }

  pump(from: Wire, to: Wire): void {
    if (from instanceof EpollWire && to instanceof EpollWire) from.pumpTo(to)
  }

  localOf(fd: number): Endpoint {
    this.#number[0] = ADDRESS_BYTES
    if (this.kernel.getsockname(fd, this.#addressAt, this.#numberAt) !== 0) return { address: '', port: 0 }
    return readAddress(this.#address)
  }

  /** The kernel keeps it by the family of the packets, whatever the family of the socket. */
  originalOf(fd: number, { address }: Endpoint): Endpoint | undefined {
    this.#number[0] = ADDRESS_BYTES
    const level = address.includes(':') ? IPPROTO_IPV6 : IPPROTO_IP
    const failed = this.kernel.getsockopt(fd, level, SO_ORIGINAL_DST, this.#addressAt, this.#numberAt) !== 0
    return failed ? undefined : readAddress(this.#address)
  }

  unsentOf(fd: number): number {
    this.#number[0] = 0
    this.kernel.ioctl(fd, SIOCOUTQ, this.#numberAt)
    return this.#number[0] ?? 0
  }

  cut(fd: number): void {
    this.#setLinger(fd, 1)
    this.kernel.close(fd)
  }

  /** Switched on, it lasts no time at all: closing resets the connection. */
  #setLinger(fd: number, isOn: 0 | 1): void {
    this.#number[0] = isOn
    this.#number[1] = 0
    this.kernel.setsockopt(fd, SOL_SOCKET, SO_LINGER, this.#numberAt, 8)
  }

  connectError(fd: number): number {
    this.#number[0] = 0
    this.#number[1] = 4
    this.kernel.getsockopt(fd, SOL_SOCKET, SO_ERROR, this.#numberAt, this.#numberAt + 4n)
    return this.#number[0] ?? 0
  }

  #turn(): void {
    const { kernel } = this
    const next = this.#again.length > 0 ? 0 : this.#timers.nextMs()
    // Rounded up: a turn too early would be one for nothing.
    const waitMs = next === undefined ? -1 : next === 0 ? 0 : Math.max(0, Math.ceil(next - performance.now()))
    const count = kernel.epoll_wait(this.#epoll, this.#eventsAt, EVENTS_MAX, Math.min(waitMs, 0x7fff_ffff))
    this.#nowMs = performance.now()
    const again = this.#again
    this.#again = []
    for (let at = 0; at < count; at++) this.#notice(at * EVENT_WORDS)
    for (const wire of again) {
      wire.isQueued = false
      this.#guard(() => wire.serve())
    }
    this.#guard(() => this.#timers.run(this.#nowMs))
  }

  #notice(at: number): void {
    const events = this.#events[at] ?? 0
    const slot = this.#events[at + EVENT_WORDS - 2] ?? 0
    const turn = this.#events[at + EVENT_WORDS - 1] ?? 0
    if (slot === NOT_A_WIRE) {
      if (turn === this.wakeFd) this.#wake()
      else if (this.#listeners.has(turn)) this.#accept(turn, events)
      else this.#receive(turn)
      return
    }
    const place = this.#places[slot]
    const wire = place?.turn === turn ? place.wire : undefined
    if (wire) this.#guard(() => wire.notice(events))
  }

  #wake(): void {
    this.kernel.read(this.wakeFd, this.#numberAt, 8)
    this.#guard(() => this.#host.woken())
  }

  #accept(fd: number, events: number): void {
    const listener = this.#listeners.get(fd)
    const handedOver = listener?.handedOver
    // An owner that has shut its listener down would be reported again and again.
    if (handedOver && events & (EPOLLERR | EPOLLHUP)) {
      this.#endListener(handedOver)
      return
    }
    for (let count = 0; listener && count < ACCEPTS_MAX && this.#listeners.get(fd) === listener; count++) {
      if (handedOver && handedOver.wires.size >= handedOver.source.maxOpen) {
        this.#pauseListener(listener)
        return
      }
      const taken = !this.#makeRoom() ? -EMFILE : handedOver ? this.#takeGuarded(fd) : this.#take(fd)
      if (taken < 0) {
        this.#stopAccepting(listener, -taken)
        return
      }
      const wire = this.#accepted(taken, handedOver)
      this.#guard(() => listener.accepted(wire))
      const error = this.#add(wire)
      if (error !== 0) this.#guard(() => wire.fail(error))
    }
  }

  /** Whether another connection may be opened. Pipes that nobody uses give way to it. */
  #makeRoom(): boolean {
    if (!this.#budget.hasRoom) this.pipes.close()
    return this.#budget.hasRoom
  }

  /** The next connection, or the error below 0. */
  #take(fd: number): number {
    this.#number[0] = ADDRESS_BYTES
    const taken = this.kernel.accept4(fd, this.#addressAt, this.#numberAt, SOCK_NONBLOCK | SOCK_CLOEXEC)
    return taken < 0 ? -this.kernel.errno() : taken
  }

  #takeGuarded(fd: number): number {
    const { acceptGuard } = this.#host
    if (!acceptGuard) return this.#take(fd)
    const taken = acceptGuard.enter(fd) ? this.#take(fd) : -EAGAIN
    acceptGuard.leave()
    return taken
  }

  #accepted(fd: number, handedOver: HandedOver | undefined): EpollWire {
    this.#budget.take(1)
    const remote = readAddress(this.#address)
    if (!handedOver) return new EpollWire(this, fd, remote)
    // Inherited from the listener, whose owner could have close() wait for its last byte.
    this.#setLinger(fd, 0)
    const wire = new EpollWire(this, fd, { address: handedOver.source.key, port: remote.port })
    wire.group = handedOver.wires.add(wire)
    return wire
  }

  #stopAccepting(listener: Listener, error: number): void {
    if (error === EAGAIN) {
      // Nobody waits any more. One taken in between would be no end of it, and each would be told again.
      listener.isStarved = false
      return
    }
    if (listener.handedOver && NOT_LISTENING.has(error)) {
      this.#endListener(listener.handedOver)
      return
    }
    // A connection that broke while it waited concerns nobody; with nothing left, waiting is all there is to do.
    if (STARVING.has(error)) {
      if (!listener.isStarved) this.#host.starved()
      listener.isStarved = true
    } else if (!listener.handedOver) return
    this.#pauseListener(listener)
  }

  #pauseListener(listener: Listener): void {
    this.#unwatch(listener.fd)
    this.#listenLater(listener)
  }

  #listenLater(listener: Listener): void {
    const { fd } = listener
    this.after(STARVED_MS, () => {
      if (this.#listeners.get(fd) !== listener) return
      if (this.#tryWatch(fd, EPOLLIN, NOT_A_WIRE, fd) !== 0) this.#listenLater(listener)
    })
  }

  #receive(socket: number): void {
    const handedOver = this.#handovers.get(socket)
    if (!handedOver) return
    const received = this.#receiver.receive(socket)
    if (received.kind === 'waiting') return
    // One message is all that counts: the kernel drops what comes behind it.
    this.#endListener(handedOver)
    if (received.kind === 'descriptor') this.#adopt(handedOver, received.fd)
    else if (received.kind !== 'end') this.#guard(() => handedOver.user.failed(HANDOVER_FAULTS[received.kind]))
  }

  #adopt(handedOver: HandedOver, fd: number): void {
    const kind = kindOfDescriptor(this.kernel, fd)
    if (kind !== 'tcp-listener') {
      if (kind === 'other-socket') this.cut(fd)
      else if (this.#host.discard) this.#host.discard(fd)
      else this.kernel.close(fd)
      this.#guard(() => handedOver.user.failed('sent a descriptor that is not a listening TCP socket'))
      return
    }
    this.kernel.fcntl(fd, F_SETFL, this.kernel.fcntl(fd, F_GETFL, 0) | SOCK_NONBLOCK)
    this.#prepare(fd)
    handedOver.fd = fd
    const accepted = (wire: Wire): void => handedOver.user.accepted(wire)
    this.#listeners.set(fd, { fd, accepted, handedOver, isStarved: false })
    if (this.#tryWatch(fd, EPOLLIN, NOT_A_WIRE, fd) === 0) return
    this.#endListener(handedOver)
    this.#guard(() => handedOver.user.failed('has a listener that the kernel cannot watch'))
  }

  /** Stops watching before closing: the kernel goes on reporting a closed descriptor while its sender keeps a copy. */
  #endListener(handedOver: HandedOver): void {
    const { fd } = handedOver
    if (fd < 0) return
    handedOver.fd = -1
    this.#unwatch(fd)
    this.#handovers.delete(fd)
    this.#listeners.delete(fd)
    // The sender may have made a connection of it, and asked for a close() that waits.
    this.cut(fd)
  }

  /** The error, or 0. The kernel watches only so many for one user, and others may have taken all of them. */
  #add(wire: EpollWire): number {
    if (wire.slot >= 0 || wire.isGone) return 0
    const slot = this.#free.pop() ?? this.#places.push({ wire: undefined, turn: 0 }) - 1
    const place = this.#places[slot]
    if (!place) return 0
    place.wire = wire
    wire.slot = slot
    return this.#tryWatch(wire.fd, WIRE_EVENTS, slot, place.turn)
  }

  #failLater(wire: EpollWire, error: number): Wire {
    this.#timers.add(0, this.#nowMs, () => wire.fail(error))
    return wire
  }

  #prepare(fd: number): void {
    this.#set(fd, IPPROTO_TCP, TCP_NODELAY, 1)
    this.#set(fd, SOL_SOCKET, SO_KEEPALIVE, 1)
    this.#set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_ALIVE_MS / 1000)
    this.#set(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_MS / 1000)
  }

  #set(fd: number, level: number, name: number, value: number): void {
    this.#number[0] = value
    this.kernel.setsockopt(fd, level, name, this.#numberAt, 4)
  }

  #unwatch(fd: number): void {
    this.kernel.epoll_ctl(this.#epoll, EPOLL_CTL_DEL, fd, this.#eventAt)
  }

  #watch(fd: number, events: number, low: number, high: number): void {
    const error = this.#tryWatch(fd, events, low, high)
    if (error !== 0) throw systemError(error)
  }

  #tryWatch(fd: number, events: number, low: number, high: number): number {
    this.#event[0] = events >>> 0
    this.#event[EVENT_WORDS - 2] = low
    this.#event[EVENT_WORDS - 1] = high
    return this.kernel.epoll_ctl(this.#epoll, EPOLL_CTL_ADD, fd, this.#eventAt) === 0 ? 0 : this.kernel.errno()
  }

  #guard(run: () => void): void {
    try {
      run()
    } catch (error) {
      this.#host.failed(error)
    }
  }

  #must(result: number): number {
    if (result < 0) throw systemError(this.kernel.errno())
    return result
  }
}

function bytesOf(words: Uint32Array | Int32Array): Uint8Array {
  return new Uint8Array(words.buffer)
}
