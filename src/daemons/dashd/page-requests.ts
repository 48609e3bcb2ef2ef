// Serves a page: signs people in first, shows the page or its live part, exports its table, and carries out its forms.
import { hash, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Context, Hono } from 'hono'
import { parseTextInput } from '../../faces/text-input.ts'
import { negotiateEncoding } from '../../lib/http/content-negotiation.ts'
import { prefersHtml, problemOf } from '../../lib/http/http.ts'
import { publicRefusal, Refusal, refuse } from '../../lib/refusal.ts'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { HtmlPage } from '../../web/chat/page.ts'
import { renderForm } from '../../web/dash/form.ts'
import { buttonLink, notice, textBlock } from '../../web/dash/parts.ts'
import {
  type LivePart,
  type NavGroup,
  renderLivePart,
  renderShell,
  renderShellRest,
  renderShellStart,
  SHELL_HEADERS,
  type ShellContent,
  type ShellFrame,
} from '../../web/dash/shell.ts'
import { type AnyTable, csvHead, csvRows, plainRows, renderTable, renderTableLinks } from '../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import { messagePage } from '../../web/pages/page.ts'
import { toSentence } from '../../web/text/wording.ts'
import type { DaemonContext } from '../daemon.ts'
import { type FormFields, mustBeOwnOriginForm, readForm } from '../http/form-request.ts'
import { redirectTo, sendPage } from '../http/page-response.ts'
import { formatCookie, isFormToken, isSecure, readCookie } from '../http/session-cookie.ts'
import { findSignedIn, type SignedIn, signInPath } from '../http/signed-in.ts'
import { dashAssets } from './assets.ts'
import { inputValues, labelOf } from './form-fields.ts'
import { LIVE_END_EVENT, type LiveUpdates } from './live-updates.ts'
import {
  type ActionRedirect,
  type DashPage,
  isPageShown,
  NAV_SECTIONS,
  type PageAction,
  type PageContent,
  type PageView,
} from './page.ts'
import { signedOutForm } from './signed-out-form.ts'
import { createView, faultText, type RefusedForm, ROWS_CHOICES, ROWS_COOKIE } from './view.ts'

export interface PagesContext {
  readonly daemon: DaemonContext
  readonly live: LiveUpdates
  readonly pages: readonly DashPage[]
}

/** The longest text of a field, in a script of which each character has nine bytes in a form. */
const FORM_MAX = 1024 * 1024

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

function incidentPage(context: PagesContext, c: Context, error: unknown): Response {
  if (!prefersHtml(c.req.header('Accept'))) throw error
  const text = logIncident(context, c, error)
  return sendPage(c, messagePage({ title: 'Internal error', text, hint: 'go back and try again', status: 500 }))
}

/** Returns the sentence that tells the person where the log has the details. */
function logIncident({ daemon: { log } }: PagesContext, c: Context, error: unknown): string {
  const incident = randomUUID()
  log.error({ incident, request: c.get('requestId'), err: error }, 'internal error')
  return `something went wrong on the server; its log has the details under ${incident}`
}

async function signedOut(host: InstanceHost, c: Context): Promise<Response> {
  // Going to the sign-in page would lose what is being typed in this one, which says instead that it is signed out.
  if (c.req.header('HX-Request'))
    return new Response(null, { status: 401, headers: { 'HX-Trigger': LIVE_END_EVENT, 'HX-Reswap': 'none' } })
  const isBrowser = prefersHtml(c.req.header('Accept'))
  if (c.req.method === 'GET' && isBrowser) return redirectTo(signInPath(c))
  if (isBrowser) {
    mustBeOwnOriginForm(host, c)
    return sendPage(c, signedOutForm(c.req.url, await readForm(c, FORM_MAX)))
  }
  return refuse('unauthenticated', 'your session has ended', 'sign in and try again')
}

