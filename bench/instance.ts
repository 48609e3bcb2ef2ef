// An instance to measure: made as `svc create` makes one, with links minted before it is served.
import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInstance, DEFAULT_PRODUCT, mustFindProduct } from '../src/cli/instance/create-instance.ts'
import { type ConfiguredInstance, locateInstance, openInstance } from '../src/cli/instance/instance.ts'
import type { OpenHost } from '../src/daemons/process/host.ts'
import { DAEMON_NAMES } from '../src/daemons/settings.ts'
import { systemClock } from '../src/lib/clock.ts'
import { sourceOf } from '../src/lib/settings.ts'
import { callVerb } from '../src/registry/call.ts'
import { groupsResource } from '../src/resources/groups.ts'
import { routeTokensResource } from '../src/resources/route-tokens.ts'
import { openServer, type Server, SVC } from './server.ts'

const NAME = 'bench'
const WITHOUT_TURNS = DAEMON_NAMES.filter((name) => name !== 'runed')

export interface Instance {
  /** Where its files are. */
  readonly root: string
  /** The file of a SQLite store. */
  readonly store: string
  /** Gives its store to `work`, in this process. */
  open<T>(work: (host: OpenHost) => Promise<T>): Promise<T>
  /** `svc serve`: every daemon in one process; the front door is its URL. */
  serve(nodeOptions?: readonly string[]): Promise<Server>
  /**
   * All but runed: what comes in is stored, filed, routed and indexed, and waits. A turn runs for as long as its agent likes, so a
   * server that has turns to run is never quiet, and what it needs says nothing about taking messages.
   */
  serveWithoutTurns(nodeOptions?: readonly string[]): Promise<Server>
}

/** Below `folder`, told what `settings` says. No link is limited, and every port is a free one. */
export async function openBenchInstance(folder: string, settings: Record<string, string> = {}): Promise<Instance> {
  mkdirSync(folder, { recursive: true })
  const env = {
    SVC_DATA_DIR: folder,
    WEB_LISTEN: '127.0.0.1:0',
    WEBHOOK_RATE_HOOK: '0',
    WEBHOOK_RATE_WEB: '0',
    TOOL_CALLS_PER_SECOND: '0',
    ...settings,
  }
  const environment = sourceOf('the benchmark', new Map(Object.entries(env)))
  const product = await mustFindProduct(DEFAULT_PRODUCT)
  const place = locateInstance(NAME, environment)
  const { configured } = await createInstance(place, product, { environment, clock: systemClock })
  const serve = (daemons: readonly string[], nodeOptions: readonly string[] = []): Promise<Server> =>
    openServer('proxyd', [...nodeOptions, SVC, 'serve', NAME, ...daemons], {
      ...env,
      XDG_CACHE_HOME: join(folder, 'cache'),
    })
  return {
    root: place.layout.root,
    store: place.layout.store,
    open: (work) => withHost(configured, work),
    serve: (nodeOptions) => serve([], nodeOptions),
    serveWithoutTurns: (nodeOptions) => serve(WITHOUT_TURNS, nodeOptions),
  }
}

async function withHost<T>(configured: ConfiguredInstance, work: (host: OpenHost) => Promise<T>): Promise<T> {
  const host = await openInstance(configured, { clock: systemClock })
  try {
    return await work(host)
  } finally {
    await host.close()
  }
}

const cli = { caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const

/** Adds the groups that are missing, with their workspaces. */
export async function addFolders(host: OpenHost, folders: readonly string[]): Promise<void> {
  for (const folder of folders) {
    if (folder !== 'main') await callVerb({ host, ...cli }, groupsResource.verbs.add, { folder })
    mkdirSync(join(host.layout?.groups ?? '', folder), { recursive: true })
  }
}

/** So many hook links, each with a JID of its own, spread over folders; the paths to post to. */
export function mintHooks(host: OpenHost, count: number, folders: readonly string[] = ['main']): Promise<string[]> {
  const mint = async (index: number): Promise<string> => {
    const target_folder = folders[index % folders.length]
    const input = { target_folder, source_label: 'bench', jid_suffix: `l${index}` }
    return new URL((await callVerb({ host, ...cli }, routeTokensResource.verbs.issue_hook, input)).url).pathname
  }
  return Promise.all(Array.from({ length: count }, (_, index) => mint(index)))
}

/** Paths of links that were never minted. */
export function unknownHooks(count: number): string[] {
  return Array.from({ length: count }, () => `/hook/${randomBytes(32).toString('base64url')}`)
}

/** A chat link of a folder; its path, with the slash. */
export async function mintChat(host: OpenHost, target_folder = 'main'): Promise<string> {
  return new URL((await callVerb({ host, ...cli }, routeTokensResource.verbs.issue_chat, { target_folder })).url)
    .pathname
}
