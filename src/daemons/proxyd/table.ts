// What stands behind which path of the front door. Resources say themselves who serves them; the rest of the daemons'
// paths is here, and no row can take any of them.
import { isFrontPath } from '../../core/front-paths.ts'
import { operations } from '../../faces/operations.ts'
import type { Resource } from '../../registry/resource.ts'
import { DAEMON_NAMES, type DaemonName } from '../settings.ts'

/** Paths that are no resource's. */
const OWN_PATHS: readonly (readonly [path: string, daemon: DaemonName])[] = [
  ['/v1/keys', 'authd'],
  ['/chat', 'webd'],
  ['/hook', 'webd'],
  ['/mcp', 'webd'],
  ['/dash', 'dashd'],
  ['/auth', 'authd'],
  ['/invite', 'onbod'],
  ['/pair', 'onbod'],
]

export type Behind = (path: string) => DaemonName | undefined

/** Of the daemons that serve a resource the first one answers; of the paths that fit, the longest. */
export function frontTable(resources: readonly Resource[]): Behind {
  const served = resources.flatMap((resource) => {
    const first = DAEMON_NAMES.find((name) => resource.servedBy.includes(name))
    return first && operations(resource).length > 0 ? [[resource.path, first] as const] : []
  })
  const table = [...served, ...OWN_PATHS].sort(([a], [b]) => b.length - a.length)
  const stray = table.find(([path]) => !isFrontPath(path))
  if (stray) throw new Error(`${stray[0]} is no path of the front door, so a row could take it`)
  return (path) => table.find(([prefix]) => path === prefix || path.startsWith(`${prefix}/`))?.[1]
}
