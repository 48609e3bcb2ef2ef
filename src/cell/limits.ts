// Limits of one run. The kernel enforces them per process. `resource-usage.ts` samples the sum over all processes of a run,
// because enforcing that needs a control group, which ordinary users usually cannot create.
import type { CellSettings } from './settings.ts'

export interface RunLimits {
  /** Processes and threads. In a sandbox they count per run, because each run has its own user namespace. */
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

/** Resource numbers of Linux. */
const RLIMIT_CPU = 0
const RLIMIT_DATA = 2
const RLIMIT_CORE = 4
export const RLIMIT_NPROC = 6
const RLIMIT_NOFILE = 7

/**
 * For `setrlimit`. Memory is limited by RLIMIT_DATA, not RLIMIT_AS: V8 and the JVM reserve far more address space than
 * they use.
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

/** Size limit of /tmp and /dev/shm each: they are memory that no process limit covers. */
export function tmpfsBytes({ memoryBytes }: RunLimits): number {
  return Math.max(1_048_576, Math.floor(memoryBytes / 4))
}
