// Reads the uid of the peer of a unix socket (SO_PEERCRED). Node has no API for it, so this calls the C library through
// `node:ffi`. Where that is not available, only the mode of the socket file protects it.
import type { Socket } from 'node:net'
import { endianness } from 'node:os'
import { loadFfi } from '../lib/ffi.ts'
import { lazy } from '../lib/lazy.ts'

/** Values of Linux. */
const SOL_SOCKET = 1
const SO_PEERCRED = 17
/** struct ucred: pid, uid, gid of four bytes each. */
const CREDENTIALS_BYTES = 12
const UID_AT = 4

type ReadPeer = (descriptor: number) => number | undefined

const readPeer = lazy(openReader)

/** Undefined if it cannot be determined. */
export function peerUid(socket: Socket): number | undefined {
  const descriptor = descriptorOf(socket)
  return descriptor === undefined ? undefined : readPeer()(descriptor)
}

/** Node does not expose it otherwise. */
function descriptorOf(socket: Socket): number | undefined {
  const handle: unknown = Reflect.get(socket, '_handle')
  const descriptor: unknown = typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'fd') : undefined
  return typeof descriptor === 'number' && descriptor >= 0 ? descriptor : undefined
}

function openReader(): ReadPeer {
  const unknown: ReadPeer = () => undefined
  if (process.platform !== 'linux' || endianness() !== 'LE') return unknown
  try {
    const library = loadFfi()?.dlopen(null, {
      getsockopt: { arguments: ['int32', 'int32', 'int32', 'buffer', 'buffer'], return: 'int32' },
    })
    if (!library) return unknown
    const { getsockopt } = library.functions
    return (descriptor) => {
      const [credentials, length] = [Buffer.alloc(CREDENTIALS_BYTES), Buffer.alloc(4)]
      length.writeUInt32LE(CREDENTIALS_BYTES)
      if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, credentials, length) !== 0) return undefined
      return credentials.readUInt32LE(UID_AT)
    }
  } catch {
    return unknown
  }
}
