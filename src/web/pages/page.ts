// The shell of the pages for people: sign-in, account, consent, invites, onboarding and the front page. No script unless a page
// names one, and nothing from other hosts.
import { createHash } from 'node:crypto'
import { EMPTY_HTML, type Html, html, trustedHtml } from '../chat/html.ts'
import type { HtmlPage } from '../chat/page.ts'
import { ACCOUNT_STYLE } from './style.ts'

export interface PageOptions {
  readonly title: string
  readonly main: Html
  readonly status?: number
  /** The signed-in person, shown with links to their pages. */
  readonly person?: string | undefined
  /** Paths of module scripts on this server. */
  readonly scripts?: readonly string[]
  /** Origins or schemes that a form may lead to, besides this server. Browsers check redirects after a form, too. */
  readonly formTargets?: readonly string[]
}

const STYLE_HASH = createHash('sha256').update(ACCOUNT_STYLE).digest('base64')

export function renderPage(options: PageOptions): HtmlPage {
  const { title, main, status = 200, person, scripts = [], formTargets = [] } = options
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
<h1>${title}</h1>
${main}
</main>
</body>
</html>
`.text
  return { status, headers: pageHeaders(scripts.length > 0, formTargets), body }
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
    `form-action ${["'self'", ...formTargets].join(' ')}`,
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

/** A sentence and what to do next, for errors and results. */
export function messagePage(options: {
  readonly title: string
  readonly text: string
  readonly hint?: string | undefined
  readonly status?: number
  readonly person?: string | undefined
}): HtmlPage {
  const { text, hint, ...page } = options
  return renderPage({
    ...page,
    main: html`<p>${text}</p>${hint === undefined ? EMPTY_HTML : html`<p class="hint">${hint}</p>`}`,
  })
}
