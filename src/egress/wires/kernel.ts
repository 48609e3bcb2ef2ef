// The calls of the Linux kernel that wires are made of, through the C library. Node's sockets cost several times as much for
// each connection, and copy every byte through memory of their own; public, too, is only this way to the original
// destination of a connection that was redirected. `node:ffi` is preferred to a native add-on because it comes with Node:
// nothing is compiled or downloaded for it.
import { arch, constants, endianness, platform } from 'node:os'
import { loadFfi } from '../../lib/c-library.ts'

export const AF_UNIX = 1
export const AF_INET = 2
export const AF_INET6 = 10
export const SOCK_STREAM = 1
export const SOCK_SEQPACKET = 5
export const SOCK_NONBLOCK = 0o4000
export const SOCK_CLOEXEC = 0o2000000
export const SOL_SOCKET = 1
export const SO_REUSEADDR = 2
export const SO_TYPE = 3
export const SO_ERROR = 4
export const SO_KEEPALIVE = 9
export const SO_LINGER = 13
export const SO_ACCEPTCONN = 30
export const SO_PROTOCOL = 38
export const SO_DOMAIN = 39
export const SCM_RIGHTS = 1
export const IPPROTO_TCP = 6
export const IPPROTO_MPTCP = 262
export const TCP_NODELAY = 1
export const TCP_KEEPIDLE = 4
export const TCP_KEEPINTVL = 5
export const IPPROTO_IP = 0
export const IPPROTO_IPV6 = 41
export const IPV6_V6ONLY = 26
/** At the level of either family. */
export const SO_ORIGINAL_DST = 80
export const MSG_CTRUNC = 0x8
export const MSG_DONTWAIT = 0x40
export const MSG_NOSIGNAL = 0x4000
export const MSG_CMSG_CLOEXEC = 0x4000_0000
export const SHUT_WR = 1
export const SHUT_RDWR = 2
export const F_GETFL = 3
export const F_SETFL = 4
export const F_SETPIPE_SZ = 1031
export const SIOCOUTQ = 0x5411
export const SPLICE_F_MOVE = 1
export const SPLICE_F_NONBLOCK = 2
export const EPOLL_CTL_ADD = 1
export const EPOLL_CTL_DEL = 2
export const EPOLLIN = 0x1
export const EPOLLPRI = 0x2
export const EPOLLOUT = 0x4
export const EPOLLERR = 0x8
export const EPOLLHUP = 0x10
export const EPOLLRDHUP = 0x2000
/** The highest bit; as a signed number, because that is what a bit operation gives. */
export const EPOLLET = 1 << 31

export const { EAGAIN, EBADF, EINPROGRESS, EINTR, EINVAL, EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOTSOCK, EOPNOTSUPP } =
  constants.errno

const FUNCTIONS = {
  socket: { arguments: ['int32', 'int32', 'int32'], return: 'int32' },
  socketpair: { arguments: ['int32', 'int32', 'int32', 'pointer'], return: 'int32' },
  bind: { arguments: ['int32', 'pointer', 'uint32'], return: 'int32' },
  listen: { arguments: ['int32', 'int32'], return: 'int32' },
  accept4: { arguments: ['int32', 'pointer', 'pointer', 'int32'], return: 'int32' },
  connect: { arguments: ['int32', 'pointer', 'uint32'], return: 'int32' },
  getsockname: { arguments: ['int32', 'pointer', 'pointer'], return: 'int32' },
  getsockopt: { arguments: ['int32', 'int32', 'int32', 'pointer', 'pointer'], return: 'int32' },
  setsockopt: { arguments: ['int32', 'int32', 'int32', 'pointer', 'uint32'], return: 'int32' },
  recvmsg: { arguments: ['int32', 'pointer', 'int32'], return: 'int32' },
  recv: { arguments: ['int32', 'pointer', 'uint32', 'int32'], return: 'int32' },
  send: { arguments: ['int32', 'pointer', 'uint32', 'int32'], return: 'int32' },
  splice: { arguments: ['int32', 'pointer', 'int32', 'pointer', 'uint32', 'uint32'], return: 'int32' },
  pipe2: { arguments: ['pointer', 'int32'], return: 'int32' },
  fcntl: { arguments: ['int32', 'int32', 'int32'], return: 'int32' },
  ioctl: { arguments: ['int32', 'uint32', 'pointer'], return: 'int32' },
  shutdown: { arguments: ['int32', 'int32'], return: 'int32' },
  close: { arguments: ['int32'], return: 'int32' },
  read: { arguments: ['int32', 'pointer', 'uint32'], return: 'int32' },
  eventfd: { arguments: ['uint32', 'int32'], return: 'int32' },
  epoll_create1: { arguments: ['int32'], return: 'int32' },
  epoll_ctl: { arguments: ['int32', 'int32', 'int32', 'pointer'], return: 'int32' },
  epoll_wait: { arguments: ['int32', 'pointer', 'int32', 'int32'], return: 'int32' },
} as const

