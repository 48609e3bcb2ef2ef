// A handle of one process (pidfd): unlike its number, it never leads to another process. Through `node:ffi`.
import { closeSync, readFileSync } from 'node:fs'
import { constants, endianness } from 'node:os'
import { loadFfi } from '../lib/ffi.ts'
import { lazy } from '../lib/lazy.ts'

/** System calls with one number on every architecture. */
const PIDFD_SEND_SIGNAL = 424
const PIDFD_OPEN = 434
const POLLIN = 1

const FUNCTIONS = {
  syscall: { arguments: ['int32', 'int32', 'int32', 'pointer', 'int32'], return: 'int32' },
  poll: { arguments: ['pointer', 'uint32', 'int32'], return: 'int32' },
} as const

export interface ProcessHandle {
  kill(): void
  /** True when the process has exited; that of process 1 of a namespace, when every other process in it has. */
  hasExited(): boolean
  close(): void
}

const opener = lazy(openOpener)

/** The only child of a process; undefined if it has none, or on a system without such handles. */
export function openChildOf(parent: number): ProcessHandle | undefined {
  const child = childOf(parent)
  const handle = child === undefined ? undefined : opener()?.(child)
  // Meanwhile the number could have become that of another process.
  if (handle && childOf(parent) === child) return handle
  handle?.close()
  return undefined
}

function childOf(parent: number): number | undefined {
  try {
    const [first] = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').split(' ')
    return first ? Number(first) : undefined
  } catch {
    return undefined
  }
}

function openOpener(): ((pid: number) => ProcessHandle | undefined) | undefined {
  if (process.platform !== 'linux' || endianness() !== 'LE') return undefined
  const ffi = loadFfi()
  if (!ffi) return undefined
  const { syscall, poll } = ffi.dlopen(null, FUNCTIONS).functions
  return (pid) => {
    const fd = syscall(PIDFD_OPEN, pid, 0, 0n, 0)
    if (fd < 0) return undefined
    return {
      kill: () => {
        syscall(PIDFD_SEND_SIGNAL, fd, constants.signals.SIGKILL, 0n, 0)
      },
      hasExited: () => {
        const entry = Buffer.alloc(8)
        entry.writeInt32LE(fd, 0)
        entry.writeInt16LE(POLLIN, 4)
        return poll(ffi.getRawPointer(entry), 1, 0) > 0
      },
      close: () => closeSync(fd),
    }
  }
}
