// Asks for a runner process when there is a first turn to run.
import { checkClaimable } from '../../core/turns/turn-claim.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { RunnerProcess } from '../process/runner-process.ts'
import { StoreWatcher } from '../process/store-watcher.ts'

/** Returns a function that ends the watch. The parent keeps a runner running, so one request is enough. */
export function requestRunner(host: InstanceHost, runner: RunnerProcess, leaseMs: number): () => Promise<void> {
  const { engine, clock } = host
  const watcher = new StoreWatcher({
    host,
    work: 'turns',
    check: async () => {
      const options = { now: clock.now(), leaseMs }
      const { hasClaimable, hasOpenBreaker } = await engine.read((tx) => checkClaimable(tx, options))
      if (!hasClaimable && !hasOpenBreaker) return
      runner.start()
      // Not awaited, because it waits for this check.
      watcher.close().catch(host.faults.handler('job'))
    },
  })
  return () => watcher.close()
}
