// What a daemon is: a name, its resources' routes, its documents, and what it adds of its own.
import { hash } from 'node:crypto'
import { Hono } from 'hono'
import { openapiText } from '../faces/openapi.ts'
import { servedBy } from '../faces/operations.ts'
import { mountRest } from '../faces/rest.ts'
import { answerErrors, answerNotFound, problem } from '../lib/http.ts'
import type { Log } from '../lib/log.ts'
import { METRICS_TYPE, type ProcessMetrics, RequestMetrics } from '../lib/metrics.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { knowsTag } from '../lib/representation.ts'
import { type Declared, readSettings, type Settings, type Source } from '../lib/settings.ts'
import type { Host } from '../registry/context.ts'
import type { Resource } from '../registry/resource.ts'
import { DESCRIPTIONS } from './descriptions.ts'
import type { Direct } from './direct.ts'
import type { Health } from './health.ts'
import type { Peers } from './peers.ts'
import { askWith, framed } from './request.ts'
import type { DaemonName } from './settings.ts'

/** What a daemon is given when it starts. */
export interface Frame {
  readonly host: Host
  /** Its routes; those of its resources are there already. */
  readonly app: Hono
  readonly log: Log
  readonly metrics: RequestMetrics
  readonly peers: Peers
  /** Whether the instance is told anything under this name, by whoever declared it. */
  isSet(key: string): boolean
  /** Where settings come from now; the same list as before unless a file has changed. */
  currentSources(): Promise<readonly Source[]>
  /** What is asked before the routes of `app`. */
  direct(direct: Direct): void
  /** Aborted when the process is about to stop: the time to end streams and take no more work. */
  readonly stopping: AbortSignal
  /** What happened leaves nothing to go on with: the process should end, and another one begin. */
  fatal(error: unknown): void
  /** What to close after the last answer has gone out; in reverse order, and also when the start fails. */
  defer(close: () => void | Promise<void>): void
}

export interface Daemon<D extends Declared = Declared> {
  readonly name: DaemonName
  readonly about: string
  readonly settings?: D
  /** Refuses whoever may not read its metrics; absent where its listener is for the machine alone. */
  guardsMetrics?(host: Host, authorization: string | undefined): Promise<void>
  /** Before the daemon listens. */
  start?(frame: Frame, settings: Settings<D>): void | Promise<void>
}

export function daemon<const D extends Declared = Record<never, never>>(declared: Daemon<D>): Daemon<D> {
  return declared
}

/** What the daemons of one process share. */
export interface Surroundings {
  readonly host: Host
  readonly resources: readonly Resource[]
  readonly sources: readonly Source[]
  /** Reads the sources again where a file has changed; without it they stay as they are. */
  readonly currentSources?: (() => Promise<readonly Source[]>) | undefined
  readonly log: Log
  readonly peers: Peers
  readonly health: Health
  /** Absent where METRICS_ENABLED is false. */
  readonly process?: ProcessMetrics | undefined
  readonly stopping: AbortSignal
  readonly fatal: (error: unknown) => void
}

export interface OpenDaemon {
  readonly name: DaemonName
  readonly app: Hono
  readonly log: Log
  readonly metrics: RequestMetrics
  readonly direct?: Direct | undefined
  close(): Promise<void>
}

export async function openDaemon(daemon: Daemon, around: Surroundings): Promise<OpenDaemon> {
  const { name } = daemon
  const { host, peers, stopping } = around
  const app = new Hono()
  const log = around.log.child({ daemon: name })
  const metrics = new RequestMetrics(name)
  const resources = servedBy(name, around.resources)
  app.use(framed({ host, log, metrics }))
  app.onError(
    answerErrors(
      (incident, error, c) => {
        log.error({ incident, request: c.get('requestId'), err: error }, 'internal error')
      },
      (c) => c.get('caller') === undefined,
    ),
  )
  app.notFound(answerNotFound(app))
  mountDescription(app, () => openapiText(name, resources, DESCRIPTIONS[name]))
  mountState(app, { daemon, metrics, ...around })
  mountRest(app, resources, askWith(host))
  const opened = new AsyncDisposableStack()
  let direct: Direct | undefined
  try {
    const settings = readSettings(daemon.settings ?? {}, around.sources)
    const frame: Frame = {
      host,
      app,
      log,
      metrics,
      peers,
      stopping,
      isSet: (key) => around.sources.some((source) => Boolean(source.get(key))),
      currentSources: around.currentSources ?? (async () => around.sources),
      direct: (handle) => {
        direct = handle
      },
      fatal: around.fatal,
      defer: (close) => opened.defer(close),
    }
    await daemon.start?.(frame, settings)
  } catch (error) {
    await opened.disposeAsync()
    throw error
  }
  return { name, app, log, metrics, direct, close: () => opened.disposeAsync() }
}

/** Public, and made once: it says the same as long as the process lives. */
function mountDescription(app: Hono, write: () => string): void {
  let made: { text: string; etag: string } | undefined
  app.get('/openapi.json', (c) => {
    if (!made) {
      const text = write()
      made = { text, etag: `"${hash('sha256', text, 'hex').slice(0, 32)}"` }
    }
    const headers = { ETag: made.etag, 'Cache-Control': 'public, max-age=300' }
    if (knowsTag(c.req.header('If-None-Match'), made.etag)) return c.body(null, 304, headers)
    return c.body(made.text, 200, { ...headers, 'Content-Type': 'application/json' })
  })
}

interface State extends Pick<Surroundings, 'host' | 'health' | 'process' | 'stopping'> {
  readonly daemon: Daemon
  readonly metrics: RequestMetrics
}

function mountState(app: Hono, { daemon, host, health, process, metrics, stopping }: State): void {
  const { name } = daemon
  app.get('/health', async (c) => {
    try {
      if (stopping.aborted) refuse('unavailable', `${name} is stopping`)
      await health()
      return c.json({ status: 'ok', daemon: name })
    } catch (error) {
      // Its own sentences, which name no place.
      if (!(error instanceof Refusal)) throw error
      c.error = error
      return problem(error)
    }
  })
  if (!process) return
  app.get('/metrics', async (c) => {
    await daemon.guardsMetrics?.(host, c.req.header('Authorization'))
    return c.body(metrics.text() + process.text(), 200, { 'Content-Type': METRICS_TYPE })
  })
}
