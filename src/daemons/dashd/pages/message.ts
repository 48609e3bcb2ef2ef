// The whole story of one message, received or sent.
import { inboxResource, type MessageStory } from '../../../resources/inbox.ts'
import { renderDetails } from '../../../web/dash/detail-pane.ts'
import { badge, link, money, section, textBlock, timeOf, visibleText } from '../../../web/dash/parts.ts'
import { countColumn } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { logLines, renderTurnLog } from '../log-parts.ts'
import { messageLink, optionalFolderLink, retryButton, stateBadge } from '../message-parts.ts'
import { definePage, type PageAction, type PageView } from '../page.ts'

const { details, log, retry } = inboxResource.verbs

type ReceivedMessage = Extract<MessageStory, { direction: 'in' }>
type SentMessage = Extract<MessageStory, { direction: 'out' }>

/** Retries of one message, on its page and in the list. */
export const MESSAGE_ACTIONS = {
  retry: { verb: retry, done: 'The message waits for another attempt.' },
  redeliver: {
    verb: retry,
    done: 'The message is delivered again.',
    confirm: () => 'The message may have arrived already. Deliver it again?',
  },
} as const satisfies Readonly<Record<string, PageAction>>

export const messageStoryPage = definePage({
  path: '/dash/messages/:id',
  title: 'Message',
  actions: MESSAGE_ACTIONS,
  show: async (view) => {
    const { id = '' } = view.params
    const story = await view.call(details, { id })
    const main = story.direction === 'in' ? await renderReceived(view, story) : renderSent(view, story)
    return { title: `Message ${id.slice(0, 13)}`, main, isLive: !hasEnded(story) }
  },
})

const OPEN_STATES: ReadonlySet<string> = new Set([
  'waiting',
  'running',
  'delegated',
  'onboarding',
  'pending',
  'sending',
])

/** Neither the message nor an answer to it changes any more, unless a person retries it. */
function hasEnded(story: MessageStory): boolean {
  const states = [
    story.state ?? 'waiting',
    ...(story.direction === 'in' ? story.answers : []).map(({ state }) => state),
  ]
  return !states.some((state) => OPEN_STATES.has(state))
}

async function renderReceived(view: PageView, story: ReceivedMessage): Promise<Html> {
  const { turn, is_turn_hidden } = story
  const tail = turn && !is_turn_hidden ? await view.call(log, { id: story.id ?? '', lines: logLines(view) }) : undefined
  const parts = [
    section('text', 'Text', html`${textBlock('message-text', story.text)}${renderFiles(story)}`, cutNote(story)),
    section('arrival', 'Arrival', renderArrival(view, story)),
    section('routing', 'Routing', renderRouting(story)),
    section('attempts', 'Attempts', renderAttempts(view, story)),
    section('calls', 'Tool calls', renderCalls(view, story)),
    section('answers', 'Answers and delivery', renderAnswers(view, story)),
    section('cost', 'Cost', renderCosts(view, story)),
    section('log', 'Log of the turn', renderTurnLog(view, tail)),
  ]
  return html`${renderHead(view, story)}${parts}`
}

/** The state with its reason, and the retry beside it. */
function renderHead(view: PageView, story: ReceivedMessage | SentMessage): Html {
  const reason = story.direction === 'in' ? story.reason : story.error
  const button = view.isAdministrator ? retryOf(view, story) : EMPTY_HTML
  const because =
    reason === undefined ? EMPTY_HTML : html` <span class="reason" dir="auto">${visibleText(reason)}</span>`
  return html`<div class="bar"><p>${stateBadge(story.state ?? 'waiting')}${because}</p>${button}</div>`
}

function retryOf(view: PageView, { id = '', state = 'waiting', direction }: ReceivedMessage | SentMessage): Html {
  const isFailed = direction === 'in' ? ['failed', 'refused'].includes(state) : ['failed', 'unknown'].includes(state)
  return isFailed ? retryButton(view, { id, state }) : EMPTY_HTML
}

/** Without the contents: anyone may have uploaded them. */
function renderFiles({ files = [] }: ReceivedMessage | SentMessage): Html {
  const items = files.map(
    ({ name, type, size }) =>
      html`<li><bdi>${visibleText(name)}</bdi> <span class="muted">${type}, ${size} bytes</span></li>`,
  )
  return files.length === 0 ? EMPTY_HTML : html`<ul>${items}</ul>`
}

