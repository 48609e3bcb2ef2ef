// Responses to requests that are refused: the person is signed out, the page is hidden or gone, or something failed.
import { randomUUID } from 'node:crypto'
import type { Context } from 'hono'
import { prefersHtml, problemOf } from '../../lib/http/http.ts'
import { publicRefusal, Refusal, refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { buttonLink, textBlock } from '../../web/dash/parts.ts'
import { EMPTY_HTML, html } from '../../web/html.ts'
import { messagePage } from '../../web/pages/page.ts'
import { toSentence } from '../../web/text/wording.ts'
import { type FormFields, isMultipart, mustBeOwnOriginForm, readForm } from '../http/form-request.ts'
import { redirectTo, sendPage } from '../http/page-response.ts'
import { type SignedIn, signInPath } from '../http/signed-in.ts'
import { FORM_MAX, inputValues, labelOf } from './form-fields.ts'
import { LIVE_END_EVENT } from './live-updates.ts'
import type { PageView } from './page.ts'
import { type PagesContext, renderDashPage } from './page-rendering.ts'
import { signedOutForm } from './signed-out-form.ts'
import { createView } from './view.ts'

export function incidentPage(context: PagesContext, c: Context, error: unknown): Response {
  if (!prefersHtml(c.req.header('Accept'))) throw error
  const text = logIncident(context, c, error)
  return sendPage(c, messagePage({ title: 'Internal error', text, hint: 'go back and try again', status: 500 }))
}

/** Returns the sentence that tells the person where the log has the details. */
export function logIncident({ daemon: { log } }: PagesContext, c: Context, error: unknown): string {
  const incident = randomUUID()
  log.error({ incident, request: c.get('requestId'), err: error }, 'internal error')
  return `something went wrong on the server; its log has the details under ${incident}`
}

export async function signedOut(host: InstanceHost, c: Context): Promise<Response> {
  // Going to the sign-in page would lose what is being typed in this one, which says instead that it is signed out.
  if (c.req.header('HX-Request'))
    return new Response(null, { status: 401, headers: { 'HX-Trigger': LIVE_END_EVENT, 'HX-Reswap': 'none' } })
  const isBrowser = prefersHtml(c.req.header('Accept'))
  // A page cannot keep a file.
  if (isBrowser && (c.req.method === 'GET' || isMultipart(c))) return redirectTo(signInPath(c))
  if (isBrowser) {
    mustBeOwnOriginForm(host, c)
    return sendPage(c, signedOutForm(c.req.url, await readForm(c, FORM_MAX)))
  }
  return refuse('unauthenticated', 'your session has ended', 'sign in and try again')
}

export async function refusedPage(
  context: PagesContext,
  c: Context,
  person: SignedIn,
  error: Refusal,
): Promise<Response> {
  const isHidden = error.code === 'forbidden' && c.req.method === 'GET'
  const refusal = isHidden || error.code === 'not_found' ? hiddenPage() : publicRefusal(error)
  const { problem, headers } = problemOf(refusal)
  if (!prefersHtml(c.req.header('Accept'))) throw refusal
  const view = await createView({ daemon: context.daemon, c, person, query: {} })
  const isOld = c.req.method === 'GET' && refusal.code === 'invalid' && (c.req.query('after') ?? '') !== ''
  const firstPage = isOld ? buttonLink(view.path, 'First page') : EMPTY_HTML
  const page = renderDashPage(context, view, undefined, {
    title: problem.title,
    main: html`<p>${toSentence(problem.detail)}</p>${refusal.hint === undefined ? EMPTY_HTML : html`<p class="hint">${toSentence(refusal.hint)}</p>`}${firstPage} ${buttonLink('/dash/', 'Home')}`,
  })
  return sendPage(c, { ...page, status: problem.status, headers: { ...headers, ...page.headers } })
}

/** The same for what does not exist and for what the person may not see. */
export function hiddenPage(): Refusal {
  return new Refusal('not_found', 'there is nothing here, or you may not see it')
}

/** Shorter texts are quickly typed again. */
const KEPT_MIN = 40

/** For a form of a page that is no longer there: someone may have removed its folder or task in another tab. */
export async function gonePage(
  context: PagesContext,
  { c, person }: PageView,
  fields: FormFields,
  error: unknown,
): Promise<Response> {
  if (!(error instanceof Refusal) || !['not_found', 'forbidden'].includes(error.code)) throw error
  c.error = error
  const secrets = new Set(fields.get('secrets')?.split(' '))
  const kept = Object.entries(inputValues(fields)).filter(
    ([name, value]) => value.length >= KEPT_MIN && !secrets.has(name),
  )
  const texts = kept.map(([name, value]) => html`<h2>${labelOf(name)}</h2>${textBlock(`kept-${name}`, value)}`)
  const view = await createView({ daemon: context.daemon, c, person, query: {} })
  const page = renderDashPage(context, view, undefined, {
    title: 'Not found',
    main: html`<p>Nothing was changed: there is nothing here any more, or you may not see it.</p>${kept.length === 0 ? EMPTY_HTML : html`<p>This is what you typed.</p>`}${texts}${buttonLink('/dash/', 'Home')}`,
  })
  return sendPage(c, { ...page, status: 404 })
}
