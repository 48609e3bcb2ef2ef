// Limits the open files of this process, to simulate a machine that has run out of them.
import { closeSync, openSync, readdirSync } from 'node:fs'
import { loadFfi } from '../../src/lib/ffi.ts'

const RLIMIT_NOFILE = 7

export function openFileCount(): number {
  return readdirSync('/proc/self/fd').length
}

/**
 * Lets this process open exactly `spare` more files until the returned function is called. Sets the soft limit, which a process
 * may raise again, and fills free descriptors below it.
 */
export function leaveOpenFiles(spare: number): () => void {
  const limit = openLimit()
  const before = limit.get()
  const highest = Math.max(...readdirSync('/proc/self/fd').map(Number))
  limit.set({ ...before, soft: BigInt(highest + 16) })
  const fillers: number[] = []
  try {
    for (;;) fillers.push(openSync('/dev/null', 'r'))
  } catch {
    // No free descriptor is left.
  }
  for (const filler of fillers.splice(0, spare)) closeSync(filler)
  return () => {
    limit.set(before)
    for (const filler of fillers.splice(0)) closeSync(filler)
  }
}

interface Limit {
  readonly soft: bigint
  readonly hard: bigint
}

function openLimit(): { get(): Limit; set(limit: Limit): void } {
  const ffi = loadFfi()
  if (!ffi) throw new Error('this Node cannot call the kernel')
  const { functions } = ffi.dlopen(null, {
    getrlimit: { arguments: ['int32', 'pointer'], return: 'int32' },
    setrlimit: { arguments: ['int32', 'pointer'], return: 'int32' },
  })
  const numbers = new BigUint64Array(2)
  const at = ffi.getRawPointer(new Uint8Array(numbers.buffer))
  return {
    get: () => {
      functions.getrlimit(RLIMIT_NOFILE, at)
      return { soft: numbers[0] ?? 0n, hard: numbers[1] ?? 0n }
    },
    set: ({ soft, hard }) => {
      numbers[0] = soft
      numbers[1] = hard
      if (functions.setrlimit(RLIMIT_NOFILE, at) !== 0) throw new Error('the limit cannot be set')
    },
  }
}
