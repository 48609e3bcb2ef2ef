// The start page: what needs attention, the last 24 hours in numbers, and live turns.
import type { Attention } from '../../../core/turns/attention.ts'
import type { HourActivity } from '../../../core/turns/day-activity.ts'
import { folderTurnsResource } from '../../../resources/folder-turns.ts'
import { networkRulesResource } from '../../../resources/network-rules.ts'
import { turnsResource } from '../../../resources/turns.ts'
import { renderChart } from '../../../web/dash/chart.ts'
import {
  badge,
  buttonLink,
  emptyState,
  groupDigits,
  link,
  money,
  section,
  type Tone,
  timeOf,
  visibleText,
} from '../../../web/dash/parts.ts'
import { moneyColumn } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { approvalActions, decisionButtons, mayDecide } from '../approval-parts.ts'
import { messagePath, retryButton } from '../message-parts.ts'
import { usesDemoModel } from '../model-section.ts'
import { definePage, folderPath, type PageView } from '../page.ts'
import {
  durationText,
  excerpt,
  folderLink,
  stepText,
  stopAction,
  stopButton,
  turnBadge,
  turnPath,
} from '../turn-parts.ts'
import { MESSAGE_ACTIONS } from './message.ts'

export const homePage = definePage({
  path: '/dash/',
  title: 'Home',
  nav: 'start',
  actions: {
    ...approvalActions,
    retry: MESSAGE_ACTIONS.retry,
    stop: stopAction,
    allow: { verb: networkRulesResource.verbs.allow, done: 'The host is allowed.' },
  },
  show: async (view) => {
    const attention = await view.call(folderTurnsResource.verbs.attention, {})
    const { hours } = await view.call(folderTurnsResource.verbs.day, {})
    const { turns } = await view.call(turnsResource.verbs.running, {})
    const parts = [
      section('attention', 'Needs attention', await renderAttention(view, attention), allFailed(attention)),
      section('day', 'Last 24 hours', renderDay(hours)),
      section('live-turns', 'Live turns', renderLive(view, turns), link('/dash/turns', 'All turns')),
    ]
    const top = (await usesDemoModel(view)) ? firstSteps() : EMPTY_HTML
    return { title: 'Home', top, main: html`${parts}`, isLive: true }
  },
})

function firstSteps(): Html {
  const steps = [
    buttonLink('/dash/model', 'Connect a model'),
    buttonLink('/dash/folders#new-folder', 'Create a folder'),
    buttonLink('/dash/folders/main?view=links#new-chat', 'Hand out a chat link'),
  ]
  return section(
    'first-steps',
    'First steps',
    html`<p>Agents answer with the built-in demo. Connect a model to get real answers.</p><p class="bar">${steps}</p>`,
  )
}

interface AttentionItem {
  readonly id: string
  readonly tone: Tone
  readonly kind: string
  readonly folder?: string | undefined
  readonly what: Html | string
  readonly reason?: string | undefined
  readonly at?: string | undefined
  readonly action: Html
}

/** The list above shows the newest. */
function allFailed({ failed_messages }: Attention): Html {
  return failed_messages.length < 2 ? EMPTY_HTML : link('/dash/messages?state=failed', 'All failed messages')
}

async function renderAttention(view: PageView, attention: Attention): Promise<Html> {
  const items = await attentionItems(view, attention)
  const downloads = view.downloads<AttentionItem>({
    id: 'attention',
    rows: items,
    columns: [
      { label: 'Kind', cell: ({ kind }) => kind },
      { label: 'Folder', cell: ({ folder }) => folder },
      { label: 'What', cell: ({ what }) => what },
      { label: 'Reason', cell: ({ reason }) => reason },
      { label: 'Time', cell: ({ at }) => at },
    ],
  })
  if (items.length === 0)
    return emptyState({
      text: 'Nothing needs your attention.',
      next: html`<p>${link('/dash/messages', 'See the last messages')}</p>`,
      command: view.inTerminal(`svc doctor ${view.host.instance}`),
    })
  return html`<ul class="list">${items.map((item) => renderItem(view, item))}</ul>${downloads}`
}

