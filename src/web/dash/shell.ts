// The frame of every dashboard page: navigation, the live part, notices, and the security policy.
import { type HtmlPage, PAGE_ICON } from '../chat/page.ts'
import { EMPTY_HTML, type Html, html, trustedHtml } from '../html.ts'

export interface NavLink {
  readonly href: string
  readonly label: string
  readonly isCurrent: boolean
}

export interface NavGroup {
  readonly label: string
  readonly links: readonly NavLink[]
}

/** What surrounds the content of a page. */
export interface ShellFrame {
  readonly title: string
  readonly instance: string
  readonly person: string
  readonly isOperator: boolean
  readonly navigation: readonly NavGroup[]
  /** Paths of the style sheet and the script. */
  readonly assets: { readonly style: string; readonly script: string }
  /** What the person chose; absent: what the system prefers. */
  readonly theme?: 'light' | 'dark' | undefined
  /** Whether the person chose not to break lines of logs. */
  readonly isUnwrapped: boolean
  /** When the page was written, by the clock of the server. */
  readonly nowMs: number
}

export interface ShellContent {
  readonly notices: Html
  readonly top: Html
  readonly live: LivePart
  readonly bottom: Html
}

export interface LivePart {
  readonly content: Html
  /** The URL to reload it from; absent: it is not live. */
  readonly url?: string | undefined
  /** The version of the store that it shows. */
  readonly version: string
  /** A hash of the content. */
  readonly hash: string
}

/** The part of a page that is reloaded. */
export function renderLivePart({ content, url, hash }: LivePart): Html {
  if (url === undefined) return html`<div id="live">${content}</div>`
  return html`<div id="live" hx-get="${url}" hx-trigger="svc:changed from:#stream" hx-swap="outerMorph" data-seen="${hash}">${content}</div>`
}

export function renderShell(frame: ShellFrame, content: ShellContent): HtmlPage {
  return { status: 200, headers: SHELL_HEADERS, body: renderShellStart(frame) + renderShellRest(content) }
}

/** Up to the heading. Of a page that takes long, this is sent first. */
export function renderShellStart(frame: ShellFrame): string {
  const { title, instance, person, isOperator, navigation, assets, theme, isUnwrapped, nowMs } = frame
  const wrap = isUnwrapped ? html` data-wrap="off"` : EMPTY_HTML
  const look = theme === undefined ? wrap : html` data-theme="${theme}"${wrap}`
  return html`<!doctype html>
<html lang="en" data-now="${nowMs}"${look}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="htmx-config" content='{"includeIndicatorCSS": false, "history": false, "noSwap": [204, 304, "4xx", "5xx"]}'>
<title>${title} · ${instance}</title>
<link rel="icon" href="${trustedHtml(PAGE_ICON)}">
<link rel="stylesheet" href="${assets.style}">
<script src="${assets.script}" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header class="top">
<a class="brand" href="/dash/">svc <span>${instance}</span></a>
<div class="tools">
<a id="palette-open" class="button quiet" href="/dash/search">Search <kbd>Ctrl K</kbd></a>
<span id="connection" class="connection" role="status" hidden></span>
<select id="times" aria-label="Times" hidden><option value="age">Ages</option><option value="mine">My time</option><option value="utc">UTC</option></select>
<button id="theme" class="quiet" type="button" hidden>Theme</button>
<a class="person" href="/dash/me">${person}${isOperator ? html` <span class="badge idle">operator</span>` : EMPTY_HTML}</a>
</div>
</header>
<div class="columns">
<nav class="side" aria-label="Pages"><details id="menu" open><summary>Menu</summary>${navigation.map(renderNavGroup)}</details></nav>
<main id="content" tabindex="-1">
<h1>${title}</h1>
`.toString()
}

export function renderShellRest({ notices, top, live, bottom }: ShellContent): string {
  const stream =
    live.url === undefined
      ? EMPTY_HTML
      : html`<div id="stream" hidden hx-sse:connect="/dash/live?seen=${live.version}" hx-sse:close="svc:ended"></div><button id="held-updates" class="primary" type="button" hidden>Updates wait while you read. Show them</button>`
  return html`${notices}${top}${renderLivePart(live)}${bottom}
</main>
</div>
${stream}
<dialog id="palette" aria-label="Go to"><form method="get" action="/dash/search"><label class="unseen" for="palette-query">Go to a page, folder or person</label><input id="palette-query" name="q" type="search" autocomplete="off" placeholder="Go to a page, folder or person" hx-get="/dash/search" hx-trigger="input changed delay:100ms" hx-target="#palette-results" hx-select="#live > *" hx-swap="innerHTML"></form><div id="palette-results"></div></dialog>
</body>
</html>
`.toString()
}

function renderNavGroup({ label, links }: NavGroup): Html {
  const items = links.map(({ href, label: text, isCurrent }) =>
    isCurrent
      ? html`<li><a href="${href}" aria-current="page">${text}</a></li>`
      : html`<li><a href="${href}">${text}</a></li>`,
  )
  return html`<h2>${label}</h2><ul>${items}</ul>`
}

export const SHELL_HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': [
    "default-src 'none'",
    "style-src 'self'",
    "script-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'Cache-Control': 'no-store',
  // With no-referrer, browsers send forms with "Origin: null".
  'Referrer-Policy': 'same-origin',
  'X-Frame-Options': 'DENY',
  'X-Robots-Tag': 'noindex',
}
