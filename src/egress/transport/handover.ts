// Receives a listening socket from another process over a Unix socket (SCM_RIGHTS). The sender is not trusted, so the
// descriptor is checked before it is used.
import {
  AF_INET,
  AF_INET6,
  AF_UNIX,
  EAGAIN,
  EINTR,
  IPPROTO_MPTCP,
  IPPROTO_TCP,
  type Kernel,
  MSG_CMSG_CLOEXEC,
  MSG_CTRUNC,
  MSG_DONTWAIT,
  SCM_RIGHTS,
  SO_ACCEPTCONN,
  SO_DOMAIN,
  SO_PROTOCOL,
  SO_TYPE,
  SOCK_CLOEXEC,
  SOCK_SEQPACKET,
  SOCK_STREAM,
  SOL_SOCKET,
  systemError,
} from './kernel.ts'

/** struct msghdr, iovec and cmsghdr on 64-bit Linux. */
const HEADER_BYTES = 56
const IOVEC_BYTES = 16
const CONTROL_HEADER_BYTES = 16
/** Room for exactly one descriptor: the kernel drops any others. */
const CONTROL_BYTES = CONTROL_HEADER_BYTES + 4
const PAYLOAD_BYTES = 64

export type HandoverMessage =
  | { readonly kind: 'descriptor'; readonly fd: number }
  /** No message yet. */
  | { readonly kind: 'waiting' }
  | { readonly kind: 'nothing' }
  /** The message had a descriptor, but this process cannot open more files. */
  | { readonly kind: 'lost' }
  /** The peer has closed. */
  | { readonly kind: 'end' }

const WAITING: HandoverMessage = { kind: 'waiting' }
const NOTHING: HandoverMessage = { kind: 'nothing' }
const LOST: HandoverMessage = { kind: 'lost' }
const END: HandoverMessage = { kind: 'end' }

/** Owns the memory of `recvmsg` calls. */
export class DescriptorReceiver {
  readonly #kernel: Kernel
  readonly #header = Buffer.allocUnsafeSlow(HEADER_BYTES)
  readonly #iovec = Buffer.allocUnsafeSlow(IOVEC_BYTES)
  readonly #control = Buffer.allocUnsafeSlow(CONTROL_HEADER_BYTES + 8)
  readonly #payload = Buffer.allocUnsafeSlow(PAYLOAD_BYTES)
  readonly #headerAt: bigint

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    this.#headerAt = kernel.pointerTo(this.#header)
  }

  /** Does not block. */
  receive(socket: number): HandoverMessage {
    this.#prepare()
    const received = this.#kernel.recvmsg(socket, this.#headerAt, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)
    if (received < 0) {
      const error = this.#kernel.errno()
      return error === EAGAIN || error === EINTR ? WAITING : END
    }
    const hasControl = this.#header.readUInt32LE(40) >= CONTROL_BYTES
    const isRights =
      hasControl && this.#control.readInt32LE(8) === SOL_SOCKET && this.#control.readInt32LE(12) === SCM_RIGHTS
    if (isRights) return { kind: 'descriptor', fd: this.#control.readInt32LE(CONTROL_HEADER_BYTES) }
    if (this.#header.readInt32LE(48) & MSG_CTRUNC) return LOST
    return received === 0 ? END : NOTHING
  }

  /** recvmsg overwrites all of these. */
  #prepare(): void {
    const { pointerTo } = this.#kernel
    this.#control.fill(0)
    this.#iovec.writeBigUInt64LE(pointerTo(this.#payload), 0)
    this.#iovec.writeBigUInt64LE(BigInt(PAYLOAD_BYTES), 8)
    this.#header.fill(0)
    this.#header.writeBigUInt64LE(pointerTo(this.#iovec), 16)
    this.#header.writeBigUInt64LE(1n, 24)
    this.#header.writeBigUInt64LE(pointerTo(this.#control), 32)
    this.#header.writeBigUInt64LE(BigInt(CONTROL_BYTES), 40)
  }
}

const FAMILIES: ReadonlySet<number | undefined> = new Set([AF_INET, AF_INET6])
const PROTOCOLS: ReadonlySet<number | undefined> = new Set([IPPROTO_TCP, IPPROTO_MPTCP])

export type DescriptorKind = 'tcp-listener' | 'other-socket' | 'not-a-socket'

export function kindOfDescriptor(kernel: Kernel, fd: number): DescriptorKind {
  const words = new Int32Array(2)
  const at = kernel.pointerTo(new Uint8Array(words.buffer))
  const read = (option: number): number | undefined => {
    words[1] = 4
    return kernel.getsockopt(fd, SOL_SOCKET, option, at, at + 4n) === 0 ? words[0] : undefined
  }
  const type = read(SO_TYPE)
  if (type === undefined) return 'not-a-socket'
  const isTcp = type === SOCK_STREAM && FAMILIES.has(read(SO_DOMAIN)) && PROTOCOLS.has(read(SO_PROTOCOL))
  return isTcp && read(SO_ACCEPTCONN) === 1 ? 'tcp-listener' : 'other-socket'
}

/** Two connected blocking sockets that preserve message boundaries and are not inherited by child processes. */
export function openSocketPair(kernel: Kernel): readonly [number, number] {
  const fds = new Int32Array(2)
  const at = kernel.pointerTo(new Uint8Array(fds.buffer))
  if (kernel.socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, at) !== 0) throw systemError(kernel.errno())
  return [fds[0] ?? -1, fds[1] ?? -1]
}
