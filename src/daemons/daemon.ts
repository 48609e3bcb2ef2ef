// Defines and opens a daemon: its resources' routes, its OpenAPI document, health, metrics, and its own routes.
import type { ChildProcess } from 'node:child_process'
import { hash } from 'node:crypto'
import { Hono } from 'hono'
import { openapiText } from '../faces/openapi.ts'
import { resourcesServedBy } from '../faces/operations.ts'
import { mountRest } from '../faces/rest.ts'
import { FAULTS } from '../lib/fault-boundary.ts'
import { matchesEtag } from '../lib/http/content-negotiation.ts'
import { createErrorHandler, createNotFoundHandler, problemResponse } from '../lib/http/http.ts'
import type { Log } from '../lib/log/log.ts'
import type { Counter, Histogram } from '../lib/log/metric-registry.ts'
import { METRICS_TYPE, RequestMetrics } from '../lib/log/metrics.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { readSettings, type SettingDeclarations, type SettingSource, type Settings } from '../lib/settings.ts'
import { CALLS } from '../registry/call.ts'
import type { InstanceHost } from '../registry/context.ts'
import type { Resource } from '../registry/resource.ts'
import { API_DESCRIPTIONS } from './api-descriptions.ts'
import { type Credentials, requestAuthenticator } from './http/credentials.ts'
import type { LocalDaemon, Peers } from './http/peers.ts'
import type { RawHandler } from './http/raw-request.ts'
import { requestMiddleware } from './http/request-middleware.ts'
import { limitCalls } from './http/rest-call-limit.ts'
import type { LiveSettings } from './process/live-settings.ts'
import { type MetricsPage, PROCESS_HEADER } from './process/metrics-page.ts'
import type { ProcessEntry } from './process/process-entry.ts'
import type { RunnerProcess } from './process/runner-process.ts'
import type { StoreHealthCheck } from './process/store-health.ts'
import type { SuspectHandling } from './process/suspect-handling.ts'
import { type DaemonName, REST_SETTINGS, TRUSTED_PROXY_SETTINGS } from './settings.ts'

/** Passed to `start` of a daemon. */
export interface DaemonContext {
  readonly host: InstanceHost
  /** Already has the routes of its resources. */
  readonly app: Hono
  readonly log: Log
  readonly metrics: RequestMetrics
  readonly peers: Peers
  /** The process that runs turns, if it is not this one. */
  readonly runner?: RunnerProcess | undefined
  /** Starts a process that runs one turn; undefined where this is not possible. */
  spawnRunner?: ((turnId: string) => ChildProcess) | undefined
  /** This process in the store, and what an earlier one left. */
  readonly entry?: ProcessEntry | undefined
  readonly suspects?: SuspectHandling | undefined
  /** Whether a setting has a value, declared or not. */
  isSet(key: string): boolean
  /** Of the start; the first with a value takes precedence. */
  readonly sources: readonly SettingSource[]
  /** Rereads the sources; returns the same list if no file has changed. */
  currentSources(): Promise<readonly SettingSource[]>
  /** Called before the routes of `app`. */
  setRawHandler(handler: RawHandler): void
  /** Aborted when shutdown begins: end streams and start no more work. */
  readonly stopping: AbortSignal
  /** Closes something after the last response, in reverse order, and also when the start fails. */
  defer(close: () => void | Promise<void>): void
}

export interface DaemonDefinition<D extends SettingDeclarations = SettingDeclarations> {
  readonly name: DaemonName
  readonly about: string
  readonly settings?: D
  /** What it counts besides requests and calls. */
  readonly metrics?: readonly (Counter | Histogram)[]
  /** Refuses callers who may not read the metrics; absent for daemons that listen on loopback. */
  authorizeMetrics?(host: InstanceHost, credentials: Credentials): Promise<void>
  /** The text of /metrics; absent for daemons that serve that of their process. */
  metricsText?(own: MetricsPage, peers: Peers, runner: RunnerProcess | undefined): Promise<string>
  /** Called before the daemon listens. */
  start?(context: DaemonContext, settings: Settings<D>): void | Promise<void>
}

export function defineDaemon<const D extends SettingDeclarations = Record<never, never>>(
  definition: DaemonDefinition<D>,
): DaemonDefinition<D> {
  return definition
}

/** Shared by the daemons of one process. */
export interface ProcessContext {
  readonly host: InstanceHost
  readonly resources: readonly Resource[]
  readonly sources: readonly SettingSource[]
  /** Undefined if the sources cannot change. */
  readonly live?: LiveSettings | undefined
  readonly log: Log
  readonly peers: Peers
  readonly health: StoreHealthCheck
  /** Absent where METRICS_ENABLED is false. */
  readonly metricsPage?: MetricsPage | undefined
  /** The process that runs turns, if it is not this one. */
  readonly runner?: RunnerProcess | undefined
  readonly spawnRunner?: ((turnId: string) => ChildProcess) | undefined
  readonly entry?: ProcessEntry | undefined
  readonly suspects?: SuspectHandling | undefined
  readonly stopping: AbortSignal
}

