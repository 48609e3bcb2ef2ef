// Parts of pages that show turns.
import type { TurnSummary } from '../../core/turns/turn-list.ts'
import { turnsResource } from '../../resources/turns.ts'
import { badge, link, type Tone, timeOf, visibleText } from '../../web/dash/parts.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import { folderPath, type PageView, type VerbAction } from './page.ts'

export function turnPath(id: string): string {
  return `/dash/turns/${encodeURIComponent(id)}`
}

const TONES: Readonly<Record<string, Tone>> = {
  running: 'busy',
  retrying: 'warn',
  stopping: 'warn',
  answered: 'ok',
  silent: 'idle',
  failed: 'fault',
  refused: 'fault',
}

type TurnState = Pick<TurnSummary, 'state' | 'outcome' | 'is_stopping'>

/** Its outcome or, before it has one, its state. */
export function turnStateText({ state, outcome, is_stopping }: TurnState): string {
  return outcome ?? (is_stopping ? 'stopping' : state)
}

export function turnBadge(turn: TurnState): Html {
  const text = turnStateText(turn)
  return badge(text, TONES[text] ?? 'idle')
}

export function folderLink(folder: string): Html {
  return link(folderPath(folder), folder)
}

/** The beginning of a text that somebody else wrote, in one line. */
export function excerpt(text: string, characters = 100): string {
  const start = text.slice(0, 10 * characters)
  const line = [...visibleText(start.replace(/\s+/g, ' ').trim())]
  const isWhole = line.length <= characters && start.length === text.length
  return isWhole ? line.join('') : `${line.slice(0, characters).join('')}…`
}

/** `820 ms`, `4.2 s` or `3.5 min`. */
export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${(ms / 60_000).toFixed(1)} min`
}

export const stopAction: VerbAction = {
  verb: turnsResource.verbs.stop,
  done: 'The turn is being stopped.',
  confirm: ({ id = '' }) => `Stop turn ${id}? Its messages count as failed.`,
}

/** Only for turns that have not ended. The page needs the action `stop`. */
export function stopButton(
  view: Pick<PageView, 'button'>,
  { id, state, is_stopping }: Pick<TurnSummary, 'id' | 'state' | 'is_stopping'>,
): Html {
  if (state === 'done' || is_stopping) return EMPTY_HTML
  return view.button({ action: 'stop', text: 'Stop', label: `Stop turn ${id}`, fixed: { id }, isDangerous: true })
}

interface TurnStepView {
  readonly kind: 'started' | 'waiting' | 'call' | 'status' | 'message'
  readonly text: string
  readonly since: string
}

const STEP_NAMES: Readonly<Record<TurnStepView['kind'], string>> = {
  started: 'Thinking',
  waiting: 'Waits for its next try',
  call: 'Used',
  status: 'Says',
  message: 'Wrote',
}

export function stepText({ kind, text, since }: TurnStepView, nowMs: number): Html {
  const isQuote = kind === 'status' || kind === 'message'
  const words = isQuote ? html`<q dir="auto">${excerpt(text)}</q>` : html`<span dir="auto">${excerpt(text)}</span>`
  const what = text === '' ? EMPTY_HTML : html` ${words}`
  return html`${STEP_NAMES[kind]}${what} <span class="muted">${timeOf(since, nowMs)}</span>`
}
