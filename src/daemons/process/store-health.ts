// Checks that the store can be read and written, at most once a second for all daemons of a process.
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { probeWrite } from '../../store/migrate.ts'
import { query } from '../../store/statement.ts'

const CACHE_MS = 1000
/** Interval of write probes. */
const WRITE_PROBE_MS = 5000
const TIMEOUT_MS = 3000
/** With less free space than this, small writes succeed and others fail. */
const FREE_BYTES_MIN = 1024 * 1024

/** Throws a `Refusal` with the reason if the store is not healthy. */
export type StoreHealthCheck = () => Promise<void>

export function storeHealthCheck(host: InstanceHost, timeoutMs = TIMEOUT_MS): StoreHealthCheck {
  let [checkedMs, writtenMs] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]
  let result: Promise<void> | undefined
  const check = async (): Promise<void> => {
    await host.engine.read((tx) => query(tx, {}, 'select 1 as one')).catch(refuseWith('the store cannot be read'))
    if (!(await hasFreeSpace(host))) refuse('unavailable', 'the disk of the store is full')
    if (performance.now() - writtenMs < WRITE_PROBE_MS) return
    await host.engine.transaction(probeWrite).catch(refuseWith('the store cannot be written'))
    writtenMs = performance.now()
  }
  return () => {
    if (result && performance.now() - checkedMs < CACHE_MS) return result
    checkedMs = performance.now()
    result = withTimeout(timeoutMs, check())
    // Callers handle the rejection; a result that no caller awaits must not end the process.
    result.catch(() => {})
    return result
  }
}

/** The message is public, so it names no path; the log has the cause. */
function refuseWith(message: string): (error: unknown) => never {
  return (cause) => {
    throw Object.assign(new Refusal('unavailable', message), { cause })
  }
}

/** Checks only a local store; a database server watches its own disk. */
async function hasFreeSpace({ engine, layout }: InstanceHost): Promise<boolean> {
  if (engine.dialect.isRemote || !layout) return true
  const disk = await statfs(dirname(layout.store)).catch(() => undefined)
  return disk === undefined || disk.bavail * disk.bsize >= FREE_BYTES_MIN
}

async function withTimeout(timeoutMs: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Refusal('unavailable', 'the store did not answer in time')), timeoutMs)
  })
  try {
    await Promise.race([work, timeout])
  } finally {
    clearTimeout(timer)
  }
}
