// One turn: its messages, the changes that it made, its answers, its cost and its log.
import { turnsResource } from '../../../resources/turns.ts'
import { renderDetails } from '../../../web/dash/detail-pane.ts'
import {
  badge,
  copyText,
  emptyState,
  foldedText,
  link,
  money,
  section,
  textBlock,
  timeOf,
  visibleText,
} from '../../../web/dash/parts.ts'
import { countColumn } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { draftTextsOf } from '../../process/draft-texts.ts'
import { type ShownCall, turnActivitiesOf } from '../../process/turn-activities.ts'
import { logLines, renderTurnLog } from '../log-parts.ts'
import { messagePath, retryButton } from '../message-parts.ts'
import { definePage, type PageView } from '../page.ts'
import { durationText, folderLink, stopAction, stopButton, turnBadge } from '../turn-parts.ts'
import { MESSAGE_ACTIONS } from './message.ts'
import { personPath } from './people.ts'

type TurnStory = Awaited<ReturnType<typeof turnsResource.verbs.show.run>>

export const turnPage = definePage({
  path: '/dash/turns/:id',
  title: 'Turn',
  actions: {
    stop: stopAction,
    // A message that is retried no longer belongs to this turn.
    retry: { ...MESSAGE_ACTIONS.retry, to: (_: unknown, { id }: { id: string }) => messagePath(id) },
    redeliver: MESSAGE_ACTIONS.redeliver,
  },
  show: async (view) => {
    const story = await view.call(turnsResource.verbs.show, { id: view.params.id ?? '' })
    const tail = await view.call(turnsResource.verbs.log, { id: story.turn.id, lines: logLines(view) })
    const parts = [
      details(view, story),
      section('turn-messages', 'Messages', messages(view, story)),
      section('turn-calls', 'Changes by tools', calls(view, story)),
      section('turn-answers', 'Answers', answers(view, story)),
      draft(view, story),
      runningCalls(view, story),
      story.costs.length === 0 ? EMPTY_HTML : section('turn-costs', 'Cost', costs(view, story)),
      section('turn-log-lines', 'Log', renderTurnLog(view, tail)),
    ]
    return { title: `Turn of ${story.turn.folder}`, main: html`${parts}`, isLive: !hasEnded(story) }
  },
})

/** Its answers are delivered after its end. */
function hasEnded({ turn, answers: sent }: TurnStory): boolean {
  return turn.ended_at !== undefined && !sent.some(({ state }) => state === 'pending' || state === 'sending')
}

function details(view: PageView, { turn, costs: spent }: TurnStory): Html {
  const cents = spent.reduce((sum, { cost_cents }) => sum + cost_cents, 0)
  const end = turn.ended_at === undefined ? view.nowMs : Date.parse(turn.ended_at)
  return renderDetails({
    State: html`${turnBadge(turn)} ${stopButton(view, turn)}`,
    Reason: turn.reason === undefined ? undefined : visibleText(turn.reason),
    Folder: folderLink(turn.folder),
    Topic: visibleText(turn.topic),
    Chat: turn.jid,
    Sender: visibleText(turn.sender),
    'Counts against': payerOf(view, turn.user_sub),
    Task:
      turn.task_id === undefined
        ? undefined
        : link(`/dash/tasks?task=${encodeURIComponent(turn.task_id)}`, turn.task_id),
    Started: timeOf(turn.started_at, view.nowMs),
    Ended: turn.ended_at === undefined ? undefined : timeOf(turn.ended_at, view.nowMs),
    Took: durationText(Math.max(0, end - Date.parse(turn.started_at))),
    Tries: turn.attempts,
    'Lost processes': turn.deaths,
    'Next try': turn.state === 'retrying' ? timeOf(new Date(turn.run_after).toISOString(), view.nowMs) : undefined,
    Reach: turn.reach,
    'May cost': turn.money_cents === undefined ? undefined : money(turn.money_cents),
    Cost: money(cents),
    Id: copyText(turn.id),
    Command: view.isOperator ? view.command(`svc turns ${view.host.instance} show ${turn.id}`) : undefined,
  })
}

/** The page of a person is only for operators. */
function payerOf({ isOperator }: PageView, sub: string | undefined): Html | string | undefined {
  return sub !== undefined && isOperator ? link(personPath(sub), sub) : sub
}

function retryOf(view: PageView, states: readonly string[], message: { id: string; state: string }): Html {
  return states.includes(message.state) ? html` ${retryButton(view, message)}` : EMPTY_HTML
}