function renderItem(view: PageView, { id, tone, kind, folder, what, reason, at, action }: AttentionItem): Html {
  const place = folder === undefined ? EMPTY_HTML : html`${folderLink(folder)} `
  const why =
    reason === undefined || reason === ''
      ? EMPTY_HTML
      : html` <span class="muted" dir="auto">${excerpt(reason, 160)}</span>`
  const when = at === undefined ? EMPTY_HTML : html`<span class="muted">${timeOf(at, view.nowMs)}</span>`
  return html`<li id="attention-${encodeURIComponent(id)}">${badge(kind, tone)}<span class="what">${place}<span dir="auto">${what}</span>${why}</span>${when}${action}</li>`
}

async function attentionItems(view: PageView, found: Attention): Promise<AttentionItem[]> {
  const isDecider = found.held_calls.length > 0 && (await mayDecide(view))
  return [
    ...found.held_calls.map(({ id, folder, at, text: tool, reason }) => ({
      ...{ id: `held-${id}`, tone: 'warn' as const, kind: 'held call', folder, at, reason },
      what: html`<code>${tool}</code>`,
      action: isDecider ? decisionButtons(view, { id, tool }) : buttonLink('/dash/approvals', 'Show'),
    })),
    ...found.admissions.map(({ id, folder, at, text }) => ({
      ...{ id: `admission-${id}`, tone: 'warn' as const, kind: 'admission', at },
      what: `${visibleText(text)} asks for the folder ${folder ?? ''}`,
      action: buttonLink('/dash/admissions', 'Decide'),
    })),
    ...found.failed_messages.map(({ id, folder, at, text, reason }) => ({
      ...{ id: `message-${id}`, tone: 'fault' as const, kind: 'failed message', folder, at, reason },
      what: excerpt(text),
      action: html`${buttonLink(messagePath(id), 'Why')}${retryButton(view, { id, state: 'failed' })}`,
    })),
    ...found.failed_deliveries.map(({ id, folder, at, text, reason }) => ({
      ...{ id: `delivery-${id}`, tone: 'fault' as const, kind: 'delivery', folder, at, reason },
      what: excerpt(text),
      action: buttonLink(messagePath(id), 'Why, and retry'),
    })),
    ...found.budgets.map(({ by, name, cap, spent, status }) => ({
      ...{
        id: `budget-${by}-${name}`,
        tone: status === 'WARN' ? ('warn' as const) : ('fault' as const),
        kind: 'budget',
      },
      ...(by === 'folder' ? { folder: name } : {}),
      what: `${by === 'folder' ? '' : `${visibleText(name)}: `}${money(spent)} of ${money(cap)} spent today`,
      action: by === 'folder' ? buttonLink(folderPath(name, 'budget'), 'Budget') : buttonLink('/dash/costs', 'Costs'),
    })),
    ...(await deniedItems(view, found.denied_hosts)),
    ...found.postponed_turns.map(({ id, folder, at, text, reason }) => ({
      ...{ id: `postponed-${id}`, tone: 'fault' as const, kind: 'cannot run', folder, at, reason },
      what: visibleText(text),
      action: buttonLink(`/dash/turns/${encodeURIComponent(id)}`, 'Turn'),
    })),
    ...found.paused_folders.map(({ folder, at, text }) => ({
      ...{ id: `paused-${folder}`, tone: 'fault' as const, kind: 'paused', folder, at },
      what: text,
      action: buttonLink(`/dash/turns?folder=${encodeURIComponent(folder ?? '')}&outcome=failed`, 'Failed turns'),
    })),
    ...found.failed_tasks.map(({ id, task_id, folder, at, text, reason }) => ({
      ...{ id: `run-${id}`, tone: 'fault' as const, kind: 'failed task', folder, at, reason },
      what: excerpt(text),
      action: buttonLink(`/dash/tasks?task=${encodeURIComponent(task_id)}`, 'Task'),
    })),
    ...found.late_tasks.map(({ id, folder, at, text }) => ({
      ...{ id: `late-${id}`, tone: 'warn' as const, kind: 'late task', folder, at },
      what: excerpt(text),
      action: buttonLink(`/dash/tasks?task=${encodeURIComponent(id)}`, 'Task'),
    })),
    ...found.adapters.map(({ id, at, reason }) => ({
      ...{ id: `adapter-${id}`, tone: 'fault' as const, kind: 'adapter', at, reason },
      what: id,
      action: buttonLink('/dash/channels', 'Channels'),
    })),
  ]
}

