// `svc serve <instance> timed` on a machine without the store: a scheduler that uses the API of routd.
import { existsSync } from 'node:fs'
import { Hono } from 'hono'
import { openapiText } from '../../faces/openapi.ts'
import { createErrorHandler, createNotFoundHandler } from '../../lib/http/http.ts'
import type { Log } from '../../lib/log/log.ts'
import { METRICS_TYPE } from '../../lib/log/metrics.ts'
import { refuse } from '../../lib/refusal.ts'
import { readSettings, type SettingSource } from '../../lib/settings.ts'
import type { StoreAddress } from '../../store/index.ts'
import { API_DESCRIPTIONS } from '../api-descriptions.ts'
import { openHttpListener } from '../http/listener.ts'
import { daemonUrls, listenAddressOf } from '../process/listen-addresses.ts'
import { openMetricsPage } from '../process/metrics-page.ts'
import { INSTANCE_SETTINGS, TIMED_SETTINGS } from '../settings.ts'
import { RemoteScheduler } from './remote-scheduler.ts'
import { RoutdClient } from './routd-client.ts'

/** Whether to run without the store: only timed, with ROUTD_URL set and no store file. */
export function isStoreless(
  daemons: readonly string[],
  store: StoreAddress,
  sources: readonly SettingSource[],
): boolean {
  const isAlone = daemons.length === 1 && daemons[0] === 'timed'
  return isAlone && daemonUrls(sources).has('routd') && 'path' in store && !existsSync(store.path)
}

export interface StorelessOptions {
  readonly sources: readonly SettingSource[]
  readonly print: (line: string) => void
  readonly log: Log
}

/** Returns a function that stops it. */
export async function serveStoreless({
  sources,
  print,
  log: processLog,
}: StorelessOptions): Promise<() => Promise<void>> {
  const log = processLog.child({ daemon: 'timed' })
  const url = daemonUrls(sources).get('routd') ?? refuse('invalid', 'ROUTD_URL is not set')
  const { ROUTD_BEARER_FILE: bearerFile } = readSettings(TIMED_SETTINGS, sources)
  if (bearerFile === undefined)
    refuse(
      'invalid',
      'ROUTD_BEARER_FILE is not set: timed without a store needs a bearer token for routd',
      'create one on the machine with the store: svc bearer <instance> service:timed --ttl 720h',
    )
  const scheduler = new RemoteScheduler({ routd: new RoutdClient({ url, bearerFile }), log })
  const app = new Hono()
  app.onError(createErrorHandler((incident, error) => log.error({ incident, err: error }, 'internal error')))
  app.notFound(createNotFoundHandler(app))
  const description = openapiText('timed', [], API_DESCRIPTIONS.timed)
  app.get('/openapi.json', (c) => c.body(description, 200, { 'Content-Type': 'application/json' }))
  app.get('/livez', (c) => c.json({ status: 'ok', daemon: 'timed' }))
  const { METRICS_ENABLED } = readSettings({ METRICS_ENABLED: INSTANCE_SETTINGS.METRICS_ENABLED }, sources)
  const metricsPage = METRICS_ENABLED ? openMetricsPage() : undefined
  if (metricsPage)
    app.get('/metrics', async (c) => c.body(await metricsPage.text(), 200, { 'Content-Type': METRICS_TYPE }))
  app.on('GET', ['/health', '/healthz'], (c) => {
    if (scheduler.fault !== undefined) refuse('unavailable', 'routd is unavailable')
    return c.json({ status: 'ok', daemon: 'timed' })
  })
  try {
    const listener = await openHttpListener({
      name: 'timed',
      ...listenAddressOf('timed', sources),
      fetch: app.fetch,
      onBackgroundError: (error) => log.error({ err: error }, 'internal error'),
    })
    print(`timed ${listener.url}`)
    print('ready')
    return async () => {
      await listener.close()
      metricsPage?.close()
      await scheduler.close()
    }
  } catch (error) {
    metricsPage?.close()
    await scheduler.close()
    throw error
  }
}