function messages(view: PageView, story: TurnStory): Html {
  if (story.messages.length === 0) return emptyState({ text: 'Its messages were removed by retention.' })
  const items = story.messages.map(
    ({ id, created_at, sender, state, reason, text }, at) =>
      html`<article id="message-${at}"><p>${link(`/dash/messages/${encodeURIComponent(id)}`, visibleText(sender))} ${badge(state, state === 'failed' || state === 'refused' ? 'fault' : 'idle')} ${timeOf(created_at, view.nowMs)}${reason === undefined ? EMPTY_HTML : html` <span class="muted">${visibleText(reason)}</span>`}${retryOf(view, ['failed', 'refused'], { id, state })}</p>${textBlock(`message-text-${at}`, text)}</article>`,
  )
  return html`${items}`
}

function calls(view: PageView, story: TurnStory): Html {
  return view.list({
    id: 'calls',
    caption: 'Changes that the agent made, oldest first',
    rows: story.calls,
    rowId: ({ id }) => String(id),
    columns: [
      { label: 'Time', cell: ({ created_at }) => timeOf(created_at, view.nowMs) },
      { label: 'Call', cell: ({ action }) => html`<code>${action.replace(/^tools\./, '')}</code>` },
      { label: 'Arguments', isProse: true, cell: ({ id, params_summary }) => textBlock(`call-${id}`, params_summary) },
      {
        label: 'Result',
        cell: ({ outcome, error_msg }) =>
          outcome === 'ok' ? badge('ok', 'ok') : html`${badge('denied', 'fault')} ${visibleText(error_msg ?? '')}`,
      },
      { label: 'Took', isNumber: true, cell: ({ duration_ms }) => durationText(duration_ms) },
    ],
    empty: { text: 'It has changed nothing. Reads are not recorded.' },
  })
}

function answers(view: PageView, story: TurnStory): Html {
  if (story.answers.length === 0) return emptyState({ text: 'It has sent nothing.' })
  const items = story.answers.map(
    ({ id, created_at, kind, chat, state, error, text }, at) =>
      html`<article id="answer-${at}"><p>${chat} ${badge(kind === 'message' ? state : kind, state === 'failed' || state === 'unknown' ? 'fault' : 'ok')} ${timeOf(created_at, view.nowMs)}${error === undefined ? EMPTY_HTML : html` <span class="muted">${visibleText(error)}</span>`}${retryOf(view, ['failed', 'unknown'], { id, state })}</p>${textBlock(`answer-text-${at}`, text)}</article>`,
  )
  return html`${items}`
}

/** The answer that the agent is writing. */
function draft({ host }: PageView, { turn }: TurnStory): Html {
  const { text = '' } = turn.ended_at === undefined ? (draftTextsOf(host).get(turn.id) ?? {}) : {}
  return text === '' ? EMPTY_HTML : section('turn-draft', 'Being written', textBlock('draft-text', text))
}

/** The tool calls of a running turn, reads too. After its end the log has them. */
function runningCalls(view: PageView, { turn }: TurnStory): Html {
  const { calls = [], piece } = (turn.ended_at === undefined && turnActivitiesOf(view.host).get(turn.id)) || {}
  if (calls.length === 0) return EMPTY_HTML
  const list = view.list<ShownCall>({
    id: 'live-calls',
    caption: 'Calls of this try, oldest first',
    rows: calls,
    rowId: ({ n }) => String(n),
    columns: [
      { label: 'Time', cell: ({ at }) => timeOf(new Date(at).toISOString(), view.nowMs) },
      { label: 'Call', cell: ({ tool }) => html`<code>${visibleText(tool)}</code>` },
      {
        label: 'Arguments',
        isProse: true,
        cell: ({ n, args }) => foldedText(`live-call-${piece?.fence}-${n}`, 'Show', args),
      },
      { label: 'Result', cell: ({ state }) => badge(state, CALL_TONES[state]) },
      { label: 'Took', isNumber: true, cell: ({ ms }) => (ms === undefined ? '' : durationText(ms)) },
    ],
    empty: { text: '' },
  })
  return section('turn-live-calls', 'Calls now', list)
}

const CALL_TONES = { running: 'busy', ok: 'ok', failed: 'fault', ended: 'idle' } as const

function costs(view: PageView, story: TurnStory): Html {
  return view.list<TurnStory['costs'][number]>({
    id: 'costs',
    caption: 'Cost by model',
    rows: story.costs,
    rowId: ({ model }) => model,
    columns: [
      { label: 'Model', cell: ({ model }) => model },
      countColumn('Input tokens', ({ input_tokens }) => input_tokens),
      countColumn('Output tokens', ({ output_tokens }) => output_tokens),
      { label: 'Cost', isNumber: true, cell: ({ cost_cents }) => money(cost_cents) },
    ],
    empty: { text: 'No cost was reported.' },
  })
}
