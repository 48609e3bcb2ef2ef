// Matches a path against the rows of proxyd_routes, web_routes and web_hosts; the longest prefix decides.
import { frontStamp } from '../../core/change-stamps.ts'
import { type ProxydRoute, proxydRoutes } from '../../core/links/proxyd-routes.ts'
import type { PageSlot } from '../../core/links/published-pages.ts'
import { isReservedFromFolders, isReservedFromRoutes } from '../../core/links/reserved-paths.ts'
import { webHosts } from '../../core/links/web-hosts.ts'
import { type WebRoute, webRoutes } from '../../core/links/web-routes.ts'
import type { Tx } from '../../store/engine.ts'
import type { RequestPath } from './request-target.ts'

/** `folder`: people who may interact with the folder of the files. */
export type RequiredAuth = ProxydRoute['auth'] | 'folder'

export type RouteMatch =
  | { readonly kind: 'backend'; readonly route: ProxydRoute; readonly backend: string; readonly path: string }
  | { readonly kind: 'redirect'; readonly auth: RequiredAuth; readonly to: string; readonly keepsQuery: boolean }
  | { readonly kind: 'denied' }
  | FilesMatch

/** `path` is relative to the slot, decoded, and starts with the folder. */
interface FilesMatch {
  readonly kind: 'files'
  readonly auth: RequiredAuth
  readonly slot: PageSlot
  readonly path: string
}

export interface ProxyRouteTable {
  /** `path` is not one of a daemon. */
  match(host: string, path: RequestPath): RouteMatch | undefined
  /** Who may read a file, by the rows about its own path. */
  accessToFile(slot: PageSlot, path: string): RequiredAuth | 'denied'
}

export interface ProxyRouteTableRows {
  readonly routes: readonly ProxydRoute[]
  readonly webRoutes: readonly WebRoute[]
  readonly hosts: ReadonlyMap<string, string>
}

const STRICTNESS = ['public', 'user', 'folder', 'operator', 'denied'] as const

export function strictest<Access extends RequiredAuth | 'denied'>(one: Access, other: Access): Access {
  return STRICTNESS.indexOf(one) < STRICTNESS.indexOf(other) ? other : one
}

export function compileProxyRouteTable({ routes, webRoutes, hosts }: ProxyRouteTableRows): ProxyRouteTable {
  const byPath = new Map(routes.filter(({ path }) => !isReservedFromRoutes(path)).map((row) => [row.path, row]))
  const byPrefix = new Map(
    webRoutes.filter(({ path_prefix }) => !isReservedFromFolders(path_prefix)).map((row) => [row.path_prefix, row]),
  )

  function findRow(name: string): ProxydRoute | WebRoute | undefined {
    for (const prefix of prefixesOf(name)) {
      const row = byPath.get(prefix) ?? byPrefix.get(prefix) ?? byPrefix.get(toggleSlash(prefix))
      if (row) return row
    }
    return undefined
  }

  function find(path: RequestPath): RouteMatch | undefined {
    const row = findRow(path.name)
    if (row && 'path' in row) return isSentOn(row, path) ? matchProxydRoute(row, path) : undefined
    if (path.hasSeparators) return undefined
    return row ? matchWebRoute(row, path) : matchFiles(path.name)
  }

  /** The row must also be the one of the path that its backend may see. */
  function isSentOn(row: ProxydRoute, path: RequestPath): boolean {
    if (path.hasSeparators && row.escapes !== 'keep') return false
    const seen = path.simplified()
    return seen !== undefined && (seen === path || findRow(seen.name) === row)
  }

  function accessToFile(slot: PageSlot, path: string): RequiredAuth | 'denied' {
    const row = findRow(`/${slot}${path}`)
    const ownAccess = slot === 'pub' ? 'public' : 'folder'
    if (!row) return ownAccess
    // Rows above the slots are about paths, not about files.
    if (!slotOf(`${'path' in row ? row.path : row.path_prefix}/`)) return ownAccess
    if ('path' in row) return strictest(ownAccess, row.auth)
    const accesses = { public: 'public', auth: 'user', deny: 'denied', redirect: ownAccess } as const
    return accesses[row.access]
  }

  /** A row about a file holds at every path that leads to it. */
  function protect(match: RouteMatch | undefined, path: RequestPath): RouteMatch | undefined {
    if (match?.kind !== 'files' || slotOf(path.name)) return match
    const auth = strictest(match.auth, accessToFile(match.slot, match.path))
    return auth === 'denied' ? { kind: 'denied' } : { ...match, auth }
  }

  return {
    match: (host, asked) => {
      const folder = hosts.get(host) ?? hosts.get(host.replace(/:\d+$/, ''))
      const path = folder === undefined || slotOf(asked.name) ? asked : asked.below(`/pub/${folder}`)
      return protect(find(path), path)
    },
    accessToFile,
  }
}

