// /auth/chat: leads a signed-in person to their own chat with a folder. The chat is created by the form, not by the link to it.
import type { Context, Hono } from 'hono'
import { Folder } from '../../core/values.ts'
import { refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { openPersonChat } from '../../resources/route-tokens.ts'
import { html } from '../../web/html.ts'
import { renderPage } from '../../web/pages/page.ts'
import { redirectTo, sendPage } from '../http/page-response.ts'
import { personForm, personPage, type SignedIn } from '../http/signed-in.ts'

export function mountPersonChat(app: Hono, host: InstanceHost): void {
  app.get('/auth/chat', personPage(host, showChat))
  app.post(
    '/auth/chat',
    personForm(host, async (_, { request }, fields) =>
      redirectTo(await openPersonChat(request, readFolder(fields.get('folder')))),
    ),
  )
}

function readFolder(text: string | undefined): string {
  const { success, data } = Folder.safeParse(text)
  return success ? data : refuse('invalid', 'folder must be the name of a folder', 'open the chat from your own page')
}

/** Does not tell whether the folder exists: the form checks that together with the right. */
function showChat(c: Context, { sub, csrf }: SignedIn): Response {
  const folder = readFolder(c.req.query('folder'))
  return sendPage(
    c,
    renderPage({
      title: 'Chat',
      person: sub,
      main: html`<p>Your own chat with <code>${folder}</code>. Other people do not see it.</p>
<form method="post" action="/auth/chat"><input type="hidden" name="csrf" value="${csrf}"><input type="hidden" name="folder" value="${folder}"><button class="primary wide" autofocus>Open the chat</button></form>`,
    }),
  )
}
