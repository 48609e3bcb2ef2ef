// The HTML pages of a link: the chat, a round for browsers without script, an error, and the script of the widget. No page
// contains the token: all URLs in them are relative.
import { createHash } from 'node:crypto'
import { MARKDOWN_MAX } from '../../lib/text/markdown.ts'
import { avatarHtml } from '../avatar.ts'
import { EMPTY_HTML, type Html, html, linkTarget, trustedHtml } from '../html.ts'
import type { AgentProfile } from '../text/agent-profile.ts'
import { displayName, fileKind, formatSize } from '../text/file-names.ts'
import { describeFailure, isStopped, toSentence, translate } from '../text/wording.ts'
import type { Texts } from '../texts/en.ts'
import { fill } from '../texts/language.ts'
import { chatTexts, loaderTexts } from '../texts/texts.ts'
import { DARK_BACK, LIGHT_BACK } from '../tokens.ts'
import { highlighterScript } from './highlighter.ts'
import { BUBBLE_COLOR, BUBBLE_PATH } from './icon.ts'
import { proseHtml } from './prose.ts'
import { buildScript, wrapInFunction, wrapInModule } from './script.ts'
import { CHAT_STYLE, PAGE_STYLE, WIDGET_STYLE } from './style.ts'

export interface HtmlPage {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

interface ChatPageOptions {
  readonly texts: Texts
  readonly agent: AgentProfile
  readonly folder: string
  /** The path of the folder in the dashboard, for people who may open it. */
  readonly dashboard?: string | undefined
  readonly limits: FileLimits
}

/** Of the files of one message, which scripts check before an upload. */
export interface FileLimits {
  /** Bytes of one file. */
  readonly bytes: number
  readonly count: number
  /** Bytes of all files together. */
  readonly totalBytes: number
}

interface PageFile {
  readonly id: string
  readonly name: string
  readonly type: string
  readonly size: number
  /** Of a voice message. */
  readonly transcript?: string | undefined
}

interface RoundPageOptions {
  readonly texts: Texts
  readonly agent: AgentProfile
  readonly limits?: FileLimits | undefined
  readonly question: string
  readonly files?: readonly PageFile[] | undefined
  readonly turn: {
    readonly turn_id: string
    readonly status: string
    readonly frames: readonly PageFrame[]
    readonly error?: string | undefined
  }
}

interface PageFrame {
  readonly kind: string
  readonly content: string
  readonly files?: readonly PageFile[] | undefined
}

interface ProblemPageOptions {
  readonly texts: Texts
  readonly status: number
  readonly title: string
  readonly detail: string
  readonly hint?: string | undefined
  /** In seconds. */
  readonly retryAfter?: number | undefined
}

export function chatPage({ agent, folder, limits, dashboard, texts }: ChatPageOptions): HtmlPage {
  const { code, policy } = chatScript(texts)
  const link = dashboard === undefined ? EMPTY_HTML : html` data-dashboard="${linkTarget(dashboard)}"`
  const body = html`
<div id="chat" class="app"${agentAttributes(agent)} data-folder="${folder}"${link} data-attachment-max="${limits.bytes}" data-attachments-max="${limits.count}" data-attachments-total="${limits.totalBytes}">
<div class="plain">
${plainHead(agent)}
${dashboard === undefined ? EMPTY_HTML : html`<nav><a href="${linkTarget(dashboard)}">${texts.dashboard}</a></nav>`}
<main>${agent.greeting === undefined ? EMPTY_HTML : html`<p class="greeting" dir="auto">${agent.greeting}</p>`}<p class="lead">${texts.plain.askQuestion}</p></main>
${questionForm(texts.plain.yourMessage, texts, limits)}
</div>
</div>
<script>${code}</script>`
  return renderDocument(200, agent.name, { body, texts, policy, head: APP_HEAD, picture: agent.picture })
}

/** `readAgent` in `browser/page.ts` reads them. */
function agentAttributes({ name, tint, picture, colour, greeting, starters }: AgentProfile): Html[] {
  const given = { name, tint, picture, colour, greeting, starters: starters?.join('\n') }
  return Object.entries(given).flatMap(([key, value = '']) =>
    value === '' ? [] : html` ${trustedHtml(`data-${key}`)}="${value}"`,
  )
}

/** Without a form while it is reloaded, which would empty the form. */
export function roundPage({ agent, question, files, turn, limits, texts }: RoundPageOptions): HtmlPage {
  const isPending = turn.status === 'pending'
  const messages = turn.frames.filter(({ kind }) => kind !== 'status')
  const status = turn.frames.findLast(({ kind }) => kind === 'status')
  const body = html`
<div class="app"><div class="plain">
${plainHead(agent)}
<main>
<section class="message user" aria-label="${texts.you}">${question === '' ? EMPTY_HTML : html`<p class="text" dir="auto">${question}</p>`}${filesHtml(files, texts)}</section>
<section class="answer" aria-label="${agent.name}">
${answerHtml(messages, texts)}
${isPending ? html`<p class="status" dir="auto">${status?.content ?? texts.plain.waiting} …</p>` : EMPTY_HTML}
${isPending ? html`<form method="post" action="./${turn.turn_id}/stop"><button class="quiet" type="submit">${texts.stop}</button></form>` : EMPTY_HTML}
${turn.status === 'failed' ? failureHtml(messages.length > 0, turn.error, texts) : EMPTY_HTML}
${turn.status === 'success' && messages.length === 0 ? html`<p class="status">${texts.noAnswer}</p>` : EMPTY_HTML}
</section>
</main>
${isPending ? EMPTY_HTML : questionForm(texts.plain.nextMessage, texts, limits)}
</div></div>`
  const head = isPending ? html`<meta http-equiv="refresh" content="1">` : EMPTY_HTML
  return renderDocument(200, agent.name, { body, texts, head, policy: ["media-src 'self'"], picture: agent.picture })
}

function failureHtml(isAnswered: boolean, error: string | undefined, texts: Texts): Html {
  if (isStopped(error)) return html`<p class="status">${texts.stopped}.</p>`
  return html`<p class="fault" dir="auto">${describeFailure(isAnswered, error, texts)}</p>`
}

/** The limit of Markdown applies to all messages of the page together. */
function answerHtml(messages: readonly PageFrame[], texts: Texts): Html[] {
  let left = MARKDOWN_MAX
  return messages.map(({ content, files }) => {
    const prose = proseHtml(content, texts, left)
    left = Math.max(0, left - content.length)
    return html`<div class="message agent"><div class="prose">${prose}</div>${filesHtml(files, texts)}</div>\n`
  })
}

function filesHtml(files: readonly PageFile[] = [], texts: Texts): Html {
  return files.length === 0
    ? EMPTY_HTML
    : html`<ul class="files">${files.map((file) => html`<li>${fileHtml(file, texts)}</li>`)}</ul>`
}

function fileHtml({ id, name, type, size, transcript }: PageFile, texts: Texts): Html {
  const [url, kind, shown] = [`./files/${id}`, fileKind(type), displayName(name, texts)]
  const link = html`<a href="${url}" dir="auto">${shown}</a> (${formatSize(size, texts)})`
  if (kind === 'image') return html`<a href="${url}"><img src="${url}" alt="${shown}" loading="lazy"></a><br>${link}`
  if (kind === 'other') return link
  const said = transcript ? html`<p class="transcript" dir="auto">${transcript}</p>` : EMPTY_HTML
  return html`<audio controls preload="none" src="${url}" aria-label="${shown}"></audio><br>${link}${said}`
}

export function linkProblemPage({ status, title, detail, hint, retryAfter, texts }: ProblemPageOptions): HtmlPage {
  const shownTitle = translate(title, texts.problems)
  const body = html`
<div class="app"><div class="plain"><main class="problem">
<p class="code">${status}</p>
<h1>${shownTitle}</h1>
<p dir="auto">${toSentence(translate(detail, texts.problems))}</p>
${hint === undefined ? EMPTY_HTML : html`<p dir="auto">${toSentence(translate(hint, texts.problems))}</p>`}
${retryAfter === undefined ? EMPTY_HTML : html`<p>${fill(texts.plain.tryAgainIn, { time: formatSeconds(retryAfter, texts) })}</p>`}
</main></div></div>`
  const page = renderDocument(status, shownTitle, { body, texts })
  if (retryAfter === undefined) return page
  return { ...page, headers: { ...page.headers, 'Retry-After': String(retryAfter) } }
}

function formatSeconds(seconds: number, { language }: Texts): string {
  return seconds.toLocaleString(language, { style: 'unit', unit: 'second', unitDisplay: 'long' })
}

/** `widget.js`, which adds a button for the chat to the page of another site. */
export function buildWidgetScript(agent: AgentProfile, { bytes, count, totalBytes }: FileLimits): string {
  const config = { agent, texts: loaderTexts(), limits: { each: bytes, count, total: totalBytes } }
  return wrapInFunction(widgetCode(), { CONFIG: config, STYLE: WIDGET_STYLE })
}

/** The chat in the panel of a widget, in one language. */
export function buildChatModule(texts: Texts): string {
  const constants = { STYLE: CHAT_STYLE, HIGHLIGHTER: highlighterScript().integrity, TEXTS: chatTexts(texts) }
  return wrapInModule(buildScript('panel'), constants, ['openPanel'])
}

const chatScript = lazyPerLanguage((texts) => {
  const { integrity } = highlighterScript()
  const code = wrapInFunction(buildScript('page'), { HIGHLIGHTER: integrity, TEXTS: chatTexts(texts) })
  const policy = [
    `script-src ${hashSource(THEME_SCRIPT)} ${hashSource(code)} '${integrity}'`,
    "connect-src 'self'",
    // Files that the visitor is about to send, and files of messages.
    "media-src 'self' blob:",
    "manifest-src 'self'",
    "worker-src 'self'",
    // The browser refuses to turn text into markup or code. The policy lets through two constant URLs of scripts.
    "require-trusted-types-for 'script'",
    'trusted-types svc-chat',
  ]
  return { code: trustedHtml(code), policy }
})

const style = lazy(() => {
  return { sheet: trustedHtml(PAGE_STYLE), policy: `style-src ${hashSource(PAGE_STYLE)}` }
})

const widgetCode = lazy(() => buildScript('embed'))

/** Before the page is drawn, so that it does not flash in the other theme. */
const THEME_SCRIPT = `try { const theme = localStorage.getItem('svc-theme'); if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme } catch {}`

const themeColor = (scheme: 'light' | 'dark', color: string): Html =>
  html`<meta name="theme-color" media="(prefers-color-scheme: ${scheme})" content="${color}" data-scheme="${scheme}" data-light="${LIGHT_BACK}" data-dark="${DARK_BACK}">`

/** A person's chat shows its manifest only with the session. */
const APP_HEAD = html`${themeColor('light', LIGHT_BACK)}
${themeColor('dark', DARK_BACK)}
<link rel="manifest" href="./manifest.webmanifest" crossorigin="use-credentials">
<link rel="apple-touch-icon" href="./icon-maskable.png">
<script>${trustedHtml(THEME_SCRIPT)}</script>`

/** Keep the URL, which contains the token, secret and out of caches. */
export const PRIVACY_HEADERS = {
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Robots-Tag': 'noindex',
} as const

const BASE_POLICY = [
  "default-src 'none'",
  "img-src 'self' blob: data:",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
]

export const PAGE_ICON = `data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Cpath fill='${BUBBLE_COLOR.replace('#', '%23')}' d='${BUBBLE_PATH}'/%3E%3C/svg%3E`

interface DocumentParts {
  readonly body: Html
  readonly texts: Texts
  readonly policy?: readonly string[]
  readonly head?: Html
  /** URL of the icon, relative to the page. */
  readonly picture?: string | undefined
}

function renderDocument(
  status: number,
  title: string,
  { body, texts, policy = [], head = EMPTY_HTML, picture }: DocumentParts,
): HtmlPage {
  const { sheet, policy: stylePolicy } = style()
  const page = html`<!doctype html>
<html lang="${texts.language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover, interactive-widget=resizes-content">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
${head}
<title>${title}</title>
<link rel="icon" href="${picture ?? trustedHtml(PAGE_ICON)}">
<style>${sheet}</style>
</head>
<body>${body}
</body>
</html>
`
  return {
    status,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': [...BASE_POLICY, stylePolicy, ...policy].join('; '),
      Vary: 'Accept-Language',
      ...PRIVACY_HEADERS,
    },
    body: page.toString(),
  }
}

