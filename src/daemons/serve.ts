// `svc serve`: runs daemons in one process, each with its listener. See docs/decisions.md#one-process-or-many.
import type { ChildProcess } from 'node:child_process'
import { securePrivateDirectories } from '../core/groups/private-directories.ts'
import { errnoCode } from '../lib/files/atomic-file.ts'
import type { Log } from '../lib/log/log.ts'
import { refuse } from '../lib/refusal.ts'
import { readSettings, type SettingSource } from '../lib/settings.ts'
import { nearest } from '../lib/text/nearest-word.ts'
import { resources } from '../resources/index.ts'
import type { ProcessLine } from '../supervisor/process-line.ts'
import { type OpenDaemon, openDaemon } from './daemon.ts'
import { type HttpLimits, type HttpListener, openHttpListener } from './http/listener.ts'
import { openPeers } from './http/peers.ts'
import { daemons } from './index.ts'
import { runAdapters } from './process/adapter-processes.ts'
import { broadcastDrafts, receiveBroadcastDrafts, receiveDrafts } from './process/draft-relay.ts'
import type { OpenHost } from './process/host.ts'
import { dialLines } from './process/line-client.ts'
import { daemonUrls, type ListenAddress, listenAddressOf } from './process/listen-addresses.ts'
import type { LiveSettings } from './process/live-settings.ts'
import { openMetricsPage } from './process/metrics-page.ts'
import { announceProcess, type ServingProcess } from './process/presence.ts'
import { enterProcess } from './process/process-entry.ts'
import {
  bridgeSignals,
  FRONT_SIGNALS,
  measureLockWait,
  openRunnerProcess,
  shareWriteLock,
} from './process/runner-process.ts'
import { warnAboutSecrets, watchForLosses } from './process/start-warnings.ts'
import { storeHealthCheck } from './process/store-health.ts'
import { SuspectHandling } from './process/suspect-handling.ts'
import { withTracing } from './process/tracing.ts'
import { DAEMON_NAMES, type DaemonName, INSTANCE_SETTINGS } from './settings.ts'

export interface ServeOptions {
  /** Closed by `close` and when the start fails. */
  readonly host: OpenHost
  /** Sources of settings; the first with a value takes precedence. */
  readonly sources: readonly SettingSource[]
  /** Undefined if the sources cannot change. */
  readonly live?: LiveSettings | undefined
  /** All daemons if empty or undefined. */
  readonly daemons?: readonly string[]
  /** Receives the lines `<daemon> <url>` and `ready`. */
  readonly print: (line: string) => void
  readonly log: Log
  readonly limits?: Partial<HttpLimits>
  /** Called once with an error after which the process should exit. */
  readonly onFatal?: (error: unknown) => void
  /** Starts a process that runs one turn; undefined where this is not possible. */
  readonly spawnRunner?: ((turnId: string) => ChildProcess) | undefined
  /** Set in the front of an instance, whose turns another process runs. */
  readonly line?: ProcessLine | undefined
}

export interface RunningInstance {
  readonly urls: Readonly<Partial<Record<DaemonName, string>>>
  /** Accepts no more requests, finishes the running ones and closes the store. */
  close(): Promise<void>
}

/** Some daemons may run where nothing is mounted; runed runs agents in these directories. */
function mayLackFiles({ daemons = [], line }: ServeOptions): boolean {
  return line === undefined && daemons.length > 0 && !daemons.includes('runed')
}