type Pointer = bigint

export interface Kernel {
  socket(family: number, type: number, protocol: number): number
  socketpair(family: number, type: number, protocol: number, fds: Pointer): number
  bind(fd: number, address: Pointer, length: number): number
  listen(fd: number, backlog: number): number
  accept4(fd: number, address: Pointer, length: Pointer, flags: number): number
  connect(fd: number, address: Pointer, length: number): number
  getsockname(fd: number, address: Pointer, length: Pointer): number
  getsockopt(fd: number, level: number, name: number, value: Pointer, length: Pointer): number
  setsockopt(fd: number, level: number, name: number, value: Pointer, length: number): number
  recvmsg(fd: number, header: Pointer, flags: number): number
  recv(fd: number, bytes: Pointer, length: number, flags: number): number
  send(fd: number, bytes: Pointer, length: number, flags: number): number
  splice(from: number, fromAt: Pointer, to: number, toAt: Pointer, length: number, flags: number): number
  pipe2(fds: Pointer, flags: number): number
  fcntl(fd: number, command: number, value: number): number
  ioctl(fd: number, request: number, value: Pointer): number
  shutdown(fd: number, how: number): number
  close(fd: number): number
  read(fd: number, bytes: Pointer, length: number): number
  eventfd(initial: number, flags: number): number
  epoll_create1(flags: number): number
  epoll_ctl(epoll: number, operation: number, fd: number, event: Pointer): number
  epoll_wait(epoll: number, events: Pointer, most: number, timeoutMs: number): number
  /** Why the call before has failed. */
  errno(): number
  /** Where the bytes lie. They must be kept for as long as the kernel may look there. */
  pointerTo(bytes: Uint8Array): Pointer
}

export const NULL: Pointer = 0n

/** Nothing where the kernel is another one, or Node cannot call it. */
export function openKernel(): Kernel | undefined {
  if (platform() !== 'linux' || endianness() !== 'LE' || !['x64', 'arm64'].includes(arch())) return undefined
  const ffi = loadFfi()
  if (!ffi) return undefined
  try {
    const { functions } = ffi.dlopen(null, {
      ...FUNCTIONS,
      __errno_location: { arguments: [], return: 'pointer' },
    })
    // One place for each thread, and it stays.
    const errno = new Int32Array(ffi.toArrayBuffer(functions.__errno_location(), 4, false))
    return {
      ...functions,
      errno: () => errno[0] ?? 0,
      pointerTo: (bytes) => ffi.getRawPointer(bytes),
    }
  } catch {
    return undefined
  }
}

const NAMES = new Map(Object.entries(constants.errno).map(([name, code]) => [code, name]))

/** Such as ECONNRESET. */
export function errorName(code: number): string {
  return NAMES.get(code) ?? `E${code}`
}

/** As Node has it: its `code` is the name. */
export function systemError(code: number): Error {
  return Object.assign(new Error(errorName(code)), { code: errorName(code) })
}
