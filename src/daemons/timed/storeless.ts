// `svc serve <instance> timed` on a machine without the store: a scheduler that is a client of routd, and its listener.
import { existsSync } from 'node:fs'
import { Hono } from 'hono'
import { openapiText } from '../../faces/openapi.ts'
import { answerErrors, answerNotFound } from '../../lib/http.ts'
import type { Log } from '../../lib/log.ts'
import { refuse } from '../../lib/refusal.ts'
import { readSettings, type Source } from '../../lib/settings.ts'
import type { Address } from '../../store/index.ts'
import { DESCRIPTIONS } from '../descriptions.ts'
import { openListener } from '../listener.ts'
import { placeOf, urlsOf } from '../places.ts'
import { TIMED_SETTINGS } from '../settings.ts'
import { RemoteScheduler } from './remote-scheduler.ts'
import { RoutdClient } from './routd-client.ts'

/** Whether these daemons are to run without the store: timed alone, told where routd is, where no store is configured. */
export function isStoreless(daemons: readonly string[], store: Address, sources: readonly Source[]): boolean {
  const isAlone = daemons.length === 1 && daemons[0] === 'timed'
  return isAlone && urlsOf(sources).has('routd') && 'path' in store && !existsSync(store.path)
}

export interface StorelessOptions {
  readonly sources: readonly Source[]
  readonly print: (line: string) => void
  readonly log: Log
}

/** What closes it. */
export async function serveStoreless({ sources, print, log: all }: StorelessOptions): Promise<() => Promise<void>> {
  const log = all.child({ daemon: 'timed' })
  const url = urlsOf(sources).get('routd') ?? refuse('invalid', 'ROUTD_URL is not set')
  const { ROUTD_BEARER_FILE: bearerFile } = readSettings(TIMED_SETTINGS, sources)
  if (bearerFile === undefined)
    refuse(
      'invalid',
      'ROUTD_BEARER_FILE is not set: timed without a store asks routd with a bearer',
      'where the store is: svc bearer <instance> service:timed --ttl 720h',
    )
  const scheduler = new RemoteScheduler({ routd: new RoutdClient({ url, bearerFile }), log })
  const app = new Hono()
  app.onError(answerErrors((incident, error) => log.error({ incident, err: error }, 'internal error')))
  app.notFound(answerNotFound(app))
  const description = openapiText('timed', [], DESCRIPTIONS.timed)
  app.get('/openapi.json', (c) => c.body(description, 200, { 'Content-Type': 'application/json' }))
  app.get('/health', (c) => {
    if (scheduler.fault !== undefined) refuse('unavailable', 'routd cannot be asked')
    return c.json({ status: 'ok', daemon: 'timed' })
  })
  try {
    const listener = await openListener({
      name: 'timed',
      ...placeOf('timed', sources),
      fetch: app.fetch,
      onStray: (error) => log.error({ err: error }, 'internal error'),
    })
    print(`timed ${listener.url}`)
    print('ready')
    return async () => {
      await listener.close()
      await scheduler.close()
    }
  } catch (error) {
    await scheduler.close()
    throw error
  }
}
