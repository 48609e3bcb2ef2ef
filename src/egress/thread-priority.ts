// Lowers the priority of V8's helper threads (garbage collection, compilation), which would otherwise compete with new
// connections for the CPU.
import { readdirSync, readFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { setFlagsFromString } from 'node:v8'

/** Size of V8's young generation. The default of 1 MiB is full after fifty tunnels, and each collection pauses the thread. */
const YOUNG_GENERATION_MIB = 8
const NICENESS = 5
const MAX_NICENESS = 19
const THREADS = '/proc/self/task'
const HELPER = 'node-V8Worker'

/** Call before any thread starts, and only in a process that is just a proxy: it changes the whole process. */
export function lowerHelperThreadPriority(): void {
  setFlagsFromString(`--min-semi-space-size=${YOUNG_GENERATION_MIB}`)
  // The collecting thread would wait for the helper threads of low priority.
  setFlagsFromString('--no-parallel-scavenge')
  const priority = Math.min(getPriority() + NICENESS, MAX_NICENESS)
  try {
    for (const thread of helperThreads()) setPriority(thread, priority)
  } catch {
    // Other systems do not list threads; then the helpers keep their priority.
  }
}

function helperThreads(): number[] {
  const named = readdirSync(THREADS).filter((id) => readFileSync(`${THREADS}/${id}/comm`, 'utf8').trim() === HELPER)
  return named.map(Number)
}
