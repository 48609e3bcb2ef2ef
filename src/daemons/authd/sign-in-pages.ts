// The sign-in page, one-time links and signing out.
import type { Context, Hono } from 'hono'
import { localAccount } from '../../core/people/accounts.ts'
import { findSignInLink } from '../../core/people/sign-in-links.ts'
import { ownPath } from '../../lib/http/own-path.ts'
import { callVerb } from '../../registry/call.ts'
import { refuseSignInLink, sessionsResource } from '../../resources/sessions.ts'
import { html } from '../../web/chat/html.ts'
import { renderPage } from '../../web/pages/page.ts'
import { authenticateRequest } from '../http/credentials.ts'
import { mustBeOwnOriginForm, readForm, readSessionForm } from '../http/form-request.ts'
import { pageHandler, redirectTo, sendPage } from '../http/page-response.ts'
import { clearedSessionCookie } from '../http/session-cookie.ts'
import { type SignInContext, signedInResponse, startSession } from '../http/sign-in.ts'
import { PASSKEY_SCRIPT, passkeySection } from './passkey-section.ts'

export function mountSignInPages(app: Hono, context: SignInContext): void {
  app.get(
    '/auth/sign-in',
    pageHandler((c) => showSignIn(context, c)),
  )
  app.get(
    '/auth/link/:token',
    pageHandler((c) => showLink(context, c)),
  )
  app.post(
    '/auth/link/:token',
    pageHandler((c) => useLink(context, c)),
  )
  app.post(
    '/auth/sign-out',
    pageHandler((c) => signOut(context, c)),
  )
}

function showSignIn({ host }: SignInContext, c: Context): Response {
  return sendPage(
    c,
    renderPage({
      title: 'Sign in',
      scripts: [PASSKEY_SCRIPT],
      main: html`${passkeySection(host, { next: ownPath(c.req.query('next')) })}
<p>The operator of this server can sign you in with a one-time link:</p>
<pre><code>svc login ${host.instance} local:&lt;name&gt;</code></pre>`,
    }),
  )
}

/** Changes nothing: mail programs and chats open links to preview them. */
async function showLink({ host }: SignInContext, c: Context): Promise<Response> {
  const sub = await host.engine.read((tx) => findSignInLink(tx, c.req.param('token') ?? '', host.clock.now()))
  if (sub === undefined) refuseSignInLink()
  return sendPage(
    c,
    renderPage({
      title: 'Sign in',
      main: html`<p>You are about to sign in as <code>${sub}</code> on this device.</p>
<form method="post"><button class="primary wide" autofocus>Sign in</button></form>`,
    }),
  )
}

async function useLink(context: SignInContext, c: Context): Promise<Response> {
  const { host } = context
  mustBeOwnOriginForm(host, c)
  await readForm(c)
  const token = c.req.param('token') ?? ''
  const sub = await host.engine.read((tx) => findSignInLink(tx, token, host.clock.now()))
  if (sub === undefined) refuseSignInLink()
  const started = await startSession(context, c, { account: localAccount(sub), method: 'link', linkToken: token })
  return signedInResponse(started, ownPath(c.req.query('next')))
}

async function signOut({ host }: SignInContext, c: Context): Promise<Response> {
  const { caller } = await authenticateRequest(host, c)
  if (caller?.kind !== 'person' || caller.session === undefined) return redirectTo('/auth/sign-in')
  await readSessionForm(host, c, caller.session)
  const request = { host, caller, face: 'dash', requestId: c.get('requestId') } as const
  await callVerb(request, sessionsResource.verbs.delete, { family_id: caller.session })
  return redirectTo('/auth/sign-in', { 'Set-Cookie': clearedSessionCookie(host) })
}
