// Linux system calls through the C library, by `node:ffi`. Node's own sockets cost several times as much per connection, copy
// every byte through user memory, and cannot tell the original destination of a redirected connection. `node:ffi` comes with
// Node, so unlike a native add-on it needs no compiler and no download.
import { arch, constants, endianness, platform } from 'node:os'
import { loadFfi } from '../../lib/ffi.ts'

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
/** Bit 31 as a signed number, which is what JavaScript's bit operators return. */
export const EPOLLET = 1 << 31

export const { EAGAIN, EBADF, EINPROGRESS, EINTR, EINVAL, EIO, EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOTSOCK, EOPNOTSUPP } =
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
type Values<Types> = { readonly [At in keyof Types]: Types[At] extends 'pointer' ? Pointer : number }
/** Parameters and results are those of the manual pages, section 2. */
type SystemCalls = {
  readonly [Name in keyof typeof FUNCTIONS]: (...values: Values<(typeof FUNCTIONS)[Name]['arguments']>) => number
}

export interface Kernel extends SystemCalls {
  /** Error code of the last failed call. */
  errno(): number
  /** The caller must keep `bytes` alive for as long as the kernel may use the address. */
  pointerTo(bytes: Uint8Array): Pointer
}

export const NULL: Pointer = 0n

/** Undefined on other systems or if Node has no `node:ffi`. */
export function openKernel(): Kernel | undefined {
  if (platform() !== 'linux' || endianness() !== 'LE' || !['x64', 'arm64'].includes(arch())) return undefined
  const ffi = loadFfi()
  if (!ffi) return undefined
  try {
    const { functions } = ffi.dlopen(null, {
      ...FUNCTIONS,
      __errno_location: { arguments: [], return: 'pointer' },
    })
    // errno has one fixed address per thread.
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

export function errorName(code: number): string {
  return NAMES.get(code) ?? `E${code}`
}

/** Like Node's errors: `code` is the name. */
export function systemError(code: number): Error {
  return Object.assign(new Error(errorName(code)), { code: errorName(code) })
}