/** The path itself and each prefix that ends with a slash, longest first. */
function* prefixesOf(path: string): Generator<string> {
  yield path
  for (let slash = path.lastIndexOf('/', path.length - 2); slash >= 0; slash = path.lastIndexOf('/', slash - 1)) {
    yield path.slice(0, slash + 1)
    if (slash === 0) return
  }
}

/** A trailing slash makes no difference to a web route. */
function toggleSlash(prefix: string): string {
  return prefix.endsWith('/') ? prefix.slice(0, -1) : `${prefix}/`
}

function matchProxydRoute(route: ProxydRoute, path: RequestPath): RouteMatch | undefined {
  const { backend, redirect_to, auth } = route
  // Empty for an exact path.
  const rest = path.after(route.path).text.slice(1)
  if (redirect_to !== undefined) {
    // A target with a query or fragment is used unchanged.
    const isComplete = /[?#]/.test(redirect_to)
    const to = isComplete || rest === '' ? redirect_to : `${redirect_to.replace(/\/$/, '')}/${rest}`
    return { kind: 'redirect', auth, to, keepsQuery: !isComplete }
  }
  if (backend === undefined) return undefined
  return { kind: 'backend', route, backend, path: route.strip_prefix ? `/${rest}` : path.text }
}

function matchWebRoute(row: WebRoute, path: RequestPath): RouteMatch | undefined {
  const { access, folder, redirect_to = '/' } = row
  const rest = path.after(row.path_prefix)
  if (access === 'deny') return { kind: 'denied' }
  if (access === 'redirect') {
    const to = rest.text === '' ? redirect_to : `${redirect_to.replace(/\/$/, '')}${rest.text}`
    return { kind: 'redirect', auth: 'public', to, keepsQuery: true }
  }
  const auth = access === 'auth' ? 'user' : 'public'
  const slot = slotOf(path.name)
  // Outside the slots, a web route shows the public files of its folder.
  if (!slot) return { kind: 'files', auth, slot: 'pub', path: `/${folder}${rest.name}` }
  const files = matchFiles(path.name)
  // Private files are opened only by a row whose prefix is below /priv/.
  const isOpened = slot === 'pub' || slotOf(`${row.path_prefix}/`) === 'priv'
  return files && isOpened ? { ...files, auth } : files
}

function slotOf(path: string): PageSlot | undefined {
  if (path.startsWith('/pub/')) return 'pub'
  return path.startsWith('/priv/') ? 'priv' : undefined
}

function matchFiles(path: string): FilesMatch | undefined {
  const slot = slotOf(path)
  return slot && { kind: 'files', auth: slot === 'pub' ? 'public' : 'folder', slot, path: path.slice(slot.length + 1) }
}

/** Caches the compiled table until the stamp of its rows changes, so that a change takes effect with the next request. */
export class ProxyRouteTableReader {
  readonly #isSet: (key: string) => boolean
  #stamp: string | undefined
  #table: ProxyRouteTable | undefined

  /** `isSet`: whether a setting has a value; rows with `gated_by` depend on it. */
  constructor(isSet: (key: string) => boolean) {
    this.#isSet = isSet
  }

  async read(tx: Tx): Promise<ProxyRouteTable> {
    const stamp = await frontStamp.read(tx)
    if (this.#table && stamp === this.#stamp) return this.#table
    const [routes, published, hosts] = [await proxydRoutes.list(tx), await webRoutes.list(tx), await webHosts.list(tx)]
    this.#table = compileProxyRouteTable({
      routes: routes.filter(({ gated_by }) => gated_by === undefined || this.#isSet(gated_by)),
      webRoutes: published,
      hosts: new Map(hosts.map(({ hostname, folder }) => [hostname, folder])),
    })
    this.#stamp = stamp
    return this.#table
  }
}
