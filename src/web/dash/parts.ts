// Small parts of dashboard pages.
import { EMPTY_HTML, type Html, html, linkTarget } from '../html.ts'
import { relativeTime } from '../text/ages.ts'

/** Colour only means state. */
export type Tone = 'ok' | 'warn' | 'fault' | 'busy' | 'idle'

export function badge(text: string, tone: Tone = 'idle'): Html {
  return html`<span class="badge ${tone}">${text}</span>`
}

/** A relative time with the exact one on hover; the script shows both as the reader chose. */
export function timeOf(at: string | undefined, nowMs: number): Html {
  if (at === undefined) return html`<span class="muted">never</span>`
  return html`<time datetime="${at}" title="${at}">${relativeTime(at, nowMs)}</time>`
}

/** Cents as dollars: `$1.25`. */
export function money(cents: number): string {
  return `$${(cents / 100).toFixed(2)}`
}

/** `12,345`. */
export function groupDigits(value: number): string {
  return value.toLocaleString('en')
}

export function link(href: string, text: string | Html): Html {
  return html`<a href="${linkTarget(href)}">${text}</a>`
}

/** A link that looks like a button. */
export function buttonLink(href: string, text: string): Html {
  return html`<a class="button" href="${linkTarget(href)}">${text}</a>`
}

const CONTROL =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g

/** Text that somebody else wrote: control characters and those that change the direction of text are visible. */
export function visibleText(text: string): string {
  return text.replace(CONTROL, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const FOLD_LINES = 12
const FOLD_CHARACTERS = 1200

/** Text of several lines. A long one is folded behind its beginning. */
export function textBlock(id: string, text: string): Html {
  return foldedBlock(id, text, 'text')
}

/** The same for output of programs. */
export function logBlock(id: string, text: string): Html {
  return foldedBlock(id, text, 'log')
}

function foldedBlock(id: string, text: string, look: 'text' | 'log'): Html {
  const shown = visibleText(text)
  const lines = shown.split('\n')
  if (lines.length <= FOLD_LINES && shown.length <= FOLD_CHARACTERS)
    return html`<pre class="${look}" dir="auto">${shown}</pre>`
  const start = lines.slice(0, 3).join('\n').slice(0, 300)
  return html`<details id="${id}" class="fold" hx-morph-skip><summary><span class="start" dir="auto">${start}…</span> Show all</summary><pre class="${look}" dir="auto">${shown}</pre></details>`
}

/** Folded whatever its length. */
export function foldedText(id: string, summary: string, text: string): Html {
  return html`<details id="${id}" class="fold" hx-morph-skip><summary>${summary}</summary><pre class="text" dir="auto">${visibleText(text)}</pre></details>`
}

/** A text to copy: the script adds the button. */
export function copyText(text: string): Html {
  return html`<span class="copy" data-copy="${text}"><code>${text}</code></span>`
}

export interface EmptyState {
  readonly text: string
  /** What to do next. */
  readonly next?: Html | undefined
  /** The same on the command line. */
  readonly command?: Html | undefined
}

export function emptyState({ text, next = EMPTY_HTML, command = EMPTY_HTML }: EmptyState): Html {
  return html`<div class="empty"><p>${text}</p>${next}${command}</div>`
}

export interface Tab {
  readonly href: string
  readonly label: string
  readonly isCurrent: boolean
  readonly count?: number | undefined
}

export function renderTabs(label: string, tabs: readonly Tab[]): Html {
  const links = tabs.map(({ href, label: text, isCurrent, count }) => {
    const number = count === undefined ? EMPTY_HTML : html` <span class="count">${count}</span>`
    return isCurrent
      ? html`<a href="${linkTarget(href)}" aria-current="page">${text}${number}</a>`
      : html`<a href="${linkTarget(href)}">${text}${number}</a>`
  })
  return html`<nav class="tabs" aria-label="${label}">${links}</nav>`
}

/** A share of a limit, such as a budget. */
export function renderMeter(label: string, value: number, max: number): Html {
  return html`<meter aria-label="${label}" min="0" max="${max}" high="${max * 0.8}" optimum="0" value="${Math.min(value, max)}"></meter>`
}

/** A titled part of a page. */
export function section(id: string, title: string, content: Html, actions: Html = EMPTY_HTML): Html {
  return html`<section id="${id}" aria-labelledby="${id}-title"><div class="bar"><h2 id="${id}-title">${title}</h2>${actions}</div>${content}</section>`
}

export type NoticeTone = 'ok' | 'warn' | 'fault'

export function notice(tone: NoticeTone, content: string | Html): Html {
  return html`<div class="notice ${tone}" role="${tone === 'fault' ? 'alert' : 'status'}">${content}</div>`
}
