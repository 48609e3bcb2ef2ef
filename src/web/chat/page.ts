// What a browser gets at a link: the chat, a round for browsers without script, what went wrong, and the script that
// puts the chat into another site. No page holds the token: every address in them is relative.
import { createHash } from 'node:crypto'
import { MARKDOWN_MAX } from '../text/markdown.ts'
import { EMPTY_HTML, type Html, html, trustedHtml } from './html.ts'
import { proseHtml } from './prose.ts'
import { buildScript, wrapInFunction } from './script.ts'
import { CHAT_STYLE, PAGE_STYLE } from './style.ts'

export interface HtmlPage {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface ChatPageOptions {
  /** What the agent is called. */
  readonly name: string
  readonly folder: string
  /** Whether `events` is served; without it the chat asks for each round every second. */
  readonly hasStream: boolean
}

export interface RoundFrame {
  readonly kind: string
  readonly content: string
  readonly created_at: string
}

export interface RoundPageOptions {
  readonly name: string
  readonly question: string
  readonly turn: {
    readonly turn_id: string
    readonly status: string
    readonly frames: readonly RoundFrame[]
    readonly error?: string | undefined
  }
}

export interface ProblemPageOptions {
  readonly status: number
  readonly title: string
  readonly detail: string
  readonly hint?: string | undefined
  /** In seconds. */
  readonly retryAfter?: number | undefined
}

export function chatPage(about: ChatPageOptions): HtmlPage {
  const { name, folder, hasStream } = about
  const { style, code, policy } = chatAssets()
  const body = html`
<div id="chat" class="app" data-name="${name}" data-folder="${folder}" data-stream="${hasStream ? 'yes' : 'no'}">
<div class="plain">
${plainHead(name)}
<main><p class="lead">Ask a question. The answer comes on the next page.</p></main>
${questionForm('Your message')}
</div>
</div>
<script>${code}</script>`
  return renderDocument(200, name, { style, body, policy })
}

export function roundPage(about: RoundPageOptions): HtmlPage {
  const { name, question, turn } = about
  const pending = turn.status === 'pending'
  const messages = turn.frames.filter(({ kind }) => kind !== 'status')
  const status = turn.frames.findLast(({ kind }) => kind === 'status')
  const fault = `${messages.length > 0 ? 'The answer broke off' : 'There is no answer'}: ${turn.error ?? 'the round failed'}`
  const { style, policy } = staticAssets()
  const body = html`
<div class="app"><div class="plain">
${plainHead(name)}
<main>
<section class="message user" aria-label="You"><p class="text" dir="auto">${question}</p></section>
<section class="answer" aria-label="${name}">
${answerHtml(messages.map(({ content }) => content))}
${pending ? html`<p class="status" dir="auto">${status?.content ?? 'Waiting for the answer'} …</p>` : EMPTY_HTML}
${turn.status === 'failed' ? html`<p class="fault" dir="auto">${fault}</p>` : EMPTY_HTML}
${turn.status === 'success' && messages.length === 0 ? html`<p class="status">There is no answer to this.</p>` : EMPTY_HTML}
</section>
</main>
${questionForm('Your next message')}
</div></div>`
  const head = pending ? html`<meta http-equiv="refresh" content="1">` : EMPTY_HTML
  return renderDocument(200, name, { style, body, policy, head })
}

/** All messages of a page together are read as Markdown no further than one may be. */
function answerHtml(contents: readonly string[]): Html[] {
  let left = MARKDOWN_MAX
  return contents.map((content) => {
    const prose = proseHtml(content, left)
    left = Math.max(0, left - content.length)
    return html`<div class="message agent"><div class="prose">${prose}</div></div>\n`
  })
}

export function linkProblemPage(problem: ProblemPageOptions): HtmlPage {
  const { status, title, detail, hint, retryAfter } = problem
  const { style, policy } = staticAssets()
  const body = html`
<div class="app"><div class="plain"><main class="problem">
<p class="code">${status}</p>
<h1>${title}</h1>
<p dir="auto">${sentence(detail)}</p>
${hint === undefined ? EMPTY_HTML : html`<p dir="auto">${sentence(hint)}</p>`}
${retryAfter === undefined ? EMPTY_HTML : html`<p>Try again in ${retryAfter} ${retryAfter === 1 ? 'second' : 'seconds'}.</p>`}
</main></div></div>`
  const page = renderDocument(status, title, { style, body, policy })
  if (retryAfter === undefined) return page
  return { ...page, headers: { ...page.headers, 'Retry-After': String(retryAfter) } }
}

export interface WidgetScript {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** `widget.js`: the chat as a button with a panel, for a page of another site. `name` is what the agent is called. */
export function buildWidgetScript(name = 'Chat'): WidgetScript {
  const headers = {
    'Content-Type': 'text/javascript; charset=utf-8',
    'Cross-Origin-Resource-Policy': 'cross-origin',
    ...PRIVACY_HEADERS,
  }
  return { headers, body: wrapInFunction(widgetCode(), { NAME: name, STYLE: CHAT_STYLE }) }
}

const chatAssets = once(() => {
  const [style, code] = [CHAT_STYLE + PAGE_STYLE, wrapInFunction(buildScript('page'), {})]
  const policy = [
    `script-src ${hashSource(code)}`,
    `style-src ${hashSource(style)}`,
    "connect-src 'self'",
    // No text can become markup or code by any way that the browser knows.
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ]
  return { style: trustedHtml(style), code: trustedHtml(code), policy }
})

const staticAssets = once(() => {
  const style = CHAT_STYLE + PAGE_STYLE
  return { style: trustedHtml(style), policy: [`style-src ${hashSource(style)}`] }
})

const widgetCode = once(() => buildScript('embed'))

/** What keeps the address of a token to itself, and out of every cache. */
const PRIVACY_HEADERS = {
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Robots-Tag': 'noindex',
} as const

const BASE_POLICY = [
  "default-src 'none'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
]

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Cpath fill='%234f5bd5' d='M6 4h20a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4H14l-8 6v-6a4 4 0 0 1-4-4V8a4 4 0 0 1 4-4z'/%3E%3C/svg%3E"

interface DocumentParts {
  readonly style: Html
  readonly body: Html
  readonly policy: readonly string[]
  readonly head?: Html
}

function renderDocument(
  status: number,
  title: string,
  { style, body, policy, head = EMPTY_HTML }: DocumentParts,
): HtmlPage {
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover, interactive-widget=resizes-content">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
${head}
<title>${title}</title>
<link rel="icon" href="${trustedHtml(ICON)}">
<style>${style}</style>
</head>
<body>${body}
</body>
</html>
`
  return {
    status,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': [...BASE_POLICY, ...policy].join('; '),
      ...PRIVACY_HEADERS,
    },
    body: page.text,
  }
}

function plainHead(name: string): Html {
  return html`<header class="head"><span class="face" aria-hidden="true">${initialLetter(name)}</span><h1 dir="auto">${name}</h1></header>`
}

function questionForm(label: string): Html {
  return html`<form class="plain-form" method="post" action="./" accept-charset="utf-8">
<label for="content">${label}</label>
<textarea id="content" name="content" rows="4" dir="auto" required></textarea>
<button type="submit">Send</button>
</form>`
}

export function initialLetter(name: string): string {
  return [...name.trim()][0]?.toUpperCase() ?? '?'
}

/** A refusal is a sentence without its capital and full stop. */
function sentence(text: string): string {
  const [first = ''] = text
  return first.toUpperCase() + text.slice(first.length) + (/[.!?…]$/.test(text) ? '' : '.')
}

function hashSource(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

/** Made when it is first asked for: whoever serves no page reads no script. */
function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}