function cutNote({ text, text_length }: { text: string; text_length: number }): Html {
  return text.length < text_length
    ? html`<span class="muted">the first ${text.length} of ${text_length} characters</span>`
    : EMPTY_HTML
}

function renderArrival({ nowMs }: PageView, story: ReceivedMessage): Html {
  const { entry, envelope } = story
  return renderDetails({
    ...renderEntry(entry),
    Time: timeOf(story.created_at, nowMs),
    Chat: visibleText(story.chat ?? ''),
    Sender: visibleText(envelope?.sender_name ? `${story.sender} (${envelope.sender_name})` : (story.sender ?? '')),
    Verb: envelope?.verb,
    Edited: envelope?.edited_at && timeOf(envelope.edited_at, nowMs),
    Deleted: envelope?.deleted_at && timeOf(envelope.deleted_at, nowMs),
    Event: story.event && visibleText(story.event),
    Reach: story.reach,
    'Reply to': envelope?.reply_to_text && textBlock('reply-to', envelope.reply_to_text),
    Id: html`<code>${story.id ?? ''}</code>`,
  })
}

function renderEntry(entry: ReceivedMessage['entry']): Record<string, Html | string | undefined> {
  switch (entry?.kind) {
    case 'link':
      return {
        'Came by': 'a link',
        'Link of': optionalFolderLink(entry.owner),
        'Context of the link': entry.context === undefined ? undefined : textBlock('link-context', entry.context),
      }
    case 'platform':
      return { 'Came by': entry.channel ? `${entry.platform}, channel ${entry.channel}` : entry.platform }
    case 'task':
      return { 'Came by': html`the task <code>${visibleText(entry.task_id)}</code>` }
    case 'turn':
      return { 'Came by': html`an agent, in the turn ${link(`/dash/turns/${entry.from_turn}`, entry.from_turn)}` }
    default:
      return { 'Came by': 'the chat of its folder' }
  }
}

function renderRouting({ routing, folder, topic, waits_for }: ReceivedMessage): Html {
  return html`<p>${visibleText(routing?.sentence ?? '')}</p>${renderDetails({
    Folder: optionalFolderLink(folder) ?? 'none',
    Topic: topic && visibleText(topic),
    'Waits for': waits_for && messageLink(waits_for, waits_for),
  })}`
}

function renderAttempts({ nowMs }: PageView, { retries, turn, siblings, is_turn_hidden }: ReceivedMessage): Html {
  const earlier = retries.map(
    ({ state, reason = '', ended_at, turn_id, retried_by }) =>
      html`<li>${timeOf(ended_at, nowMs)} ${stateBadge(state)} <span dir="auto">${visibleText(reason)}</span> ${turnLink(turn_id)} <span class="muted">retried by ${visibleText(retried_by)}</span></li>`,
  )
  if (is_turn_hidden) return html`<ol class="timeline">${earlier}<li>A turn of another folder handles it.</li></ol>`
  if (!turn) return html`<ol class="timeline">${earlier}<li class="muted">No turn has it now.</li></ol>`
  const others =
    siblings.length === 0 ? undefined : html`${siblings.map(({ id, sender }) => html`${messageLink(id, sender)} `)}`
  const current = renderDetails({
    Turn: turnLink(turn.id),
    State: stateBadge(turn.outcome ?? turn.state),
    Reason: turn.reason && visibleText(turn.reason),
    Tries: turn.attempts,
    Crashes: turn.deaths || undefined,
    Started: timeOf(turn.started_at, nowMs),
    Ended: turn.ended_at === undefined ? undefined : timeOf(turn.ended_at, nowMs),
    'Together with': others,
  })
  return html`<ol class="timeline">${earlier}<li>${current}</li></ol>`
}

function turnLink(turn_id: string | undefined): Html {
  return turn_id === undefined ? EMPTY_HTML : link(`/dash/turns/${turn_id}`, `turn ${turn_id.slice(0, 13)}`)
}

