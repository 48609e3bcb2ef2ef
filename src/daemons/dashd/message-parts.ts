// Parts that the list and the page of a message share.
import { OutboxState } from '../../core/delivery/outbox.ts'
import { InboxState } from '../../core/messages/inbox.ts'
import { badge, link, type Tone, visibleText } from '../../web/dash/parts.ts'
import { type Html, html } from '../../web/html.ts'
import type { PageView } from './page.ts'
import { folderLink } from './turn-parts.ts'

const TONES: Readonly<Record<string, Tone>> = {
  waiting: 'busy',
  running: 'busy',
  delegated: 'busy',
  pending: 'busy',
  sending: 'busy',
  answered: 'ok',
  sent: 'ok',
  failed: 'fault',
  refused: 'fault',
  unknown: 'warn',
  onboarding: 'warn',
}

export const MESSAGE_STATES: readonly string[] = [...new Set([...InboxState.options, ...OutboxState.options])]

export function stateBadge(state: string): Html {
  return badge(state, TONES[state] ?? 'idle')
}

export function messagePath(id: string): string {
  return `/dash/messages/${encodeURIComponent(id)}`
}

export function messageLink(id: string, text: string): Html {
  return link(messagePath(id), visibleText(text).replace(/\s+/g, ' ').trim() || '(no text)')
}

/** The same for a hit of a search, whose matching words are between « and ». */
export function foundLink(id: string, snippet: string): Html {
  const line = visibleText(snippet).replace(/\s+/g, ' ').trim()
  const parts = line.split(/«([^«»]*)»/).map((part, at) => (at % 2 === 1 ? html`<mark>${part}</mark>` : html`${part}`))
  return link(messagePath(id), html`${parts}`)
}

/** A chat or a sender in a table. */
export function nameOf(name: string): Html {
  return html`<span class="name">${visibleText(name)}</span>`
}

export function optionalFolderLink(folder: string | undefined): Html | undefined {
  return folder === undefined ? undefined : folderLink(folder)
}

/** Times of a `datetime-local` field have no zone and are read as UTC; an empty text is no time. */
export function timeInput(text: string | undefined): string | undefined {
  if (!text) return undefined
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$/.test(text) ? `${text.length === 16 ? `${text}:00` : text}Z` : text
}

export function omitEmpty<T extends Readonly<Record<string, unknown>>>(
  input: T,
): { [K in keyof T]: NonNullable<T[K]> } {
  const given = Object.entries(input).filter(([, value]) => value !== undefined && value !== '')
  // Verbs parse the input again.
  return Object.fromEntries(given) as { [K in keyof T]: NonNullable<T[K]> }
}

/** A delivery with an unknown end is retried only after a confirmation. */
export function retryButton(view: PageView, { id, state }: { readonly id: string; readonly state: string }): Html {
  const action = state === 'unknown' ? 'redeliver' : 'retry'
  return view.button({ action, fixed: { id }, text: 'Retry', label: `Retry message ${id}` })
}
