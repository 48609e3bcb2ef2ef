// Instances to measure, created as by `svc create`, with links minted before they are served. `baseline.ts` also loads this
// file of an earlier commit: keep the names of its exports.
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
  /** Its data directory. */
  readonly root: string
  /** Path of the SQLite store. */
  readonly store: string
  /** Opens its store in this process for `work`. */
  open<T>(work: (host: OpenHost) => Promise<T>): Promise<T>
  /** `svc serve`: every daemon in one process; `url` is that of proxyd. */
  serve(nodeOptions?: readonly string[]): Promise<Server>
  /**
   * All daemons but runed: messages are stored, routed and indexed, and wait. With turns, the cost of accepting messages
   * could not be measured, because the server is busy for as long as agents run.
   */
  serveWithoutTurns(nodeOptions?: readonly string[]): Promise<Server>
}

/** Creates an instance below `folder`, without rate limits and on free ports. */
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

/** Adds groups with their workspaces; `main` exists already. */
export async function addFolders(host: OpenHost, folders: readonly string[]): Promise<void> {
  for (const folder of folders) {
    if (folder !== 'main') await callVerb({ host, ...cli }, groupsResource.verbs.add, { folder })
    mkdirSync(join(host.layout?.groups ?? '', folder), { recursive: true })
  }
}

/** Mints hook links, each with its own JID, distributed over the folders, and returns their paths. */
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

/** Mints a chat link of a folder and returns its path with the trailing slash. */
export async function mintChat(host: OpenHost, target_folder = 'main'): Promise<string> {
  return new URL((await callVerb({ host, ...cli }, routeTokensResource.verbs.issue_chat, { target_folder })).url)
    .pathname
}