function renderCalls(view: PageView, { tool_calls }: ReceivedMessage): Html {
  const { nowMs } = view
  return view.list({
    id: 'tool-calls',
    caption: 'Tool calls of the turn',
    rows: tool_calls,
    rowId: ({ id }) => String(id),
    columns: [
      { label: 'Time', cell: ({ created_at }) => timeOf(created_at, nowMs) },
      { label: 'Call', cell: ({ action }) => html`<code>${action.replace(/^tools\./, '')}</code>` },
      {
        label: 'Arguments',
        isProse: true,
        cell: ({ id, params_summary }) => textBlock(`arguments-${id}`, params_summary),
      },
      {
        label: 'Result',
        cell: ({ outcome, error_msg }) =>
          html`${badge(outcome, outcome === 'ok' ? 'ok' : 'fault')} ${visibleText(error_msg ?? '')}`,
      },
      { label: 'ms', cell: ({ duration_ms }) => duration_ms, isNumber: true },
    ],
    empty: { text: 'The turn changed nothing with tools. Calls that only read are in the log of the turn.' },
  })
}

/** Frames that are no answer of the last turn: those of earlier attempts, and of a delegate. */
function renderAnswers(view: PageView, { answers, frames, round }: ReceivedMessage): Html {
  const { nowMs } = view
  const known = new Set(answers.map(({ id }) => id))
  const others = frames.filter(({ id }) => !known.has(id))
  const items = [
    ...others.map(
      ({ id, created_at, kind, text }) =>
        html`<li>${timeOf(created_at, nowMs)} ${badge(kind)} ${textBlock(`frame-${id}`, text)}</li>`,
    ),
    ...answers.map(
      ({ id, created_at, kind, chat, state, attempts, error, text }) =>
        html`<li>${timeOf(created_at, nowMs)} ${stateBadge(state)} ${messageLink(id, kind)} to ${visibleText(chat)}${attempts > 1 ? ` after ${attempts} tries` : ''} ${retryDelivery(view, id, state)}<span dir="auto">${visibleText(error ?? '')}</span>${textBlock(`answer-${id}`, text)}</li>`,
    ),
  ]
  const ended = round
    ? html`<p>Round ${stateBadge(round.status)}, ${round.last_seq} ${round.last_seq === 1 ? 'frame' : 'frames'}. ${visibleText(round.error ?? '')}</p>`
    : EMPTY_HTML
  const list =
    items.length === 0 ? html`<p class="muted">Nothing was sent.</p>` : html`<ol class="timeline">${items}</ol>`
  return html`${ended}${list}`
}

function retryDelivery(view: PageView, id: string, state: string): Html {
  return ['failed', 'unknown'].includes(state) ? retryButton(view, { id, state }) : EMPTY_HTML
}

function renderCosts(view: PageView, { costs }: ReceivedMessage): Html {
  return view.list<ReceivedMessage['costs'][number]>({
    id: 'costs',
    caption: 'Costs of the turn by model',
    rows: costs,
    rowId: ({ model }) => model,
    columns: [
      { label: 'Model', cell: ({ model }) => visibleText(model) },
      countColumn('Input tokens', ({ input_tokens }) => input_tokens),
      countColumn('Output tokens', ({ output_tokens }) => output_tokens),
      { label: 'Cost', cell: ({ cost_cents }) => money(cost_cents), isNumber: true },
    ],
    empty: { text: 'The turn reported no cost.' },
  })
}

function renderSent(view: PageView, story: SentMessage): Html {
  const { nowMs } = view
  const answered =
    story.answered.length === 0
      ? undefined
      : html`${story.answered.map(({ id, sender }) => html`${messageLink(id, sender)} `)}`
  const fields = renderDetails({
    Time: timeOf(story.created_at, nowMs),
    Folder: optionalFolderLink(story.folder) ?? 'the instance itself',
    Chat: visibleText(story.chat),
    Action: story.action,
    Channel: story.channel,
    Tries: story.attempts,
    'Next try': story.next_at === undefined ? undefined : timeOf(new Date(story.next_at).toISOString(), nowMs),
    'Id of the platform': story.platform_id && visibleText(story.platform_id),
    Turn: story.turn_id === undefined ? undefined : turnLink(story.turn_id),
    Answers: answered,
    Id: html`<code>${story.id}</code>`,
  })
  return html`${renderHead(view, story)}${section('text', 'Text', textBlock('message-text', story.text), cutNote(story))}${section('delivery', 'Delivery', fields)}`
}