function plainHead(agent: AgentProfile): Html {
  return html`<header class="head">${avatarHtml(agent)}<h1 dir="auto">${agent.name}</h1></header>`
}

function questionForm(label: string, texts: Texts, limits?: FileLimits): Html {
  const most = limits ? describeLimits(limits, texts) : ''
  return html`<form class="plain-form" method="post" action="./" accept-charset="utf-8" enctype="multipart/form-data">
<label for="content">${label}</label>
<textarea id="content" name="content" rows="4" dir="auto"></textarea>
<label for="file">${texts.plain.files}</label>
<input id="file" type="file" name="file" multiple aria-describedby="most">
<small id="most">${most}</small>
<button type="submit">${texts.send}</button>
</form>`
}

function describeLimits({ count, bytes, totalBytes }: FileLimits, texts: Texts): string {
  return fill(texts.plain.limits, { count, size: formatSize(bytes, texts), total: formatSize(totalBytes, texts) })
}

function hashSource(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

/** Created at the first use: most processes serve no page. */
function lazy<T extends object | string>(create: () => T): () => T {
  let value: T | undefined
  return () => {
    value ??= create()
    return value
  }
}

function lazyPerLanguage<T>(create: (texts: Texts) => T): (texts: Texts) => T {
  const values = new Map<string, T>()
  return (texts) => {
    const value = values.get(texts.language) ?? create(texts)
    values.set(texts.language, value)
    return value
  }
}