export interface OpenDaemon extends LocalDaemon {
  readonly name: DaemonName
  readonly log: Log
  readonly metrics: RequestMetrics
  close(): Promise<void>
}

export async function openDaemon(daemon: DaemonDefinition, shared: ProcessContext): Promise<OpenDaemon> {
  const { name } = daemon
  const { host, peers, stopping } = shared
  const app = new Hono()
  const log = shared.log.child({ daemon: name })
  const metrics = new RequestMetrics(name)
  shared.metricsPage?.add(metrics)
  host.metrics.declare([CALLS, FAULTS, ...(daemon.metrics ?? [])])
  const resources = resourcesServedBy(name, shared.resources)
  const { TRUSTED_PROXIES: isTrustedProxy } = readSettings(TRUSTED_PROXY_SETTINGS, shared.sources)
  app.use(requestMiddleware({ host, log, metrics, isTrustedProxy }))
  app.onError(
    createErrorHandler(
      (incident, error, c) => {
        log.error({ incident, request: c.get('requestId'), err: error }, 'internal error')
      },
      (c) => c.get('caller') === undefined,
    ),
  )
  app.notFound(createNotFoundHandler(app))
  mountDescription(app, () => openapiText(name, resources, API_DESCRIPTIONS[name]))
  mountHealthAndMetrics(app, { daemon, ...shared })
  const rest = readSettings(REST_SETTINGS, shared.sources)
  shared.live?.followValues(REST_SETTINGS, rest)
  mountRest(
    app,
    resources,
    limitCalls(host, () => rest.REST_CALLS_PER_SECOND, requestAuthenticator(host)),
  )
  const opened = new AsyncDisposableStack()
  let rawHandler: RawHandler | undefined
  try {
    const declared = daemon.settings ?? {}
    const settings = readSettings(declared, shared.sources)
    shared.live?.followValues(declared, settings)
    const context: DaemonContext = {
      host,
      app,
      log,
      metrics,
      peers,
      runner: shared.runner,
      spawnRunner: shared.spawnRunner,
      entry: shared.entry,
      suspects: shared.suspects,
      stopping,
      isSet: (key) => shared.sources.some((source) => Boolean(source.get(key))),
      sources: shared.sources,
      currentSources: async () => shared.live?.sources() ?? shared.sources,
      setRawHandler: (handler) => {
        rawHandler = handler
      },
      defer: (close) => opened.defer(close),
    }
    await daemon.start?.(context, settings)
  } catch (error) {
    await opened.disposeAsync()
    throw error
  }
  return { name, app, log, metrics, rawHandler, close: () => opened.disposeAsync() }
}

/** Public, and generated once per process. */
function mountDescription(app: Hono, generate: () => string): void {
  let document: { text: string; etag: string } | undefined
  app.get('/openapi.json', (c) => {
    if (!document) {
      const text = generate()
      document = { text, etag: `"${hash('sha256', text, 'hex').slice(0, 32)}"` }
    }
    const headers = { ETag: document.etag, 'Cache-Control': 'public, max-age=300' }
    if (matchesEtag(c.req.header('If-None-Match'), document.etag)) return c.body(null, 304, headers)
    return c.body(document.text, 200, { ...headers, 'Content-Type': 'application/json' })
  })
}

interface MonitoringOptions
  extends Pick<ProcessContext, 'host' | 'health' | 'metricsPage' | 'peers' | 'runner' | 'stopping'> {
  readonly daemon: DaemonDefinition
}

/** `/health` says whether requests can be served, and asks the store. `/livez` does not: a restart cures no store. */
function mountHealthAndMetrics(
  app: Hono,
  { daemon, host, health, metricsPage, peers, runner, stopping }: MonitoringOptions,
): void {
  const { name } = daemon
  app.get('/livez', (c) => c.json({ status: 'ok', daemon: name }))
  app.on('GET', ['/health', '/healthz'], async (c) => {
    try {
      if (stopping.aborted) refuse('unavailable', `${name} is stopping`)
      await health()
      return c.json({ status: 'ok', daemon: name })
    } catch (error) {
      // These messages are public and name no path; the log has the cause.
      if (!(error instanceof Refusal)) throw error
      c.error = error.cause instanceof Error ? error.cause : error
      return problemResponse(error)
    }
  })
  if (!metricsPage) return
  app.get('/metrics', async (c) => {
    await daemon.authorizeMetrics?.(host, {
      authorization: c.req.header('Authorization'),
      cookie: c.req.header('Cookie'),
    })
    const text = (await daemon.metricsText?.(metricsPage, peers, runner)) ?? (await metricsPage.text())
    return c.body(text, 200, { 'Content-Type': METRICS_TYPE, [PROCESS_HEADER]: metricsPage.processId })
  })
}
