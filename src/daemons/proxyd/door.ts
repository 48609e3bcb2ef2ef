// What the rows make of a path: decided once, by the longest prefix, from one picture of all of them.
import { isFrontPath } from '../../core/front-paths.ts'
import { type ProxydRoute, proxydRoutes } from '../../core/proxyd-routes.ts'
import { frontStamp } from '../../core/stamp.ts'
import { webHosts } from '../../core/web-hosts.ts'
import { type WebRoute, webRoutes } from '../../core/web-routes.ts'
import type { Tx } from '../../store/engine.ts'

/** `folder`: whoever may speak with the folder that the files belong to. */
export type Auth = ProxydRoute['auth'] | 'folder'

export type Place =
  | { readonly kind: 'backend'; readonly route: ProxydRoute; readonly backend: string; readonly path: string }
  | { readonly kind: 'redirect'; readonly auth: Auth; readonly to: string; readonly keepsQuery: boolean }
  | { readonly kind: 'denied' }
  /** Below the slots of all folders; `path` starts with the folder's name. */
  | { readonly kind: 'files'; readonly auth: Auth; readonly slot: Slot; readonly path: string }

export type Slot = 'pub' | 'priv'

export interface Door {
  /** What stands at a path that is none of the front door's own, asked for at this host. */
  at(host: string, path: string): Place | undefined
}

export interface DoorRows {
  readonly routes: readonly ProxydRoute[]
  readonly webRoutes: readonly WebRoute[]
  readonly hosts: ReadonlyMap<string, string>
}

export function compileDoor({ routes, webRoutes, hosts }: DoorRows): Door {
  const byPath = new Map(routes.filter(({ path }) => !isFrontPath(path)).map((row) => [row.path, row]))
  const byPrefix = new Map(
    webRoutes.filter(({ path_prefix }) => !isFrontPath(path_prefix)).map((row) => [row.path_prefix, row]),
  )

  function find(path: string): Place | undefined {
    for (const prefix of prefixesOf(path)) {
      const route = byPath.get(prefix)
      if (route) return throughRoute(route, path)
      const published = byPrefix.get(prefix) ?? byPrefix.get(twinOf(prefix))
      if (published) return throughWebRoute(published, path)
    }
    return filesAt(path)
  }

  return {
    at: (host, path) => {
      const folder = hosts.get(host) ?? hosts.get(host.replace(/:\d+$/, ''))
      return find(folder === undefined || slotOf(path) ? path : `/pub/${folder}${path}`)
    },
  }
}

/** The path itself and every part of it that ends with a slash, the longest first. */
function* prefixesOf(path: string): Generator<string> {
  yield path
  for (let slash = path.lastIndexOf('/', path.length - 2); slash >= 0; slash = path.lastIndexOf('/', slash - 1)) {
    yield path.slice(0, slash + 1)
    if (slash === 0) return
  }
}

/** A web route means the same with and without the slash at its end. */
function twinOf(prefix: string): string {
  return prefix.endsWith('/') ? prefix.slice(0, -1) : `${prefix}/`
}

function throughRoute(route: ProxydRoute, path: string): Place | undefined {
  const { backend, redirect_to, auth } = route
  const rest = path.slice(route.path.length)
  if (redirect_to !== undefined) {
    // An address that says more than a path is taken as it is.
    const isWhole = /[?#]/.test(redirect_to)
    const to = isWhole || rest === '' ? redirect_to : `${redirect_to.replace(/\/$/, '')}/${rest}`
    return { kind: 'redirect', auth, to, keepsQuery: !isWhole }
  }
  if (backend === undefined) return undefined
  return { kind: 'backend', route, backend, path: route.strip_prefix ? `/${rest}` : path }
}

function throughWebRoute(row: WebRoute, path: string): Place | undefined {
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
  // Outside of the slots a path is a window into what its folder publishes.
  if (!slot) return { kind: 'files', auth, slot: 'pub', path: `/${folder}${rest}` }
  const files = filesAt(path)
  // What is private is opened by a row that speaks of it, never by one for all the rest.
  const opens = slot === 'pub' || slotOf(`${prefix}/`) === 'priv'
  return files && opens ? { ...files, auth } : files
}

function slotOf(path: string): Slot | undefined {
  if (path.startsWith('/pub/')) return 'pub'
  return path.startsWith('/priv/') ? 'priv' : undefined
}

function filesAt(path: string): (Place & { kind: 'files' }) | undefined {
  const slot = slotOf(path)
  return slot && { kind: 'files', auth: slot === 'pub' ? 'public' : 'folder', slot, path: path.slice(slot.length + 1) }
}

/** Compiled once, and kept while the store says that no row has changed: a change bites on the next request. */
export class DoorReader {
  readonly #isSet: (key: string) => boolean
  #stamp: string | undefined
  #door: Door | undefined

  /** `isSet`: whether the instance is told anything under this name. */
  constructor(isSet: (key: string) => boolean) {
    this.#isSet = isSet
  }

  async read(tx: Tx): Promise<Door> {
    const stamp = await frontStamp.read(tx)
    if (this.#door && stamp === this.#stamp) return this.#door
    const [routes, published, hosts] = [await proxydRoutes.list(tx), await webRoutes.list(tx), await webHosts.list(tx)]
    this.#door = compileDoor({
      routes: routes.filter(({ gated_by }) => gated_by === undefined || this.#isSet(gated_by)),
      webRoutes: published,
      hosts: new Map(hosts.map(({ hostname, folder }) => [hostname, folder])),
    })
    this.#stamp = stamp
    return this.#door
  }
}