async function deniedItems(view: PageView, hosts: Attention['denied_hosts']): Promise<AttentionItem[]> {
  const { allow } = networkRulesResource.verbs
  const may = await view.mayEach(
    allow,
    hosts.map(({ folder, host: target }) => ({ folder, target })),
  )
  return hosts.map(({ folder, host, count, at, unallowable }, index) => ({
    ...{ id: `host-${folder}-${host}`, tone: 'warn' as const, kind: 'denied host', folder, at, reason: unallowable },
    what: html`<code>${visibleText(host)}</code> ${count === 1 ? 'once' : `${count} times`}`,
    action:
      unallowable === undefined && may[index]
        ? view.button({
            action: 'allow',
            text: 'Allow',
            label: `Allow ${host} for ${folder}`,
            fixed: { folder, target: host },
          })
        : buttonLink(folderPath(folder, 'network'), 'Network'),
  }))
}

function renderDay(hours: readonly HourActivity[]): Html {
  const sum = (value: (hour: HourActivity) => number): number => hours.reduce((all, hour) => all + value(hour), 0)
  const slowest = Math.max(...hours.map(({ p95_ms = 0 }) => p95_ms))
  const cards = [
    card('Messages', groupDigits(sum(({ messages }) => messages)), hours, ({ messages }) => messages),
    card('Turns', groupDigits(sum(({ turns }) => turns)), hours, ({ turns }) => turns),
    card('Cost', money(sum(({ cost_cents }) => cost_cents)), hours, ({ cost_cents }) => cost_cents, money),
    card('Time of turns, p50', typicalTime(hours), hours, ({ p50_ms = 0 }) => p50_ms, durationText),
    card(
      'Time of turns, p95',
      slowest === 0 ? '–' : `up to ${durationText(slowest)}`,
      hours,
      ({ p95_ms = 0 }) => p95_ms,
      durationText,
    ),
  ]
  return html`<div class="cards">${cards}</div>`
}

/** Of the last hour with a turn. */
function typicalTime(hours: readonly HourActivity[]): string {
  const last = hours.findLast(({ p50_ms }) => p50_ms !== undefined)?.p50_ms
  return last === undefined ? '–' : durationText(last)
}

function card(
  title: string,
  figure: string,
  hours: readonly HourActivity[],
  valueAt: (hour: HourActivity) => number,
  format?: (value: number) => string,
): Html {
  const id = `chart-${title.toLowerCase().replace(/[^a-z0-9]+/g, '-')}`
  const points = hours.map((hour) => ({ label: `${hour.hour.slice(11, 16)} UTC`, value: valueAt(hour) }))
  const chart = renderChart({ id, title, points, ...(format ? { format } : {}) })
  return html`<div class="card"><p class="figure">${figure}</p>${chart}</div>`
}

/** When it started, and what it has cost so far. */
function liveFigures({ started_at, cost_cents }: LiveTurn, nowMs: number): Html {
  const cost = cost_cents === 0 ? EMPTY_HTML : html`, ${money(cost_cents)} so far`
  return html`${timeOf(started_at, nowMs)}${cost}`
}

type LiveTurn = Awaited<ReturnType<typeof turnsResource.verbs.running.run>>['turns'][number]

function renderLive(view: PageView, turns: readonly LiveTurn[]): Html {
  const downloads = view.downloads<LiveTurn>({
    id: 'live-turns',
    rows: turns,
    columns: [
      { label: 'Turn', cell: ({ id }) => id },
      { label: 'Folder', cell: ({ folder }) => folder },
      { label: 'Text', cell: ({ text }) => text },
      { label: 'Step', cell: ({ step }) => stepText(step, view.nowMs) },
      { label: 'Started', cell: ({ started_at }) => started_at },
      moneyColumn('Cost', ({ cost_cents }) => cost_cents),
    ],
  })
  if (turns.length === 0)
    return emptyState({
      text: 'No agent is running.',
      next: html`<p>Send a message to a folder, and its agent starts.</p>`,
      command: view.inTerminal(`svc send ${view.host.instance} main 'hello'`),
    })
  const items = turns.map(
    (turn) =>
      html`<li id="live-${encodeURIComponent(turn.id)}">${turnBadge(turn)}<span class="what">${folderLink(turn.folder)} ${link(turnPath(turn.id), excerpt(turn.text) || turn.id)}<br>${stepText(turn.step, view.nowMs)}</span><span class="muted">${liveFigures(turn, view.nowMs)}</span>${stopButton(view, turn)}</li>`,
  )
  return html`<ul class="list">${items}</ul>${downloads}`
}
