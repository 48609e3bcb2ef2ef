// Signing in with a provider: the redirect to it, its callback, and pages for what went wrong. Details are in the log only.
import type { Context, Hono } from 'hono'
import { ZodError } from 'zod'
import type { ConfirmedAccount } from '../../core/people/accounts.ts'
import { clientNetwork } from '../../lib/http/client-network.ts'
import { prefersHtml, problemOf } from '../../lib/http/http.ts'
import { ownPath } from '../../lib/http/own-path.ts'
import { Refusal, type RefusalCode, refuse } from '../../lib/refusal.ts'
import { EMPTY_HTML, html } from '../../web/html.ts'
import { renderPage } from '../../web/pages/page.ts'
import { toSentence } from '../../web/text/wording.ts'
import { pageHandler, redirectTo, sendPage } from '../http/page-response.ts'
import { clientAddressOf } from '../http/request-middleware.ts'
import {
  inviteTokenOf,
  type SignInContext,
  signedInDestination,
  signedInResponse,
  startSession,
} from '../http/sign-in.ts'
import { linkAccount, mustBeLinkRequest } from './account-links.ts'
import { type AttemptLimits, accountKey } from './attempt-limits.ts'
import {
  attemptCookie,
  clearedAttemptCookie,
  type ProviderAttempt,
  readAttempt,
  startAttempt,
} from './provider-attempt.ts'
import { callbackPath, signInPagePath, startPath } from './provider-paths.ts'
import type { SignInProvider, SignInProviders } from './sign-in-provider.ts'

export interface ProviderContext extends SignInContext {
  readonly providers: SignInProviders
  readonly limits: AttemptLimits
}

export function mountProviderPages(app: Hono, context: ProviderContext): void {
  app.get('/auth/provider/:name', pageHandler(withProvider(context, startSignIn)))
  app.get('/auth/provider/:name/callback', pageHandler(withProvider(context, finishSignIn)))
}

type ProviderHandler = (context: ProviderContext, c: Context, provider: SignInProvider) => Promise<Response>

function withProvider(context: ProviderContext, handle: ProviderHandler): (c: Context) => Promise<Response> {
  return (c) => {
    const provider = context.providers.get(c.req.param('name') ?? '')
    if (!provider) refuse('not_found', 'this server has no such way to sign in', 'open /auth/sign-in for the others')
    return handle(context, c, provider)
  }
}

/** Reads as the page shows it, and as the log has it. */
interface Failure {
  readonly code: RefusalCode
  readonly text: string
  readonly hint: string
  readonly detail: string
}

/** GET, because browsers block the redirect to a provider after a form (form-action). */
async function startSignIn({ host }: ProviderContext, c: Context, provider: SignInProvider): Promise<Response> {
  const next = ownPath(c.req.query('next'))
  const proof = c.req.query('link')
  const link = proof === undefined ? undefined : await mustBeLinkRequest(host, c, provider.name, proof)
  const attempt = startAttempt(host, { next, link })
  let location: URL
  try {
    location = await provider.authorizationUrl(attempt, redirectUri(host.webBase, provider))
  } catch (error) {
    if (error instanceof Refusal) throw error
    return failurePage(c, provider, attempt, {
      code: 'unavailable',
      text: `${provider.title} cannot be reached at the moment.`,
      hint: 'Try again in a minute, or sign in another way.',
      detail: describeFault(error),
    })
  }
  return redirectTo(location.href, { 'Set-Cookie': attemptCookie(host, provider.name, attempt) })
}

/** From the public URL of this server, never from headers of the request. */
function redirectUri(webBase: string, { name }: SignInProvider): string {
  return `${webBase}${callbackPath(name)}`
}

async function finishSignIn(context: ProviderContext, c: Context, provider: SignInProvider): Promise<Response> {
  const { host, limits } = context
  limits.byAddress.take(clientNetwork(clientAddressOf(c)))
  const attempt = readAttempt(host, provider.name, c.req.header('Cookie'))
  const response = attempt
    ? await finishAttempt(context, c, provider, attempt)
    : failurePage(c, provider, undefined, {
        code: 'invalid',
        text: 'This sign-in was not started in this browser, or took longer than 10 minutes.',
        hint: 'Start again.',
        detail: `${provider.name}: a callback without a pending attempt`,
      })
  // An attempt is used once, whatever comes of it.
  response.headers.append('Set-Cookie', clearedAttemptCookie(host, provider.name))
  return response
}

