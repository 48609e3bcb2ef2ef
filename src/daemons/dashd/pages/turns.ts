// Turns, newest first.
import type { z } from 'zod'
import { TurnOutcome, type TurnSummary } from '../../../core/turns/turn-list.ts'
import { Turn } from '../../../core/turns/turns.ts'
import { Refusal } from '../../../lib/refusal.ts'
import { turnsResource } from '../../../resources/turns.ts'
import { renderFilters } from '../../../web/dash/filter-bar.ts'
import { buttonLink, link, timeOf } from '../../../web/dash/parts.ts'
import { defineTable, moneyColumn } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { omitEmpty } from '../message-parts.ts'
import { definePage, type PageView } from '../page.ts'
import {
  durationText,
  excerpt,
  folderLink,
  stopAction,
  stopButton,
  turnBadge,
  turnPath,
  turnStateText,
} from '../turn-parts.ts'
import { explainWrongFilter } from '../wrong-filters.ts'

const { list } = turnsResource.verbs
const STATES = Turn.shape.state.options
const OUTCOMES = TurnOutcome.options

export const turnsPage = definePage({
  path: '/dash/turns',
  title: 'Turns',
  nav: 'work',
  actions: {
    stop: stopAction,
    stop_all: {
      run: async (view, fields) => {
        const ids = (fields.get('ids') ?? '').split(' ').filter((id) => id !== '')
        let stopped = 0
        for (const id of ids) stopped += await stopIfRunning(view, id)
        return { done: `${stopped} of ${ids.length} turns are being stopped.` }
      },
      confirm: ({ ids = '' }) => `Stop ${ids.split(' ').length} turns? Their messages count as failed.`,
    },
  },
  show: async (view) => ({
    title: 'Turns',
    top: filters(view),
    ...(await explainWrongFilter(() => readTurns(view))),
    isLive: true,
  }),
})

async function readTurns(view: PageView) {
  const { folder, state, outcome, after } = view.query
  // The verb checks the values.
  const given = omitEmpty({ folder, state, outcome, after }) as Omit<z.input<typeof list.input>, 'limit'>
  const { turns, next } = await view.call(list, { ...given, limit: view.limit })
  return { main: renderBulkStop(view, turns), table: turnTable(view, turns, next) }
}

/** One that has ended meanwhile is left alone. */
async function stopIfRunning(view: PageView, id: string): Promise<number> {
  try {
    await view.call(turnsResource.verbs.stop, { id })
    return 1
  } catch (error) {
    if (error instanceof Refusal && error.code === 'conflict') return 0
    throw error
  }
}

function renderBulkStop(view: PageView, turns: readonly TurnSummary[]): Html {
  const running = turns.filter(({ state, is_stopping }) => state === 'running' && !is_stopping)
  if (running.length < 2) return EMPTY_HTML
  const ids = running.map(({ id }) => id).join(' ')
  const text = `Stop all ${running.length} on this page`
  return html`<p>${view.button({ action: 'stop_all', fixed: { ids }, text, isDangerous: true })}</p>`
}

function filters({ path, query }: PageView) {
  return renderFilters({
    id: 'turn-filters',
    path,
    query,
    fields: [
      { name: 'folder', label: 'Folder' },
      { name: 'state', label: 'State', kind: 'select', options: [['', 'any'], ...STATES] },
      { name: 'outcome', label: 'Outcome', kind: 'select', options: [['', 'any'], ...OUTCOMES] },
    ],
  })
}

function turnTable(view: PageView, turns: readonly TurnSummary[], next: string | undefined) {
  const isFiltered = ['folder', 'state', 'outcome'].some((name) => view.query[name])
  return defineTable<TurnSummary>({
    id: 'turns',
    caption: 'Turns, newest first',
    rows: turns,
    rowId: ({ id }) => id,
    next,
    columns: [
      {
        label: 'Started',
        cell: ({ started_at }) => timeOf(started_at, view.nowMs),
        value: ({ started_at }) => started_at,
      },
      { label: 'State', cell: turnBadge, value: turnStateText },
      { label: 'Folder', cell: ({ folder }) => folderLink(folder), value: ({ folder }) => folder },
      {
        label: 'Message',
        isProse: true,
        cell: ({ id, text }) => link(turnPath(id), excerpt(text) || id),
        value: ({ text }) => text,
      },
      { label: 'Chat', cell: ({ jid }) => jid },
      { label: 'Time', isNumber: true, cell: (turn) => durationOf(turn, view.nowMs) },
      { label: 'Replies', isNumber: true, cell: ({ replies }) => replies },
      moneyColumn('Cost', ({ cost_cents }) => cost_cents),
      { label: 'Reason', cell: ({ reason = '' }) => excerpt(reason), value: ({ reason }) => reason },
      { label: 'Id', cell: ({ id }) => html`<code class="nowrap">${id.slice(0, 13)}</code>`, value: ({ id }) => id },
    ],
    rowActions: (turn) => stopButton(view, turn),
    empty: isFiltered
      ? {
          text: 'No turn matches these filters.',
          next: buttonLink(view.path, 'All turns'),
          command: view.inTerminal(`svc turns ${view.host.instance} list`),
        }
      : {
          text: 'No agent has run yet. Send a message to a folder to start its first turn.',
          command: view.inTerminal(`svc send ${view.host.instance} main 'hello'`),
        },
  })
}

function durationOf({ started_at, ended_at }: TurnSummary, nowMs: number): string {
  return durationText(Math.max(0, (ended_at === undefined ? nowMs : Date.parse(ended_at)) - Date.parse(started_at)))
}