export async function serve(given: ServeOptions): Promise<RunningInstance> {
  // Closes in reverse: listeners, daemons, then the host.
  const opened = new AsyncDisposableStack()
  opened.defer(() => given.host.close())
  opened.defer(() => given.live?.close())
  const stop = new AbortController()
  opened.defer(() => stop.abort())
  try {
    if (given.host.layout) await securePrivateDirectories(given.host.layout, mayLackFiles(given))
    const options = { ...given, host: await withTracing({ ...given, daemons: selectDaemons(given.daemons) }, opened) }
    opened.defer(await watchForLosses(options.host, options.log))
    await warnAboutSecrets(options.host, options.log)
    const running = await openDaemons(options, opened, stop.signal)
    const listeners = await listen(running, options)
    // Aborts running searches, so that their requests do not delay the listeners.
    opened.defer(() => Promise.all([options.host.search?.close(), closeAll(listeners)]).then(() => {}))
    opened.defer(() => stop.abort())
    const urls = Object.fromEntries(listeners.map(([name, { url }]) => [name, url]))
    const adapters = runAdapters(options, urls.routd)
    opened.defer(() => adapters?.close())
    const presence = await announceServing(options, urls)
    opened.defer(() => presence?.close())
    // A front that replaces another one has the same addresses.
    if (!options.line?.formerUrls) {
      for (const [name, url] of Object.entries(urls)) options.print(`${name} ${url}`)
      options.print('ready')
    }
    options.line?.ready(urls)
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

/** For `svc list` and a second `svc serve`. A failure does not stop the daemons. */
async function announceServing({ host, log, line }: ServeOptions, urls: Readonly<Record<string, string>>) {
  const describe = (): ServingProcess =>
    line ? { pid: process.ppid, urls, processes: [...line.processes] } : { pid: process.pid, urls }
  try {
    return host.layout && (await announceProcess(host.layout, describe, host.faults.handler('connection')))
  } catch (error) {
    // A container without `ipc`: only gated has its sockets. Node reports a read-only root as ENOENT.
    if (!['EROFS', 'ENOENT'].includes(errnoCode(error) ?? ''))
      log.warn({ err: error }, 'cannot announce this process: svc list will not show it')
    return undefined
  }
}

async function openDaemons(
  { host, sources, live, log, daemons: wanted, onFatal, line, spawnRunner }: ServeOptions,
  opened: AsyncDisposableStack,
  stopping: AbortSignal,
): Promise<OpenDaemon[]> {
  const names = selectDaemons(wanted)
  const local = new Map<DaemonName, OpenDaemon>()
  const { peers, close } = openPeers(local, daemonUrls(sources))
  opened.defer(close)
  const { METRICS_ENABLED } = readSettings({ METRICS_ENABLED: INSTANCE_SETTINGS.METRICS_ENABLED }, sources)
  const metricsPage = METRICS_ENABLED ? openMetricsPage(host.metrics) : undefined
  opened.defer(() => metricsPage?.close())
  host.engine.failed.then((error) => onFatal?.(error)).catch(host.faults.handler('process'))
  const health = storeHealthCheck(host)
  if (line) {
    opened.defer(bridgeSignals(line, host, FRONT_SIGNALS))
    line.onPeerMessage((message) => receiveDrafts(message, host), host.faults.handler('signal'))
    shareWriteLock(line, host)
  }
  measureLockWait(host)
  const runner = line && openRunnerProcess(line, host.faults)
  const entry = await enterProcess(host, names)
  opened.defer(() => entry.leave())
  const suspects = new SuspectHandling({ host, process: entry.id, stopping })
  const shared = {
    host,
    resources,
    sources,
    live,
    log,
    peers,
    health,
    metricsPage,
    runner,
    spawnRunner,
    entry,
    suspects,
    stopping,
  }
  for (const daemon of await Promise.all(names.map((name) => daemons[name]()))) {
    const running = await openDaemon(daemon, shared)
    opened.defer(() => running.close())
    local.set(running.name, running)
  }
  suspects.start().catch(host.faults.handler('job'))
  opened.defer(broadcastDrafts(host))
  if (names.includes('webd') || names.includes('dashd')) opened.defer(receiveBroadcastDrafts(host))
  for (const stop of dialLines({ host, peers, log, stopping })) opened.defer(stop)
  return [...local.values()]
}

/** Returns them in the order of DAEMON_NAMES. */
export function selectDaemons(wanted: readonly string[] | undefined): readonly DaemonName[] {
  if (!wanted?.length) return DAEMON_NAMES
  for (const word of wanted) {
    if (DAEMON_NAMES.some((name) => name === word)) continue
    const similar = nearest(word, DAEMON_NAMES)
    const fault = `unknown daemon ${JSON.stringify(word.slice(0, 40))}`
    const hint = `the daemons are ${DAEMON_NAMES.join(', ')}`
    refuse('invalid', similar ? `${fault}; did you mean ${similar}?` : fault, hint)
  }
  return DAEMON_NAMES.filter((name) => wanted.includes(name))
}

type OpenListeners = readonly (readonly [DaemonName, HttpListener])[]

/** Opens all listeners or none. */
async function listen(
  running: readonly OpenDaemon[],
  { host, sources, limits, line }: ServeOptions,
): Promise<OpenListeners> {
  const addressOf = (name: DaemonName): ListenAddress => {
    const address = listenAddressOf(name, sources)
    const port = URL.parse(line?.formerUrls?.[name] ?? '')?.port
    return port ? { ...address, listen: { ...address.listen, port: Number(port) } } : address
  }
  const attempts = await Promise.allSettled(
    running.map(async ({ name, app, log, metrics, rawHandler }) => {
      const listener = await openHttpListener({
        name,
        ...addressOf(name),
        rawHandler,
        fetch: app.fetch,
        limits,
        onFault: ({ status, detail }, remote) => {
          metrics.add('', status, 0)
          log.info({ status, remote, reason: detail })
        },
        onBackgroundError: (error) => {
          host.faults.count('connection')
          log.error({ place: 'connection', err: error }, 'internal error')
        },
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

async function closeAll(listeners: OpenListeners): Promise<void> {
  await Promise.all(listeners.map(([, listener]) => listener.close()))
}
