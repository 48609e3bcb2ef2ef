// The content of a page as HTML: the whole page in its frame, or only its live part.
import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Context } from 'hono'
import { negotiateEncoding } from '../../lib/http/content-negotiation.ts'
import type { HtmlPage } from '../../web/chat/page.ts'
import { notice } from '../../web/dash/parts.ts'
import {
  type LivePart,
  type NavGroup,
  renderLivePart,
  renderShell,
  type ShellContent,
  type ShellFrame,
} from '../../web/dash/shell.ts'
import { type AnyTable, renderTable, renderTableLinks } from '../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import type { DaemonContext } from '../daemon.ts'
import { readCookie } from '../http/session-cookie.ts'
import { dashAssets } from './assets.ts'
import type { LiveUpdates } from './live-updates.ts'
import { type DashPage, isPageShown, NAV_SECTIONS, type PageContent, type PageView } from './page.ts'
import { ROWS_CHOICES } from './view.ts'

export interface PagesContext {
  readonly daemon: DaemonContext
  readonly live: LiveUpdates
  readonly pages: readonly DashPage[]
}

/**
 * Only what has changed is sent, and compressed: rows are alike, and a busy page reloads every second. Another site cannot send the
 * header of these requests, so it learns nothing from their size; whole pages are not compressed.
 */
export async function sendLivePart(
  context: PagesContext,
  c: Context,
  view: PageView,
  content: PageContent,
): Promise<Response> {
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

export function renderDashPage(
  context: PagesContext,
  view: PageView,
  page: DashPage | undefined,
  content: PageContent,
  done?: { readonly text: string } | undefined,
): HtmlPage {
  const frame = shellFrameOf(context, view, page, content.title)
  return renderShell(frame, shellContentOf(context, view, content, done?.text))
}

export function shellFrameOf(
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

export function shellContentOf(
  context: PagesContext,
  view: PageView,
  content: PageContent,
  done?: string,
): ShellContent {
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
