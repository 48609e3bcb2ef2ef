// Maps paths to daemons. Resources declare who serves them; the other paths of daemons are listed here. All are reserved: no
// row of proxyd_routes can take them.
import { isOwnPath } from '../../core/links/reserved-paths.ts'
import { httpOperations } from '../../faces/operations.ts'
import type { Resource } from '../../registry/resource.ts'
import { DAEMON_NAMES, type DaemonName } from '../settings.ts'

const DAEMON_PATHS: readonly (readonly [path: string, daemon: DaemonName])[] = [
  ['/v1/keys', 'authd'],
  ['/channels', 'routd'],
  ['/chat', 'webd'],
  ['/hook', 'webd'],
  ['/mcp', 'webd'],
  ['/openai', 'webd'],
  ['/dash', 'dashd'],
  ['/auth', 'authd'],
  ['/.well-known/oauth-authorization-server', 'authd'],
  ['/.well-known/openid-configuration', 'authd'],
  ['/.well-known/oauth-protected-resource', 'authd'],
  ['/invite', 'onbod'],
  ['/pair', 'onbod'],
  ['/onboard', 'onbod'],
]

export type DaemonLookup = (path: string) => DaemonName | undefined

/** The longest matching path decides; a resource of several daemons goes to the first of them. */
export function daemonLookup(resources: readonly Resource[]): DaemonLookup {
  const served = resources.flatMap((resource) => {
    const first = DAEMON_NAMES.find((name) => resource.servedBy.includes(name))
    return first && httpOperations(resource).length > 0 ? [[resource.path, first] as const] : []
  })
  const table = [...served, ...DAEMON_PATHS].sort(([a], [b]) => b.length - a.length)
  const unreserved = table.find(([path]) => !isOwnPath(path))
  if (unreserved) throw new Error(`${unreserved[0]} is not a reserved path, so a row could take it`)
  return (path) => table.find(([prefix]) => path === prefix || path.startsWith(`${prefix}/`))?.[1]
}
