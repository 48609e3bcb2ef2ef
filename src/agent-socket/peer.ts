// Who is at the other end of a unix socket, as the kernel knows it. Node has no call for it, so the C library is asked where
// this Node can; elsewhere nothing is known, and the rights of the socket's file alone decide who gets in.

import type { Socket } from 'node:net'
import { endianness } from 'node:os'
import { loadFfi } from '../lib/c-library.ts'

/** As Linux has them. */
const SOL_SOCKET = 1
const SO_PEERCRED = 17
/** Three numbers of four bytes: process, user, group. */
const CREDENTIALS_BYTES = 12
const UID_AT = 4

type ReadPeer = (descriptor: number) => number | undefined

let readPeer: ReadPeer | undefined

/** The user at the other end; nothing where it cannot be known. */
export function peerUid(socket: Socket): number | undefined {
  readPeer ??= openReader()
  const descriptor = descriptorOf(socket)
  return descriptor === undefined ? undefined : readPeer(descriptor)
}

/** Node keeps it to itself, but there. */
function descriptorOf(socket: Socket): number | undefined {
  const handle: unknown = Reflect.get(socket, '_handle')
  const descriptor: unknown = typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'fd') : undefined
  return typeof descriptor === 'number' && descriptor >= 0 ? descriptor : undefined
}

function openReader(): ReadPeer {
  const nobodyKnows: ReadPeer = () => undefined
  if (process.platform !== 'linux' || endianness() !== 'LE') return nobodyKnows
  try {
    const library = loadFfi()?.dlopen(null, {
      getsockopt: { arguments: ['int32', 'int32', 'int32', 'buffer', 'buffer'], return: 'int32' },
    })
    if (!library) return nobodyKnows
    const { getsockopt } = library.functions
    return (descriptor) => {
      const [credentials, length] = [Buffer.alloc(CREDENTIALS_BYTES), Buffer.alloc(4)]
      length.writeUInt32LE(CREDENTIALS_BYTES)
      if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, credentials, length) !== 0) return undefined
      return credentials.readUInt32LE(UID_AT)
    }
  } catch {
    return nobodyKnows
  }
}
