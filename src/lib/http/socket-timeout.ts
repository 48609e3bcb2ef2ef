// Limits how long a connection to a vanished peer stays open, with TCP_USER_TIMEOUT through the C library. Without node:ffi the
// kernel's default applies: up to 15 minutes.
import type { Server } from 'node:net'
import { endianness } from 'node:os'
import { loadFfi } from '../ffi.ts'

/** Values of Linux. */
const IPPROTO_TCP = 6
const TCP_USER_TIMEOUT = 18

/**
 * The kernel closes a connection of this server when sent data stays unacknowledged or unread for so long. Set on the
 * listening socket, from which connections inherit it. Returns false if it cannot be set.
 */
export function setUserTimeout(server: Server, ms: number): boolean {
  const descriptor: unknown = Reflect.get(Reflect.get(server, '_handle') ?? {}, 'fd')
  if (process.platform !== 'linux' || endianness() !== 'LE' || typeof descriptor !== 'number' || descriptor < 0)
    return false
  try {
    const library = loadFfi()?.dlopen(null, {
      setsockopt: { arguments: ['int32', 'int32', 'int32', 'buffer', 'uint32'], return: 'int32' },
    })
    if (!library) return false
    const value = Buffer.alloc(4)
    value.writeUInt32LE(ms)
    return library.functions.setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, value, value.length) === 0
  } catch {
    return false
  }
}