async function refusedPage(context: PagesContext, c: Context, person: SignedIn, error: Refusal): Promise<Response> {
  const isHidden = error.code === 'forbidden' && c.req.method === 'GET'
  const refusal = isHidden || error.code === 'not_found' ? hiddenPage() : publicRefusal(error)
  const { problem, headers } = problemOf(refusal)
  if (!prefersHtml(c.req.header('Accept'))) throw refusal
  const view = await createView({ daemon: context.daemon, c, person, query: {} })
  const isOld = c.req.method === 'GET' && refusal.code === 'invalid' && (c.req.query('after') ?? '') !== ''
  const firstPage = isOld ? buttonLink(view.path, 'First page') : EMPTY_HTML
  const page = renderPage(context, view, undefined, {
    title: problem.title,
    main: html`<p>${toSentence(problem.detail)}</p>${refusal.hint === undefined ? EMPTY_HTML : html`<p class="hint">${toSentence(refusal.hint)}</p>`}${firstPage} ${buttonLink('/dash/', 'Home')}`,
  })
  return sendPage(c, { ...page, status: problem.status, headers: { ...headers, ...page.headers } })
}

/** The same for what does not exist and for what the person may not see. */
function hiddenPage(): Refusal {
  return new Refusal('not_found', 'there is nothing here, or you may not see it')
}

/** Shorter texts are quickly typed again. */
const KEPT_MIN = 40

/** For a form of a page that is no longer there: someone may have removed its folder or task in another tab. */
async function gonePage(
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
  const page = renderPage(context, view, undefined, {
    title: 'Not found',
    main: html`<p>Nothing was changed: there is nothing here any more, or you may not see it.</p>${kept.length === 0 ? EMPTY_HTML : html`<p>This is what you typed.</p>`}${texts}${buttonLink('/dash/', 'Home')}`,
  })
  return sendPage(c, { ...page, status: 404 })
}

async function showPage(context: PagesContext, c: Context, page: DashPage, person: SignedIn): Promise<Response> {
  const view = await createView({ daemon: context.daemon, c, person })
  if (!isPageShown(page, view)) throw hiddenPage()
  const { format } = view.query
  if (format === 'csv' || format === 'json') return exportTable(context, c, page, person, format)
  const isPart = c.req.header('HX-Request') !== undefined
  if (page.progress !== undefined && !isPart && c.req.method === 'GET') return streamPage(context, view, page)
  const content = await page.show(view)
  if (isPart) return livePart(context, c, view, content)
  const done = takeNotice(context, c, person)
  return sendPage(c, withCookie(renderPage(context, view, page, content, done), done?.cookie ?? rowsCookie(view)))
}

