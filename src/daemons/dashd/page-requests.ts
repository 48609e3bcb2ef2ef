// Serves pages: signs people in first, and then shows the page or its live part, exports a list, or carries out a form.
import { Readable } from 'node:stream'
import type { Context, Hono } from 'hono'
import { prefersHtml } from '../../lib/http/http.ts'
import { publicRefusal, Refusal, refuse } from '../../lib/refusal.ts'
import type { HtmlPage } from '../../web/chat/page.ts'
import { notice } from '../../web/dash/parts.ts'
import { renderShellRest, renderShellStart, SHELL_HEADERS } from '../../web/dash/shell.ts'
import { html } from '../../web/html.ts'
import { toSentence } from '../../web/text/wording.ts'
import { sendPage } from '../http/page-response.ts'
import { formatCookie } from '../http/session-cookie.ts'
import { findSignedIn, type SignedIn } from '../http/signed-in.ts'
import { submitForm } from './form-submission.ts'
import { takeNotice } from './notice-cookie.ts'
import { type DashPage, isPageShown, type PageContent, type PageView } from './page.ts'
import { type PagesContext, renderDashPage, sendLivePart, shellContentOf, shellFrameOf } from './page-rendering.ts'
import { hiddenPage, incidentPage, logIncident, refusedPage, signedOut } from './refused-pages.ts'
import { exportTable } from './table-export.ts'
import { createView, faultText, ROWS_CHOICES, ROWS_COOKIE } from './view.ts'

export function mountPages(app: Hono, context: PagesContext): void {
  for (const page of context.pages) {
    app.get(page.path, (c) => handle(context, c, (person) => showPage(context, c, page, person)))
    if (page.actions ?? page.actionsOf)
      app.post(page.path, (c) => handle(context, c, (person) => submitForm(context, c, page, person)))
  }
  // A mistyped address gets a page, too.
  app.get('/dash/*', (c) =>
    prefersHtml(c.req.header('Accept'))
      ? handle(context, c, () => Promise.reject(hiddenPage()))
      : refuse('not_found', 'there is nothing at this path'),
  )
}

/** Refusals become pages. What a person may not see does not exist for them. */
async function handle(
  context: PagesContext,
  c: Context,
  respond: (person: SignedIn) => Promise<Response>,
): Promise<Response> {
  const { host } = context.daemon
  const person = await findSignedIn(host, c)
  if (!person) return signedOut(host, c)
  try {
    return await respond(person)
  } catch (error) {
    if (!(error instanceof Refusal)) return incidentPage(context, c, error)
    c.error = error
    return refusedPage(context, c, person, error)
  }
}

async function showPage(context: PagesContext, c: Context, page: DashPage, person: SignedIn): Promise<Response> {
  const view = await createView({ daemon: context.daemon, c, person })
  if (!isPageShown(page, view)) throw hiddenPage()
  const { format } = view.query
  if (format === 'csv' || format === 'json') return exportTable(context, c, page, person, format)
  const isPart = c.req.header('HX-Request') !== undefined
  if (page.progress !== undefined && !isPart && c.req.method === 'GET') return streamPage(context, view, page)
  const content = await page.show(view)
  if (isPart) return sendLivePart(context, c, view, content)
  const done = takeNotice(context.daemon.host, c, person)
  return sendPage(c, withCookie(renderDashPage(context, view, page, content, done), done?.cookie ?? rowsCookie(view)))
}

/** Sends the frame at once, so that the person sees what the page waits for. */
function streamPage(context: PagesContext, view: PageView, page: DashPage): Response {
  const { title, progress = '' } = page
  const pieces = async function* (): AsyncGenerator<string> {
    yield renderShellStart(shellFrameOf(context, view, page, title))
    yield html`<p class="progress" role="status">${progress}</p>`.toString()
    yield renderShellRest(shellContentOf(context, view, await showOrExplain(context, view, page)))
  }
  return new Response(Readable.toWeb(Readable.from(pieces(), { objectMode: false })) as ReadableStream, {
    headers: SHELL_HEADERS,
  })
}

/** A page whose status is sent already can only say that it failed. */
async function showOrExplain(context: PagesContext, view: PageView, page: DashPage): Promise<PageContent> {
  try {
    return await page.show(view)
  } catch (error) {
    const text =
      error instanceof Refusal
        ? faultText(view.explain(publicRefusal(error)))
        : toSentence(logIncident(context, view.c, error))
    return { title: page.title, main: notice('fault', text) }
  }
}

const YEAR_S = 365 * 24 * 3600

/** Remembers how many rows of a page the person chose. */
function rowsCookie({ host, query: { limit } }: PageView): string | undefined {
  if (!ROWS_CHOICES.some((size) => String(size) === limit)) return undefined
  return formatCookie(host, ROWS_COOKIE, limit ?? '', { maxAgeS: YEAR_S, path: '/dash' })
}

function withCookie(page: HtmlPage, cookie: string | undefined): HtmlPage {
  return cookie === undefined ? page : { ...page, headers: { ...page.headers, 'Set-Cookie': cookie } }
}
