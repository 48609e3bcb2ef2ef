// Pages about the signed-in person: /auth/me and their devices.
import type { Context, Hono } from 'hono'
import { prefersHtml } from '../../lib/http/http.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { html } from '../../web/chat/html.ts'
import { renderPage } from '../../web/pages/page.ts'
import { sendPage } from '../http/page-response.ts'
import { personPage, type SignedIn } from '../http/signed-in.ts'
import { accountLinksSection } from './account-links.ts'
import type { SignInProviders } from './sign-in-provider.ts'

export function mountAccountPages(app: Hono, host: InstanceHost, providers: SignInProviders): void {
  app.get(
    '/auth/me',
    personPage(host, (c, person) => showMe(host, providers, c, person)),
  )
}

async function showMe(host: InstanceHost, providers: SignInProviders, c: Context, person: SignedIn): Promise<Response> {
  const { sub, csrf, session } = person
  if (!prefersHtml(c.req.header('Accept'))) return c.json({ sub, csrf, session }, 200, { Vary: 'Accept' })
  return sendPage(
    c,
    renderPage({
      title: 'Your account',
      person: sub,
      main: html`<p>You are signed in as <code>${sub}</code>.</p>
${await accountLinksSection(host, providers, person)}
<form method="post" action="/auth/sign-out"><input type="hidden" name="csrf" value="${csrf}"><button>Sign out</button></form>`,
    }),
  )
}
