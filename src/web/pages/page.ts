// The shell of the pages for people: sign-in, account, consent, invites, onboarding and the front page. No script unless a page
// names one, and nothing from other hosts.
import { createHash } from 'node:crypto'
import type { HtmlPage } from '../chat/page.ts'
import { EMPTY_HTML, type Html, html, trustedHtml } from '../html.ts'
import { ACCOUNT_STYLE } from './style.ts'

/** The pages of a person, linked with each other. */
const TABS = [
  ['/auth/me', 'Account'],
  ['/auth/passkeys', 'Passkeys'],
  ['/auth/devices', 'Devices'],
  ['/auth/bearers', 'Bearers'],
] as const

export type AccountTab = (typeof TABS)[number][0]

export interface PageOptions {
  readonly title: string
  readonly main: Html
  readonly status?: number
  /** The signed-in person, shown with links to their pages. */
  readonly person?: string | undefined
  /** Shows the links between the pages of the person; this page is the current one. */
  readonly tab?: AccountTab
  /** Whether the person may open the dashboard; the pages with tabs link to it. */
  readonly hasDashboard?: boolean
  /** Paths of module scripts on this server. */
  readonly scripts?: readonly string[]
  /** Origins or schemes that a form may lead to, besides this server. Browsers check redirects after a form, too. */
  readonly formTargets?: readonly string[]
}

const STYLE_HASH = createHash('sha256').update(ACCOUNT_STYLE).digest('base64')

export function renderPage(options: PageOptions): HtmlPage {
  const { title, main, status = 200, person, tab, hasDashboard = false, scripts = [], formTargets = [] } = options
  const body = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · svc</title>
<style>${trustedHtml(ACCOUNT_STYLE)}</style>
${scripts.map((path) => html`<script type="module" src="${path}"></script>`)}
</head>
<body>
<header><a class="brand" href="/">svc</a>${person === undefined ? EMPTY_HTML : personMenu(person)}</header>
<main>
${tab === undefined ? EMPTY_HTML : accountTabs(tab, hasDashboard)}<h1>${title}</h1>
${main}
</main>
</body>
</html>
`.toString()
  return { status, headers: pageHeaders(scripts.length > 0, formTargets), body }
}

function accountTabs(current: AccountTab, hasDashboard: boolean): Html {
  const tabs = TABS.map(([path, label]) =>
    path === current ? html`<a href="${path}" aria-current="page">${label}</a>` : html`<a href="${path}">${label}</a>`,
  )
  return html`<nav class="tabs" aria-label="Your account">${hasDashboard ? html`<a href="/dash/">Dashboard</a>` : EMPTY_HTML}${tabs}</nav>
`
}

function personMenu(person: string): Html {
  return html`<nav aria-label="Account"><a href="/auth/me">${person}</a></nav>`
}

function pageHeaders(hasScript: boolean, formTargets: readonly string[]): Record<string, string> {
  const policy = [
    "default-src 'none'",
    `style-src 'sha256-${STYLE_HASH}'`,
    ...(hasScript ? ["script-src 'self'", "connect-src 'self'"] : []),
    "img-src 'self' data:",
    `form-action ${["'self'", ...formTargets.map(escapeSource)].join(' ')}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ]
  return {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Security-Policy': policy.join('; '),
    'Cache-Control': 'no-store',
    // With no-referrer, browsers send forms with "Origin: null".
    'Referrer-Policy': 'same-origin',
    'X-Frame-Options': 'DENY',
    'X-Robots-Tag': 'noindex',
  }
}

/** A program chose its address: it must not end the directive, add another one or be a pattern or a keyword. */
function escapeSource(source: string): string {
  return source.replace(/[^\w:/.[\]%+-]+/g, (text) => Buffer.from(text).toString('hex').replace(/../g, '%$&'))
}

/** What happened and what to do next, for errors and results. Texts become sentences. */
export function messagePage(options: {
  readonly title: string
  readonly text: string
  readonly hint?: string | undefined
  readonly status?: number
  readonly person?: string | undefined
}): HtmlPage {
  const { text, hint, ...page } = options
  const hintLine = hint === undefined ? EMPTY_HTML : html`<p class="hint">${toSentence(hint)}</p>`
  return renderPage({ ...page, main: html`<p>${toSentence(text)}</p>${hintLine}` })
}

function toSentence(text: string): string {
  const first = `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`
  return /[.!?]$/.test(first) ? first : `${first}.`
}
