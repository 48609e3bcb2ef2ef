// Matches a path against the rows of proxyd_routes, web_routes and web_hosts; the longest prefix decides.
import { frontStamp } from '../../core/change-stamps.ts'
import { type ProxydRoute, proxydRoutes } from '../../core/links/proxyd-routes.ts'
import type { PageSlot } from '../../core/links/published-pages.ts'
import { isReservedPath } from '../../core/links/reserved-paths.ts'
import { webHosts } from '../../core/links/web-hosts.ts'
import { type WebRoute, webRoutes } from '../../core/links/web-routes.ts'
import type { Tx } from '../../store/engine.ts'

/** `folder`: people who may interact with the folder of the files. */
export type RequiredAuth = ProxydRoute['auth'] | 'folder'

export type RouteMatch =
  | { readonly kind: 'backend'; readonly route: ProxydRoute; readonly backend: string; readonly path: string }
  | { readonly kind: 'redirect'; readonly auth: RequiredAuth; readonly to: string; readonly keepsQuery: boolean }
  | { readonly kind: 'denied' }
  /** `path` is relative to the slot and starts with the folder. */
  | { readonly kind: 'files'; readonly auth: RequiredAuth; readonly slot: PageSlot; readonly path: string }

export interface ProxyRouteTable {
  /** `path` is not one of a daemon. */
  match(host: string, path: string): RouteMatch | undefined
}

export interface ProxyRouteTableRows {
  readonly routes: readonly ProxydRoute[]
  readonly webRoutes: readonly WebRoute[]
  readonly hosts: ReadonlyMap<string, string>
}

export function compileProxyRouteTable({ routes, webRoutes, hosts }: ProxyRouteTableRows): ProxyRouteTable {
  const byPath = new Map(routes.filter(({ path }) => !isReservedPath(path)).map((row) => [row.path, row]))
  const byPrefix = new Map(
    webRoutes.filter(({ path_prefix }) => !isReservedPath(path_prefix)).map((row) => [row.path_prefix, row]),
  )

  function find(path: string): RouteMatch | undefined {
    for (const prefix of prefixesOf(path)) {
      const route = byPath.get(prefix)
      if (route) return matchProxydRoute(route, path)
      const published = byPrefix.get(prefix) ?? byPrefix.get(toggleSlash(prefix))
      if (published) return matchWebRoute(published, path)
    }
    return matchFiles(path)
  }

  return {
    match: (host, path) => {
      const folder = hosts.get(host) ?? hosts.get(host.replace(/:\d+$/, ''))
      return find(folder === undefined || slotOf(path) ? path : `/pub/${folder}${path}`)
    },
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

function matchProxydRoute(route: ProxydRoute, path: string): RouteMatch | undefined {
  const { backend, redirect_to, auth } = route
  const rest = path.slice(route.path.length)
  if (redirect_to !== undefined) {
    // A target with a query or fragment is used unchanged.
    const isComplete = /[?#]/.test(redirect_to)
    const to = isComplete || rest === '' ? redirect_to : `${redirect_to.replace(/\/$/, '')}/${rest}`
    return { kind: 'redirect', auth, to, keepsQuery: !isComplete }
  }
  if (backend === undefined) return undefined
  return { kind: 'backend', route, backend, path: route.strip_prefix ? `/${rest}` : path }
}

function matchWebRoute(row: WebRoute, path: string): RouteMatch | undefined {
  const { access, folder, redirect_to = '/' } = row
  const prefix = row.path_prefix.replace(/\/$/, '')
  const rest = path.slice(prefix.length)
  if (access === 'deny') return { kind: 'denied' }
  if (access === 'redirect') {
    const to = rest === '' ? redirect_to : `${redirect_to.replace(/\/$/, '')}${rest}`
    return { kind: 'redirect', auth: 'public', to, keepsQuery: true }
  }
  const auth = access === 'auth' ? 'user' : 'public'
  const slot = slotOf(path)
  // Outside the slots, a web route shows the public files of its folder.
  if (!slot) return { kind: 'files', auth, slot: 'pub', path: `/${folder}${rest}` }
  const files = matchFiles(path)
  // Private files are opened only by a row whose prefix is below /priv/.
  const isOpened = slot === 'pub' || slotOf(`${prefix}/`) === 'priv'
  return files && isOpened ? { ...files, auth } : files
}

function slotOf(path: string): PageSlot | undefined {
  if (path.startsWith('/pub/')) return 'pub'
  return path.startsWith('/priv/') ? 'priv' : undefined
}

function matchFiles(path: string): (RouteMatch & { kind: 'files' }) | undefined {
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
