// What Node does beside the proxy gives way to it: clearing up, and compiling what runs often. Both would otherwise take the
// processor from a connection that has just come.
import { readdirSync, readFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { setFlagsFromString } from 'node:v8'

/**
 * Where new objects are, in MiB. Each time that it is full everything waits while it is cleared, and the one MiB with which a
 * thread begins is full after fifty tunnels.
 */
const NURSERY_MIB = 8
/** By how much they are nicer than the rest of the process. */
const NICER = 5
const NICEST = 19
const THREADS = '/proc/self/task'
const HELPER = 'node-V8Worker'

/** For a process that is a proxy and nothing else, and before its threads start: the process as a whole is changed. */
export function giveWay(): void {
  setFlagsFromString(`--min-semi-space-size=${NURSERY_MIB}`)
  // Whoever clears would wait for the helpers that have given way.
  setFlagsFromString('--no-parallel-scavenge')
  const priority = Math.min(getPriority() + NICER, NICEST)
  try {
    for (const thread of helpers()) setPriority(thread, priority)
  } catch {
    // Other systems show no threads. Then they do as they please, which is only slower.
  }
}

function helpers(): number[] {
  const named = readdirSync(THREADS).filter((id) => readFileSync(`${THREADS}/${id}/comm`, 'utf8').trim() === HELPER)
  return named.map(Number)
}
