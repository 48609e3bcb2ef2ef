// Spending of a folder: today against its cap, the last weeks as a chart, and the form for the cap.
import { refuse } from '../../../lib/refusal.ts'
import { costLogResource } from '../../../resources/cost-log.ts'
import { groupsResource } from '../../../resources/groups.ts'
import { renderChart } from '../../../web/dash/chart.ts'
import { renderDetails } from '../../../web/dash/detail-pane.ts'
import { badge, money, renderMeter, section, type Tone } from '../../../web/dash/parts.ts'
import { type Html, html } from '../../../web/html.ts'
import { uncountedNotices } from '../cost-parts.ts'
import type { PageView } from '../page.ts'
import { defineFolderView } from './view.ts'

const groups = groupsResource.verbs
const DAYS = 30
const DAY_MS = 24 * 3_600_000
const TONES: Readonly<Record<string, Tone>> = { ok: 'ok', WARN: 'warn', EXHAUSTED: 'fault' }
const STATUS_TEXTS: Readonly<Record<string, string>> = {
  ok: 'within the cap',
  WARN: 'nearly spent',
  EXHAUSTED: 'spent',
}

export const budgetView = defineFolderView({
  name: 'budget',
  title: 'Budget',
  actions: {
    set_budget: {
      run: async (view, fields) => {
        const daily = readCents(fields.get('dollars') ?? '')
        await view.call(groups.set_budget, { folder: view.params.folder ?? '', daily })
        return { done: daily === 0 ? 'The folder has no cap.' : `The folder may spend ${money(daily)} a day.` }
      },
    },
  },
  show: async (view, folder) => {
    const { cap, spent, status, above = [] } = await view.call(groups.budget, { folder })
    const isCapped = cap !== undefined || above.length > 0
    const uncounted = isCapped ? await uncountedNotices(view, folder) : []
    const mayChange = await view.may(groups.set_budget, { folder, daily: 0 })
    const { spend } = await view.call(costLogResource.verbs.spend, { by: 'day', days: DAYS, folder })
    const byDay = new Map(spend.map(({ name, cents }) => [name, cents]))
    const points = lastDays(view.nowMs).map((label) => ({ label, value: byDay.get(label) ?? 0 }))
    const today = renderDetails({
      'Spent today, with the folders below': money(spent),
      'Cap per day': cap === undefined ? 'none' : money(cap),
      'Caps above':
        above.length === 0 ? undefined : above.map((each) => `${each.folder}: ${STATUS_TEXTS[each.status]}`).join(', '),
      Status: status === undefined ? undefined : badge(STATUS_TEXTS[status] ?? status, TONES[status] ?? 'idle'),
      Share: cap === undefined ? undefined : renderMeter('Share of the cap', spent, cap),
    })
    const chart = renderChart({
      id: 'spend-chart',
      title: `Cost per day, last ${DAYS} days`,
      points,
      format: money,
      limit: cap,
      isWide: true,
    })
    return {
      main: html`${uncounted}${section('today', 'Today', today)}${section('spend', 'Spending', chart)}`,
      bottom: mayChange ? capForm(view, folder, cap) : CAP_NOTE,
      isLive: true,
    }
  },
})

/** The cap limits the administrators of the folder, too. */
const CAP_NOTE = html`<p class="muted">The cap is set by operators and by administrators of the folder above.</p>`

function lastDays(nowMs: number): string[] {
  return Array.from({ length: DAYS }, (_, at) => new Date(nowMs - (DAYS - 1 - at) * DAY_MS).toISOString().slice(0, 10))
}

function capForm(view: PageView, folder: string, cap: number | undefined): Html {
  const fields = [
    {
      name: 'dollars',
      label: 'Dollars per day',
      isRequired: true,
      value: cap === undefined ? '' : (cap / 100).toFixed(2),
      placeholder: '5.00',
      hint: '0 removes the cap. It also limits the folders below. When more is spent, no turn starts until 00:00 UTC.',
    },
  ]
  const typed = `svc budget ${view.host.instance} set folder ${folder} --daily ${cap ?? 500}`
  const command = view.inTerminal(typed, 'In a terminal, in cents')
  const form = view.form({ action: 'set_budget', fields, submit: 'Set cap' })
  return section('cap', 'Daily cap', html`${form}${command}`)
}

function readCents(text: string): number {
  const typed = text.trim().replace(/^\$/, '')
  if (!/^\d{1,9}(\.\d{1,2})?$/.test(typed)) refuse('invalid', 'dollars must be an amount such as 5 or 2.50')
  return Math.round(Number(typed) * 100)
}
