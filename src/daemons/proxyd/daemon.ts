// The front door: finds what stands behind a path and hands the request over. What a daemon serves is judged by the
// daemon; what rows put here is judged here.
import { isFrontPath } from '../../core/front-paths.ts'
import { resources } from '../../resources/index.ts'
import { knowingClients } from '../client.ts'
import { daemon } from '../daemon.ts'
import { passTo } from '../hop.ts'
import { incomingOf } from '../request.ts'
import { DAEMON_NAMES, DOOR_SETTINGS } from '../settings.ts'
import { DoorReader } from './door.ts'
import { type Entry, enter } from './entry.ts'
import { openLinks } from './links.ts'
import { ROBOTS } from './page.ts'
import { frontTable } from './table.ts'
import { targetOf } from './target.ts'
import { mustPass, visitorOf } from './visitor.ts'

export const proxyd = daemon({
  name: 'proxyd',
  about: 'the front door: hands each request to the daemon that serves it',
  settings: DOOR_SETTINGS,
  guardsMetrics: async (host, authorization) => mustPass(host, await visitorOf(host, authorization), 'operator'),
  start: (frame, { TRUSTED_PROXIES: trusts }) => {
    const { app, host, log, metrics, peers } = frame
    const behind = frontTable(resources)
    const entry: Entry = { host, log, metrics, peers, trusts, rows: new DoorReader(frame.isSet) }
    frame.direct(knowingClients(openLinks(entry), trusts))
    app.get('/robots.txt', (c) => c.text(ROBOTS))
    for (const name of DAEMON_NAMES) {
      app.get(`/openapi/${name}.json`, (c) =>
        passTo(peers(name), c, trusts, new Request(new URL('/openapi.json', c.req.url), c.req.raw)),
      )
    }
    app.all('*', (c) => {
      const incoming = incomingOf(c)
      if (!incoming) return c.notFound()
      const target = targetOf(incoming.url ?? '')
      const name = behind(target.path)
      if (name !== undefined && name !== 'proxyd') return passTo(peers(name), c, trusts)
      return isFrontPath(target.path) ? c.notFound() : enter(entry, c, incoming, target)
    })
  },
})
