// The front door: hands each request to the daemon that serves its path. Who may is decided there, not here.
import type { Context } from 'hono'
import { deleteHops } from '../../lib/hop-headers.ts'
import { resources } from '../../resources/index.ts'
import { daemon } from '../daemon.ts'
import type { Peer } from '../peers.ts'
import { pathOf, REQUEST_ID, remoteOf } from '../request.ts'
import { DAEMON_NAMES } from '../settings.ts'
import { frontTable } from './table.ts'

export const proxyd = daemon({
  name: 'proxyd',
  about: 'the front door: hands each request to the daemon that serves it',
  start: ({ app, peers }) => {
    const behind = frontTable(resources)
    app.get('/', (c) =>
      c.json({
        service: 'svc',
        about: 'hosts agents; messages reach them through chats and links',
        health: '/health',
        descriptions: Object.fromEntries(DAEMON_NAMES.map((name) => [name, `/openapi/${name}.json`])),
      }),
    )
    for (const name of DAEMON_NAMES) {
      app.get(`/openapi/${name}.json`, (c) =>
        pass(c, peers(name), new Request(new URL('/openapi.json', c.req.url), c.req.raw)),
      )
    }
    app.all('/v1/*', (c) => {
      const name = behind(pathOf(c.req.url))
      return name === undefined || name === 'proxyd' ? c.notFound() : pass(c, peers(name), c.req.raw)
    })
  },
})

/** Only the front door may say who somebody is, so nobody else's word for it gets past. */
const IDENTITY = /^(x-user-.*|x-chat-.*|x-folder|x-group-name|x-forwarded-.*|forwarded|x-real-ip)$/

function pass(c: Context, peer: Peer, request: Request): Response | Promise<Response> {
  const { headers } = request
  deleteHops(headers)
  for (const name of [...headers.keys()]) if (IDENTITY.test(name)) headers.delete(name)
  const remote = remoteOf(c)
  if (remote !== undefined) headers.set('X-Forwarded-For', remote)
  headers.set(REQUEST_ID, c.get('requestId'))
  c.set('isPassedOn', peer.isHere)
  return peer.pass(request, c)
}
