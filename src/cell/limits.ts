// How much one run may use. The kernel holds each process to it; what all processes of a run use together is sampled
// (`usage.ts`), because limits of a whole tree need a control group, which an ordinary user mostly cannot make.
import type { CellSettings } from './settings.ts'

export interface RunLimits {
  /** Processes and threads. In a cell they are counted per run, because each has a user namespace of its own. */
  readonly processes: number
  readonly memoryBytes: number
  readonly files: number
  readonly cpuMs: number
}

export function runLimits(settings: CellSettings): RunLimits {
  return {
    processes: settings.AGENT_MAX_PROCESSES || Number.POSITIVE_INFINITY,
    memoryBytes: settings.AGENT_MAX_MEMORY,
    files: settings.AGENT_MAX_FILES || Number.POSITIVE_INFINITY,
    cpuMs: settings.AGENT_MAX_CPU || Number.POSITIVE_INFINITY,
  }
}

/** Linux's numbers of the resources. */
const RLIMIT_CPU = 0
const RLIMIT_DATA = 2
const RLIMIT_CORE = 4
const RLIMIT_NPROC = 6
const RLIMIT_NOFILE = 7

/**
 * For `setrlimit`. Memory is limited as data and not as address space: V8 and the JVM reserve far more addresses than they
 * ever use.
 */
export function resourceLimits({ processes, memoryBytes, files, cpuMs }: RunLimits): Map<number, number> {
  const all: [number, number][] = [
    [RLIMIT_CORE, 0],
    [RLIMIT_CPU, Math.ceil(cpuMs / 1000)],
    [RLIMIT_DATA, memoryBytes],
    [RLIMIT_NPROC, processes],
    [RLIMIT_NOFILE, files],
  ]
  return new Map(all.filter(([, value]) => Number.isFinite(value)))
}

/** What /tmp and /dev/shm of a cell may hold, each: they are memory that no limit of a process covers. */
export function temporaryBytes({ memoryBytes }: RunLimits): number {
  return Math.max(1_048_576, Math.floor(memoryBytes / 4))
}
