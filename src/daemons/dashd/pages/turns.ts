// Turns, newest first.
import type { z } from 'zod'
import { TurnOutcome, type TurnSummary } from '../../../core/turns/turn-list.ts'
import { Turn } from '../../../core/turns/turns.ts'
import { turnsResource } from '../../../resources/turns.ts'
import { renderFilters } from '../../../web/dash/filter-bar.ts'
import { buttonLink, link, timeOf } from '../../../web/dash/parts.ts'
import { defineTable, moneyColumn } from '../../../web/dash/table.ts'
import { html } from '../../../web/html.ts'
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
  actions: { stop: stopAction },
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
  return { table: turnTable(view, turns, next) }
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
          command: `svc turns ${view.host.instance} list`,
        }
      : {
          text: 'No agent has run yet. Send a message to a folder to start its first turn.',
          command: `svc send ${view.host.instance} main 'hello'`,
        },
  })
}

function durationOf({ started_at, ended_at }: TurnSummary, nowMs: number): string {
  return durationText(Math.max(0, (ended_at === undefined ? nowMs : Date.parse(ended_at)) - Date.parse(started_at)))
}
