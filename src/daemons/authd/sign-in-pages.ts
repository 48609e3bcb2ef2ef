// The sign-in page, one-time links and signing out.
import type { Context, Hono } from 'hono'
import { localAccount } from '../../core/people/accounts.ts'
import { findSignInLink } from '../../core/people/sign-in-links.ts'
import { clientNetwork } from '../../lib/http/client-network.ts'
import { ownPath } from '../../lib/http/own-path.ts'
import { callVerb } from '../../registry/call.ts'
import { refuseSignInLink, sessionsResource } from '../../resources/sessions.ts'
import { html } from '../../web/html.ts'
import { renderPage } from '../../web/pages/page.ts'
import { authenticateRequest } from '../http/credentials.ts'
import { mustBeOwnOriginForm, readForm, readSessionForm } from '../http/form-request.ts'
import { pageHandler, redirectTo, sendPage } from '../http/page-response.ts'
import { clientAddressOf } from '../http/request-middleware.ts'
import { clearedSessionCookie } from '../http/session-cookie.ts'
import { type SignInContext, signedInDestination, signedInResponse, startSession } from '../http/sign-in.ts'
import { findSignedIn } from '../http/signed-in.ts'
import { PASSKEY_SCRIPT, passkeySection } from './passkey-section.ts'
import type { ProviderContext } from './provider-pages.ts'
import { startPath } from './provider-paths.ts'

export function mountSignInPages(app: Hono, context: ProviderContext): void {
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

async function showSignIn({ host, providers }: ProviderContext, c: Context): Promise<Response> {
  const next = ownPath(c.req.query('next'))
  const person = await findSignedIn(host, c)
  // `again`: some pages need a recent sign-in.
  if (person && c.req.query('again') === undefined)
    return redirectTo(await signedInDestination({ host }, c, { sub: person.sub, next }))
  const buttons = [...providers.values()].map(
    ({ name, title }) => html`<p><a class="button wide" href="${startPath(name, next)}">Continue with ${title}</a></p>`,
  )
  return sendPage(
    c,
    renderPage({
      title: 'Sign in',
      person: person?.sub,
      scripts: [PASSKEY_SCRIPT],
      main: html`${passkeySection(host, { next })}
${buttons}
<p class="hint">${buttons.length > 0 ? 'Or use' : 'Use'} a one-time link, which the operator creates on the server. For an operator:</p>
<pre><code class="copy">svc login ${host.instance} local:operator</code></pre>`,
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

async function useLink(context: ProviderContext, c: Context): Promise<Response> {
  const { host, limits } = context
  mustBeOwnOriginForm(host, c)
  await readForm(c)
  const token = c.req.param('token') ?? ''
  const sub = await host.engine.read((tx) => findSignInLink(tx, token, host.clock.now()))
  if (sub === undefined) {
    // Only wrong links count, so that others behind the same proxy can use theirs.
    limits.byAddress.take(clientNetwork(clientAddressOf(c)))
    refuseSignInLink()
  }
  const started = await startSession(context, c, { account: localAccount(sub), method: 'link', linkToken: token })
  const next = ownPath(c.req.query('next'))
  return signedInResponse(started, await signedInDestination(context, c, { sub: started.sub, next }))
}

async function signOut({ host }: SignInContext, c: Context): Promise<Response> {
  const { caller } = await authenticateRequest(host, c)
  if (caller?.kind !== 'person' || caller.session === undefined) return redirectTo('/auth/sign-in')
  await readSessionForm(host, c, caller.session)
  const request = { host, caller, face: 'dash', requestId: c.get('requestId') } as const
  await callVerb(request, sessionsResource.verbs.delete, { family_id: caller.session })
  return redirectTo('/auth/sign-in', { 'Set-Cookie': clearedSessionCookie(host) })
}
