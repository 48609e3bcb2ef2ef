// Pictures of agents for pages of the dashboard.
import type { Context, Hono } from 'hono'
import { refuse } from '../../lib/refusal.ts'
import { groupsResource } from '../../resources/groups.ts'
import type { DaemonContext } from '../daemon.ts'
import { findSignedIn } from '../http/signed-in.ts'
import { createView } from './view.ts'

export function picturePath(folder: string): string {
  return `/dash/pictures/${folder}`
}

export function mountPictures(app: Hono, daemon: DaemonContext): void {
  app.get(`${picturePath(':folder{.+}')}`, (c) => sendPicture(daemon, c))
}

async function sendPicture(daemon: DaemonContext, c: Context): Promise<Response> {
  const { picture } = groupsResource.verbs
  const folder = c.req.param('folder') ?? ''
  const person = await findSignedIn(daemon.host, c)
  const view = person && (await createView({ daemon, c, person, query: {} }))
  if (!view || !(await view.may(picture, { folder }))) return refuse('not_found', 'there is nothing at this path')
  const { type, content } = await view.call(picture, { folder })
  return new Response(Buffer.from(content, 'base64'), {
    headers: {
      'Content-Type': type,
      'Cache-Control': 'private, no-cache',
      'Content-Security-Policy': "default-src 'none'; sandbox",
      'X-Content-Type-Options': 'nosniff',
    },
  })
}
