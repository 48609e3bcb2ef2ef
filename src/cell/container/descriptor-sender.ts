// Sends descriptors to the first process of a container over a unix socket (SCM_RIGHTS), through `node:ffi`. Node cannot send
// descriptors to programs that are not Node.
import { closeSync } from 'node:fs'
import { endianness } from 'node:os'
import { loadFfi } from '../../lib/ffi.ts'

const SOL_SOCKET = 1
const SCM_RIGHTS = 1
const MSG_NOSIGNAL = 0x4000
/** struct msghdr, iovec and cmsghdr on 64-bit Linux. */
const HEADER_BYTES = 56
const CONTROL_HEADER_BYTES = 16

const FUNCTIONS = {
  sendmsg: { arguments: ['int32', 'pointer', 'int32'], return: 'int32' },
} as const

export interface DescriptorSender {
  /** Sends one byte with these descriptors, and returns whether it was sent. */
  send(socket: number, letter: string, descriptors: readonly number[]): boolean
}

/** Undefined on other systems or if this Node has no node:ffi. */
export function openDescriptorSender(): DescriptorSender | undefined {
  if (process.platform !== 'linux' || endianness() !== 'LE') return undefined
  const ffi = loadFfi()
  if (!ffi) return undefined
  const { functions } = ffi.dlopen(null, FUNCTIONS)
  const pointerTo = (bytes: Uint8Array): bigint => ffi.getRawPointer(bytes)
  return {
    send: (socket, letter, descriptors) => {
      const payload = Buffer.from(letter)
      const iovec = Buffer.alloc(16)
      iovec.writeBigUInt64LE(pointerTo(payload), 0)
      iovec.writeBigUInt64LE(1n, 8)
      // The kernel reads control messages in units of eight bytes.
      const control = Buffer.alloc(CONTROL_HEADER_BYTES + Math.ceil(descriptors.length / 2) * 8)
      control.writeBigUInt64LE(BigInt(CONTROL_HEADER_BYTES + descriptors.length * 4), 0)
      control.writeInt32LE(SOL_SOCKET, 8)
      control.writeInt32LE(SCM_RIGHTS, 12)
      for (const [at, fd] of descriptors.entries()) control.writeInt32LE(fd, CONTROL_HEADER_BYTES + at * 4)
      const header = Buffer.alloc(HEADER_BYTES)
      header.writeBigUInt64LE(pointerTo(iovec), 16)
      header.writeBigUInt64LE(1n, 24)
      header.writeBigUInt64LE(pointerTo(control), 32)
      header.writeBigUInt64LE(BigInt(control.length), 40)
      const sent = functions.sendmsg(socket, pointerTo(header), MSG_NOSIGNAL)
      // Keeps the buffers alive during the call.
      return sent === payload.length && iovec.length + control.length > 0
    },
  }
}

export function closeAll(descriptors: readonly number[]): void {
  for (const fd of descriptors) closeSync(fd)
}
