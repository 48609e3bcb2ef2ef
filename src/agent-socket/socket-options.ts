// Options of unix sockets that Node has no API for, through `node:ffi`.
import type { Server, Socket } from 'node:net'
import { endianness } from 'node:os'
import { loadFfi } from '../lib/ffi.ts'
import { lazy } from '../lib/lazy.ts'

/** Values of Linux. */
const AF_UNIX = 1
const SOCK_STREAM = 1
const SOCK_CLOEXEC = 0o2000000
const SOL_SOCKET = 1
const SO_PEERCRED = 17
const SO_PASSRIGHTS = 83
/** struct ucred: pid, uid, gid of four bytes each. */
const CREDENTIALS_BYTES = 12
const UID_AT = 4

const FUNCTIONS = {
  socket: { arguments: ['int32', 'int32', 'int32'], return: 'int32' },
  getsockopt: { arguments: ['int32', 'int32', 'int32', 'buffer', 'buffer'], return: 'int32' },
  setsockopt: { arguments: ['int32', 'int32', 'int32', 'buffer', 'uint32'], return: 'int32' },
  close: { arguments: ['int32'], return: 'int32' },
} as const

const openCalls = lazy(() => {
  if (process.platform !== 'linux' || endianness() !== 'LE') return undefined
  try {
    return loadFfi()?.dlopen(null, FUNCTIONS).functions
  } catch {
    return undefined
  }
})

/** Undefined if it cannot be determined; then only the mode of the socket file protects it. */
export function peerUid(socket: Socket): number | undefined {
  const [calls, descriptor] = [openCalls(), descriptorOf(socket)]
  if (!calls || descriptor === undefined) return undefined
  const [credentials, length] = [Buffer.alloc(CREDENTIALS_BYTES), Buffer.alloc(4)]
  length.writeUInt32LE(CREDENTIALS_BYTES)
  if (calls.getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, credentials, length) !== 0) return undefined
  return credentials.readUInt32LE(UID_AT)
}

/** Whether the kernel can refuse descriptors for a unix socket: Linux 6.16 and later. */
export const canRefuseDescriptors = lazy(() => {
  const calls = openCalls()
  if (!calls) return false
  const descriptor = calls.socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
  if (descriptor < 0) return false
  const isSet = setPassRights(descriptor)
  calls.close(descriptor)
  return isSet
})

/**
 * Makes the kernel refuse messages with descriptors on connections that the server accepts from now on. The kernel closes a
 * received descriptor in the thread that reads, which waits as long as the sender likes. Returns whether it could.
 */
export function refuseDescriptors(server: Server): boolean {
  const descriptor = descriptorOf(server)
  return descriptor !== undefined && setPassRights(descriptor)
}

function setPassRights(descriptor: number): boolean {
  const no = Buffer.alloc(4)
  return openCalls()?.setsockopt(descriptor, SOL_SOCKET, SO_PASSRIGHTS, no, no.length) === 0
}

/** Node does not expose it otherwise. */
function descriptorOf(socket: Socket | Server): number | undefined {
  const handle: unknown = Reflect.get(socket, '_handle')
  const descriptor: unknown = typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'fd') : undefined
  return typeof descriptor === 'number' && descriptor >= 0 ? descriptor : undefined
}