async function finishAttempt(
  context: ProviderContext,
  c: Context,
  provider: SignInProvider,
  attempt: ProviderAttempt,
): Promise<Response> {
  let account: ConfirmedAccount
  try {
    const callback = new URL(redirectUri(context.host.webBase, provider))
    callback.search = new URL(c.req.url).search
    account = await provider.confirm(attempt, callback)
  } catch (error) {
    return failurePage(c, provider, attempt, {
      code: 'unprocessable',
      text: `${provider.title} did not sign you in.`,
      hint: 'Try again, or sign in another way.',
      detail: `${provider.name}: ${describeFault(error)}`,
    })
  }
  try {
    context.limits.byAccount.take(accountKey(account.sub))
    if (attempt.link !== undefined) return await linkAccount(context.host, c, account, attempt.link)
    const method = provider.name
    const started = await startSession(context, c, { account, method, inviteToken: inviteTokenOf(context, c) })
    return signedInResponse(started, await signedInDestination(context, c, { sub: started.sub, next: attempt.next }))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return refusalPage(c, provider, attempt, account, error)
  }
}

/** The provider confirmed the account, but it may not enter or cannot be linked. */
function refusalPage(
  c: Context,
  provider: SignInProvider,
  attempt: ProviderAttempt,
  { sub, name, email, email_verified }: ConfirmedAccount,
  refusal: Refusal,
): Response {
  if (!prefersHtml(c.req.header('Accept'))) throw refusal
  c.error = refusal
  const { problem, headers } = problemOf(refusal)
  const isStranger = refusal.code === 'forbidden' && attempt.link === undefined
  const who = [name, email === undefined || email_verified ? email : `${email}, which is not verified`]
    .filter((text) => text !== undefined)
    .join(', ')
  const explanation = isStranger
    ? html`<p>This account may not enter this server yet. Ask its operator for an invite, or to add this account to
<code>SIGN_IN_ALLOW</code>:</p><pre><code class="copy">${sub}</code></pre>`
    : html`<p>${toSentence(refusal.code === 'unavailable' ? 'the service is not available at the moment' : refusal.message)}</p>
${refusal.hint === undefined ? EMPTY_HTML : html`<p class="hint">${toSentence(refusal.hint)}</p>`}`
  const page = renderPage({
    title: isStranger ? 'No access yet' : problem.title,
    status: problem.status,
    main: html`<p>${provider.title} confirmed that you are <strong>${who || sub}</strong>.</p>
${explanation}
<p><a href="${attempt.link === undefined ? signInPagePath(attempt.next) : '/auth/me'}">Back</a></p>`,
  })
  return sendPage(c, { ...page, headers: { ...headers, ...page.headers } })
}

function failurePage(
  c: Context,
  provider: SignInProvider,
  attempt: ProviderAttempt | undefined,
  { code, text, hint, detail }: Failure,
): Response {
  const refusal = new Refusal(code, detail)
  c.error = refusal
  if (!prefersHtml(c.req.header('Accept'))) throw new Refusal(code, text, hint)
  const again = attempt?.link === undefined ? startPath(provider.name, attempt?.next) : '/auth/me'
  const page = renderPage({
    title: 'Sign-in did not work',
    status: problemOf(refusal).problem.status,
    main: html`<p>${text}</p><p class="hint">${hint}</p>
<p class="row"><a class="button" href="${again}">Try again</a> <a href="${signInPagePath(attempt?.next)}">Other ways to sign in</a></p>`,
  })
  return sendPage(c, page)
}

const DETAIL_MAX = 300

/** For the log: what the library and the provider say, without the code, tokens or bodies. */
function describeFault(error: unknown): string {
  if (error instanceof ZodError)
    return `unexpected response: ${error.issues.map(({ path }) => path.join('.')).join(', ')}`
  if (!(error instanceof Error)) return 'unknown error'
  const cause = error.cause instanceof Error ? error.cause.message : ''
  const [code, reason] = ['error', 'error_description'].map((name) => textMember(error, name))
  return [error.message, cause, code, reason]
    .filter((text) => text)
    .join(': ')
    .slice(0, DETAIL_MAX)
}

function textMember(value: object, name: string): string {
  const member: unknown = Reflect.get(value, name)
  return typeof member === 'string' ? member : ''
}
