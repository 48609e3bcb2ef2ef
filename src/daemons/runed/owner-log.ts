// Logs how workspaces change their owners. A large tree takes a while, and turns of its world wait for it.
import { WorldOwners } from '../../core/groups/workspace-owner.ts'
import type { Layout } from '../../core/layout.ts'
import type { Log } from '../../lib/log/log.ts'
import type { InstanceHost } from '../../registry/context.ts'

const PROGRESS_MS = 3000

export function openWorldOwners({ engine }: InstanceHost, layout: Layout, log: Log): WorldOwners {
  let loggedAt = performance.now()
  return new WorldOwners({
    engine,
    layout,
    onProgress: (world, done) => {
      if (performance.now() - loggedAt < PROGRESS_MS) return
      loggedAt = performance.now()
      log.info({ world, done }, 'changing the owner of the workspaces')
    },
    onKept: (path) => log.warn({ path }, 'a file keeps its owner, because it has another name outside of its world'),
  })
}

/** Starts to give all workspaces to the users of their agents; the returned function interrupts it. */
export function startOwnerChange(host: InstanceHost, layout: Layout, log: Log): () => void {
  const owners = openWorldOwners(host, layout, log)
  owners.changeAll().then(
    (count) => {
      if (count > 0) log.info({ count }, 'workspaces now belong to the users of their agents')
    },
    (error) => {
      // The agents of other workspaces can run, and the turns of these tell why they wait.
      if (!owners.isClosed) log.error({ err: error }, 'some workspaces do not belong to the users of their agents')
    },
  )
  return () => owners.close()
}