/** Sends the frame at once, so that the person sees what the page waits for. */
function streamPage(context: PagesContext, view: PageView, page: DashPage): Response {
  const { title, progress = '' } = page
  const pieces = async function* (): AsyncGenerator<string> {
    yield renderShellStart(frameOf(context, view, page, title))
    yield html`<p class="progress" role="status">${progress}</p>`.toString()
    yield renderShellRest(contentOf(context, view, await showOrExplain(context, view, page)))
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
      error instanceof Refusal ? faultText(publicRefusal(error)) : toSentence(logIncident(context, view.c, error))
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

/**
 * Only what has changed is sent, and compressed: rows are alike, and a busy page reloads every second. Another site cannot send the
 * header of these requests, so it learns nothing from their size; whole pages are not compressed.
 */
async function livePart(context: PagesContext, c: Context, view: PageView, content: PageContent): Promise<Response> {
  const part = partOf(context, view, content)
  const headers = { 'Content-Type': 'text/html; charset=utf-8', 'Cache-Control': 'no-store' }
  if (c.req.header('X-Seen') === part.hash) return new Response(null, { status: 204, headers })
  const body = renderLivePart(part).toString()
  if (negotiateEncoding(c.req.header('Accept-Encoding'), ['gzip']) === undefined) return new Response(body, { headers })
  return new Response(await promisify(gzip)(body), { headers: { ...headers, 'Content-Encoding': 'gzip' } })
}

function partOf({ live }: PagesContext, view: PageView, { main = EMPTY_HTML, table, isLive }: PageContent): LivePart {
  const rows = table === undefined ? EMPTY_HTML : renderTable(table)
  const content = html`${main}${rows}${table === undefined ? EMPTY_HTML : linksOf(view, table)}`
  // Form keys differ in every rendering.
  const text = content.toString().replace(/ name="form_key" value="[^"]*"/g, '')
  return {
    content,
    url: isLive ? view.url({ after: view.query.after }) : undefined,
    version: live.version,
    hash: hash('sha256', text, 'hex').slice(0, 16),
  }
}

function linksOf(view: PageView, { rows, next }: AnyTable): Html {
  const { after } = view.query
  const isPaged = next !== undefined || after !== undefined || rows.length > ROWS_CHOICES[0]
  if (rows.length === 0 && !isPaged) return EMPTY_HTML
  return renderTableLinks({
    first: after === undefined ? undefined : view.url(),
    next: next === undefined ? undefined : view.url({ after: next }),
    csv: view.url({ format: 'csv' }),
    json: view.url({ format: 'json' }),
    sizes: isPaged
      ? ROWS_CHOICES.map((size) => [size, size === view.limit ? undefined : view.url({ limit: String(size) })])
      : [],
  })
}

function renderPage(
  context: PagesContext,
  view: PageView,
  page: DashPage | undefined,
  content: PageContent,
  done?: { readonly text: string } | undefined,
): HtmlPage {
  const frame = frameOf(context, view, page, content.title)
  return renderShell(frame, contentOf(context, view, content, done?.text))
}

function frameOf(
  { daemon, pages }: PagesContext,
  view: PageView,
  page: DashPage | undefined,
  title: string,
): ShellFrame {
  const theme = readCookie(view.c.req.header('Cookie'), 'svc_theme')
  return {
    title,
    instance: daemon.host.instance,
    person: view.person.sub,
    isOperator: view.isOperator,
    navigation: navigationOf(pages, view, page),
    assets: dashAssets(),
    theme: theme === 'light' || theme === 'dark' ? theme : undefined,
    isUnwrapped: readCookie(view.c.req.header('Cookie'), 'svc_wrap') === 'off',
    nowMs: view.nowMs,
  }
}

function contentOf(context: PagesContext, view: PageView, content: PageContent, done?: string): ShellContent {
  return {
    notices: done === undefined ? EMPTY_HTML : notice('ok', done),
    top: content.top ?? EMPTY_HTML,
    live: partOf(context, view, content),
    bottom: content.bottom ?? EMPTY_HTML,
  }
}

function navigationOf(pages: readonly DashPage[], view: PageView, current: DashPage | undefined): NavGroup[] {
  const groups = Object.entries(NAV_SECTIONS).map(([nav, label]) => ({
    label,
    links: pages
      .filter((page) => page.nav === nav && isPageShown(page, view))
      .map((page) => ({ href: page.path, label: page.title, isCurrent: page === current })),
  }))
  return groups.filter(({ links }) => links.length > 0)
}

const EXPORT_LIMIT = '1000'

/** All pages of the table, one after the other. */
async function exportTable(
  { daemon }: PagesContext,
  c: Context,
  page: DashPage,
  person: SignedIn,
  format: 'csv' | 'json',
): Promise<Response> {
  const read = async (query: Readonly<Record<string, string>>) => {
    const view = await createView({ daemon, c, person, query })
    const { table } = await page.show(view)
    return list === undefined ? table : view.lists.get(list)
  }
  const { format: _, after: __, list, ...given } = (await createView({ daemon, c, person })).query
  const query = { ...given, limit: EXPORT_LIMIT }
  const first = await read(query)
  if (!first) refuse('not_found', 'this page has no list')
  const pages = async function* (): AsyncGenerator<string> {
    if (format === 'csv') yield csvHead(first)
    let isFirst = true
    for (let table: typeof first | undefined = first; table; ) {
      const rows = plainRows(table)
      if (format === 'csv') yield csvRows(table)
      else
        for (const row of rows) {
          yield `${isFirst ? '[' : ',\n'}${JSON.stringify(row)}`
          isFirst = false
        }
      table = table.next === undefined ? undefined : await read({ ...query, after: table.next })
    }
    if (format === 'json') yield isFirst ? '[]\n' : ']\n'
  }
  const name = `${first.id}.${format}`
  return new Response(Readable.toWeb(Readable.from(pages(), { objectMode: false })) as ReadableStream, {
    headers: {
      'Content-Type': format === 'csv' ? 'text/csv; charset=utf-8' : 'application/json',
      'Content-Disposition': `attachment; filename="${name}"`,
      'Cache-Control': 'no-store',
    },
  })
}

async function submitForm(context: PagesContext, c: Context, page: DashPage, person: SignedIn): Promise<Response> {
  const { daemon } = context
  const before = await createView({ daemon, c, person })
  if (!isPageShown(page, before)) throw hiddenPage()
  const actions = page.actionsOf?.(before) ?? page.actions ?? {}
  const maxBytes = Math.max(FORM_MAX, ...Object.values(actions).map((one) => ('run' in one ? (one.maxBytes ?? 0) : 0)))
  mustBeOwnOriginForm(daemon.host, c)
  const fields = await readForm(c, maxBytes)
  try {
    await page.beforeAction?.(before)
  } catch (error) {
    return gonePage(context, before, fields, error)
  }
  const name = fields.get('action') ?? ''
  const action = Object.hasOwn(actions, name) ? actions[name] : undefined
  if (!action) refuse('invalid', 'this page has no such form', 'reload the page and try again')
  const values = inputValues(fields)
  const refused = (refusal: Refusal): Promise<Response> => {
    c.error = refusal
    const form = {
      form: fields.get('form') ?? name,
      refusal: publicRefusal(refusal),
      values: Object.fromEntries(fields),
    }
    return showRefusedForm(context, c, page, person, form)
  }
  if (!isFormToken(daemon.host, person.session, fields.get('csrf')))
    return refused(new Refusal('forbidden', 'this form has expired', 'nothing was changed; send it again'))
  if (action.confirm && fields.get('confirmed') !== 'yes')
    return sendPage(c, renderPage(context, before, page, confirmation(before, action, fields, values)))
  const view = await createView({ daemon, c, person, formKey: fields.get('form_key') })
  try {
    return await respondTo(context, page, view, await carryOut(view, action, fields, values))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return refused(error)
  }
}

async function carryOut(
  view: PageView,
  action: PageAction,
  fields: FormFields,
  values: Readonly<Record<string, string>>,
): Promise<PageContent | ActionRedirect> {
  if ('run' in action) return action.run(view, fields)
  const input = formInput(action, values, new Set(fields.get('clears')?.split(' ')))
  const reply = await view.call(action.verb, input)
  // The types of reply and input are those of the verb, which the page knows.
  const told = [reply, input] as unknown as [never, never]
  const shown = action.page?.(...told)
  if (shown) return shown
  const done = typeof action.done === 'string' ? action.done : action.done(...told)
  return action.to ? { done, to: action.to(...told) } : { done }
}

/**
 * An empty field is not given, except to clear what is stored. Objects and lists are typed as JSON; a field that takes text gets it
 * unchanged.
 */
function formInput(
  { verb }: Extract<PageAction, { verb: unknown }>,
  values: Readonly<Record<string, string>>,
  clears: ReadonlySet<string>,
): object {
  const given = Object.fromEntries(
    Object.entries(values)
      .filter(([name, value]) => value !== '' || clears.has(name))
      // Browsers send line breaks as CR LF.
      .map(([name, value]) => [name, value.replaceAll('\r\n', '\n')]),
  )
  const input = parseTextInput(verb.input, given)
  const takes = (name: string, value: unknown): boolean => verb.input.shape[name]?.safeParse(value).success ?? false
  return Object.fromEntries(
    Object.entries(input).map(([name, value]) => {
      const parsed = typeof value === 'string' && /^\s*[[{]/.test(value) ? tryParseJson(value) : undefined
      const isBetter = (isObject(parsed) || Array.isArray(parsed)) && !takes(name, value)
      return [name, isBetter ? parsed : value]
    }),
  )
}

async function respondTo(
  context: PagesContext,
  page: DashPage,
  view: PageView,
  outcome: PageContent | ActionRedirect,
): Promise<Response> {
  const { c } = view
  if ('title' in outcome) return sendPage(c, renderPage(context, view, page, outcome))
  return redirectTo(outcome.to ?? view.url({ after: view.query.after }), {
    'Set-Cookie': noticeCookie(context, view.person, outcome.done),
  })
}

async function showRefusedForm(
  context: PagesContext,
  c: Context,
  page: DashPage,
  person: SignedIn,
  form: Omit<RefusedForm, 'onShown'>,
): Promise<Response> {
  const { problem } = problemOf(form.refusal)
  // A button has no place for a fault, so it is always at the top, too.
  let text = faultText(form.refusal)
  const refused = {
    ...form,
    onShown: (inForm: string) => {
      text = inForm
    },
  }
  const view = await createView({ daemon: context.daemon, c, person, refused })
  let content: PageContent
  try {
    content = await page.show(view)
  } catch (error) {
    return gonePage(context, view, new Map(Object.entries(form.values)), error)
  }
  const shown = { ...content, isLive: false, top: html`${notice('fault', text)}${content.top ?? EMPTY_HTML}` }
  return sendPage(c, { ...renderPage(context, view, page, shown), status: problem.status })
}

function confirmation(
  view: PageView,
  action: PageAction,
  fields: FormFields,
  values: Readonly<Record<string, string>>,
): PageContent {
  const form = renderForm({
    id: 'confirm',
    to: view.url(),
    fields: [],
    hidden: { ...Object.fromEntries(fields), confirmed: 'yes' },
    submit: 'Yes, do it',
    isDangerous: true,
  })
  return {
    title: 'Are you sure?',
    main: html`<p>${action.confirm?.(values) ?? ''}</p><div class="choice">${form}${buttonLink(view.url(), 'Cancel')}</div>`,
  }
}

function noticeCookieName({ daemon: { host } }: PagesContext): string {
  return isSecure(host) ? '__Secure-svc_notice' : `svc_notice_${host.instance}`
}

const NOTICE_PURPOSE = 'dash notice'

/** Sealed, so that no other page can put words here. */
function noticeCookie(context: PagesContext, { session }: SignedIn, text: string): string {
  const { host } = context.daemon
  const sealed = Buffer.from(host.keyring.seal(text, `${NOTICE_PURPOSE} ${session}`)).toString('base64url')
  return formatCookie(host, noticeCookieName(context), sealed, { maxAgeS: 60, path: '/dash' })
}

function takeNotice(context: PagesContext, c: Context, { session }: SignedIn) {
  const { host } = context.daemon
  const name = noticeCookieName(context)
  const sealed = readCookie(c.req.header('Cookie'), name)
  if (sealed === undefined) return undefined
  const cookie = formatCookie(host, name, '', { maxAgeS: 0, path: '/dash' })
  try {
    return {
      text: host.keyring.open(Buffer.from(sealed, 'base64url'), `${NOTICE_PURPOSE} ${session}`).toString(),
      cookie,
    }
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}
