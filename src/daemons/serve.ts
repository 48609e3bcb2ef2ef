// `svc serve`: the daemons of one process, each with its listener, until it is told to stop (decision P4).
import { securePlaces } from '../core/private-places.ts'
import type { Log } from '../lib/log.ts'
import { openProcessMetrics } from '../lib/metrics.ts'
import { nearest } from '../lib/nearest.ts'
import { refuse } from '../lib/refusal.ts'
import { readSettings, type Source } from '../lib/settings.ts'
import { resources } from '../resources/index.ts'
import { type OpenDaemon, openDaemon } from './daemon.ts'
import { storeHealth } from './health.ts'
import type { OpenHost } from './host.ts'
import { daemons } from './index.ts'
import { type Limits, type Listener, openListener } from './listener.ts'
import { openPeers } from './peers.ts'
import { placeOf, urlsOf } from './places.ts'
import { announce } from './presence.ts'
import { DAEMON_NAMES, type DaemonName, INSTANCE_SETTINGS } from './settings.ts'

export interface ServeOptions {
  /** Closed by `close`, and when the start fails. */
  readonly host: OpenHost
  /** Where settings come from; the first that has one decides. */
  readonly sources: readonly Source[]
  /** Reads them again where a file has changed; without it they stay as they are. */
  readonly currentSources?: (() => Promise<readonly Source[]>) | undefined
  /** Which daemons; all of them unless said. */
  readonly daemons?: readonly string[]
  /** Takes the lines `<daemon> <url>` and `ready`. */
  readonly print: (line: string) => void
  readonly log: Log
  readonly limits?: Partial<Limits>
  /** Told, once, that the process should end because of what happened. */
  readonly onFatal?: (error: unknown) => void
}

export interface Served {
  readonly urls: Readonly<Partial<Record<DaemonName, string>>>
  /** Takes no more requests, finishes those under way, closes the store. */
  close(): Promise<void>
}

export async function serve(options: ServeOptions): Promise<Served> {
  // Closes in reverse: listeners, then daemons, then what they stand on.
  const opened = new AsyncDisposableStack()
  opened.defer(() => options.host.close())
  const stop = new AbortController()
  opened.defer(() => stop.abort())
  try {
    if (options.host.layout) await securePlaces(options.host.layout)
    const running = await openDaemons(options, opened, stop.signal)
    const listeners = await listen(running, options)
    // A search that runs is ended: its request does not hold up the listeners.
    opened.defer(() => Promise.all([options.host.search?.close(), closeAll(listeners)]).then(() => {}))
    opened.defer(() => stop.abort())
    const urls = Object.fromEntries(listeners.map(([name, { url }]) => [name, url]))
    const presence = await tellOthers(options, urls)
    opened.defer(() => presence?.close())
    for (const [name, url] of Object.entries(urls)) options.print(`${name} ${url}`)
    options.print('ready')
    let closing: Promise<void> | undefined
    const close = (): Promise<void> => {
      closing ??= opened.disposeAsync()
      return closing
    }
    return { urls, close }
  } catch (error) {
    await opened.disposeAsync()
    throw error
  }
}

/** For `svc list` and for a second `svc serve`. Where it cannot be said, the daemons serve all the same. */
async function tellOthers({ host, log }: ServeOptions, urls: Readonly<Record<string, string>>) {
  try {
    return host.layout && (await announce(host.layout, { pid: process.pid, urls }))
  } catch (error) {
    log.warn({ err: error }, 'svc list cannot see that this process serves the instance')
    return undefined
  }
}

async function openDaemons(
  { host, sources, currentSources, log, daemons: wanted, onFatal }: ServeOptions,
  opened: AsyncDisposableStack,
  stopping: AbortSignal,
): Promise<OpenDaemon[]> {
  const names = namesOf(wanted)
  const here = new Map<DaemonName, OpenDaemon>()
  const { peers, close } = openPeers(here, urlsOf(sources))
  opened.defer(close)
  const { METRICS_ENABLED } = readSettings({ METRICS_ENABLED: INSTANCE_SETTINGS.METRICS_ENABLED }, sources)
  const process = METRICS_ENABLED ? openProcessMetrics() : undefined
  opened.defer(() => process?.close())
  let hasFailed = false
  const fatal = (error: unknown): void => {
    if (!hasFailed) onFatal?.(error)
    hasFailed = true
  }
  void host.engine.failed.then(fatal)
  const health = storeHealth(host)
  const around = { host, resources, sources, currentSources, log, peers, health, process, stopping, fatal }
  for (const daemon of await Promise.all(names.map((name) => daemons[name]()))) {
    const running = await openDaemon(daemon, around)
    opened.defer(() => running.close())
    here.set(running.name, running)
  }
  return [...here.values()]
}

/** In the order of the list, whatever the order they were named in. */
export function namesOf(wanted: readonly string[] | undefined): readonly DaemonName[] {
  if (!wanted?.length) return DAEMON_NAMES
  for (const word of wanted) {
    if (DAEMON_NAMES.some((name) => name === word)) continue
    const meant = nearest(word, DAEMON_NAMES)
    const said = `there is no daemon ${JSON.stringify(word.slice(0, 40))}`
    refuse('invalid', meant ? `${said}; did you mean ${meant}?` : said, `the daemons are ${DAEMON_NAMES.join(', ')}`)
  }
  return DAEMON_NAMES.filter((name) => wanted.includes(name))
}

type Listening = readonly (readonly [DaemonName, Listener])[]

/** All of them or none. */
async function listen(running: readonly OpenDaemon[], { sources, limits }: ServeOptions): Promise<Listening> {
  const attempts = await Promise.allSettled(
    running.map(async ({ name, app, log, metrics, direct }) => {
      const listener = await openListener({
        name,
        ...placeOf(name, sources),
        direct,
        fetch: app.fetch,
        limits,
        onFault: ({ status, detail }, remote) => {
          metrics.add('', status, 0)
          log.info({ status, remote, reason: detail })
        },
        onStray: (error) => log.error({ err: error }, 'internal error'),
      })
      return [name, listener] as const
    }),
  )
  const listeners = attempts.flatMap((attempt) => (attempt.status === 'fulfilled' ? [attempt.value] : []))
  const failed = attempts.find((attempt) => attempt.status === 'rejected')
  if (!failed) return listeners
  await closeAll(listeners)
  throw failed.reason
}

async function closeAll(listeners: Listening): Promise<void> {
  await Promise.all(listeners.map(([, listener]) => listener.close()))
}
