// dashd: the dashboard. Its pages read and write through the verbs of the other faces, with the rights of the person.
import type { Context } from 'hono'
import { SSE_CONTENT_TYPE } from '../../lib/http/sse-writer.ts'
import { Refusal } from '../../lib/refusal.ts'
import { type DaemonContext, defineDaemon } from '../daemon.ts'
import { mountLine } from '../http/line-routes.ts'
import { outgoingOf } from '../http/peers.ts'
import { alreadySentResponse } from '../http/request-middleware.ts'
import { findSignedIn } from '../http/signed-in.ts'
import { mountAssets } from './assets.ts'
import { LIVE_END_EVENT, LiveUpdates } from './live-updates.ts'
import { mountPages } from './page-requests.ts'
import { pages } from './pages/index.ts'
import { mountManifestDownload } from './pages/manifest.ts'
import { mountPictures } from './pictures.ts'
import { createView } from './view.ts'

export const dashd = defineDaemon({
  name: 'dashd',
  about: 'dashboard for operators',
  start: (daemon) => {
    const { app, host, defer, stopping } = daemon
    const live = new LiveUpdates(host)
    defer(() => live.close())
    stopping.addEventListener(
      'abort',
      host.faults.guard('stream', () => live.close()),
    )
    mountLine(daemon)
    mountAssets(app)
    app.get('/dash', (c) => c.redirect('/dash/', 308))
    app.get('/dash/live', (c) => openStream(daemon, live, c))
    mountManifestDownload(app, daemon)
    mountPictures(app, daemon)
    mountPages(app, { daemon, live, pages })
  },
})

async function openStream(daemon: DaemonContext, live: LiveUpdates, c: Context): Promise<Response> {
  const person = await findSignedIn(daemon.host, c)
  // A browser would try again and again after an error.
  if (!person)
    return new Response(`event: ${LIVE_END_EVENT}\ndata: {}\n\n`, { headers: { 'Content-Type': SSE_CONTENT_TYPE } })
  const { isAdministrator } = await createView({ daemon, c, person, query: {} })
  const outgoing = outgoingOf(c)
  if (!isAdministrator || !outgoing) throw new Refusal('not_found', 'there is nothing at this path')
  if (c.req.method === 'HEAD') return new Response(null, { headers: { 'Content-Type': SSE_CONTENT_TYPE } })
  live.open(outgoing, person.sub, c.req.header('Last-Event-ID') ?? c.req.query('seen'))
  return alreadySentResponse(200)
}
