// Costs of the last days: by day, folder, model and person, and budgets that are nearly spent.
import type { Spend } from '../../../core/turns/spend.ts'
import { costLogResource } from '../../../resources/cost-log.ts'
import { renderFilters } from '../../../web/dash/filter-bar.ts'
import {
  badge,
  buttonLink,
  link,
  money,
  renderMeter,
  renderTabs,
  section,
  visibleText,
} from '../../../web/dash/parts.ts'
import { countColumn, defineTable, moneyColumn } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { dayCostChart } from '../cost-parts.ts'
import { definePage, folderPath, type PageContent, type PageView } from '../page.ts'
import { folderLink } from '../turn-parts.ts'
import { explainWrongFilter } from '../wrong-filters.ts'
import { personPath } from './people.ts'

const { spend: spendVerb, near_cap } = costLogResource.verbs

const GROUPS = { folder: 'Folders', model: 'Models', user_sub: 'People', day: 'Days' } as const
type Group = keyof typeof GROUPS
const GROUP_NAMES = ['folder', 'model', 'user_sub', 'day'] as const
const NAMES: Readonly<Record<Group, string>> = { folder: 'Folder', model: 'Model', user_sub: 'Person', day: 'Day' }
const DAYS_SHOWN = '30'
const DAYS = ['7', '14', '30', '90', '365']
/** Rows of the table; the download has more. */
const SHOWN_MIN = 100
const DAYS_MAX = 366

export const costsPage = definePage({
  path: '/dash/costs',
  title: 'Costs',
  nav: 'work',
  show: async (view) => {
    const by = GROUP_NAMES.find((one) => one === view.query.by) ?? 'folder'
    return {
      title: 'Costs',
      top: html`${filters(view, by)}${renderTabs('Costs by', tabs(view, by))}`,
      ...(await explainWrongFilter(() => readCosts(view, by))),
      isLive: true,
    }
  },
})

async function readCosts(view: PageView, by: Group): Promise<Omit<PageContent, 'title'>> {
  const days = Number(view.query.days || DAYS_SHOWN)
  const limit = Math.max(view.limit, SHOWN_MIN)
  const filter = { days, ...(view.query.folder ? { folder: view.query.folder } : {}) }
  const { spend: ofDays, since } = await view.call(spendVerb, { ...filter, by: 'day', limit: DAYS_MAX })
  const { spend } = by === 'day' ? { spend: ofDays.toReversed() } : await view.call(spendVerb, { ...filter, by, limit })
  const isCut = by !== 'day' && spend.length === limit
  const { budgets } = await view.call(near_cap, {})
  const total = ofDays.reduce((sum, { cents }) => sum + cents, 0)
  return {
    main: html`<div class="cards"><div class="card wide"><p class="figure">${money(total)}</p>${dayCostChart(
      new Map(ofDays.map(({ name, cents }) => [name, cents])),
      since,
      days,
    )}</div></div>${renderBudgets(view, budgets)}`,
    table: spendTable(view, by, spend),
    bottom: isCut
      ? html`<p class="hint">The ${limit} with the highest cost; the download has up to 1000.</p>`
      : EMPTY_HTML,
  }
}

function filters({ path, query }: PageView, by: Group): Html {
  return renderFilters({
    id: 'cost-filters',
    path,
    query,
    fixed: { by },
    fields: [
      { name: 'folder', label: 'Folder' },
      { name: 'days', label: 'Days', kind: 'select', options: DAYS, value: DAYS_SHOWN },
    ],
  })
}

function tabs(view: PageView, by: Group) {
  return GROUP_NAMES.map((name) => ({ href: view.url({ by: name }), label: GROUPS[name], isCurrent: name === by }))
}

type NearBudgets = Awaited<ReturnType<typeof near_cap.run>>['budgets']

function renderBudgets(view: PageView, budgets: NearBudgets): Html {
  const downloads = view.downloads<NearBudgets[number]>({
    id: 'near-budgets',
    rows: budgets,
    columns: [
      { label: 'By', cell: ({ by }) => by },
      { label: 'Name', cell: ({ name }) => name },
      moneyColumn('Spent', ({ spent }) => spent),
      moneyColumn('Cap', ({ cap }) => cap),
      { label: 'Status', cell: ({ status }) => status },
    ],
  })
  if (budgets.length === 0) return EMPTY_HTML
  const items = budgets.map(({ by, name, cap, spent, status }) => {
    const who = by === 'folder' ? folderLink(name) : html`${visibleText(name)}`
    const action = by === 'folder' ? buttonLink(folderPath(name, 'budget'), 'Budget') : EMPTY_HTML
    return html`<li>${badge(status === 'WARN' ? 'nearly spent' : 'spent', status === 'WARN' ? 'warn' : 'fault')}<span class="what">${who} ${money(spent)} of ${money(cap)} ${renderMeter(`Budget of ${name}`, spent, cap)}</span>${action}</li>`
  })
  return section('budgets', "Today's budgets near their cap", html`<ul class="list">${items}</ul>${downloads}`)
}

function spendTable(view: PageView, by: Group, spend: readonly Spend[]) {
  const nameCell = ({ name }: Spend): Html => {
    if (name === '') return html`<span class="muted">no person</span>`
    if (by === 'user_sub' && view.isOperator) return link(personPath(name), visibleText(name))
    return by === 'folder' ? folderLink(name) : html`${visibleText(name)}`
  }
  return defineTable<Spend>({
    id: 'spend',
    caption: `Costs by ${NAMES[by].toLowerCase()}`,
    rows: spend,
    rowId: ({ name }) => name,
    columns: [
      { label: NAMES[by], cell: nameCell, value: ({ name }) => name },
      moneyColumn('Cost', ({ cents }) => cents),
      countColumn('Turns', ({ turns }) => turns),
      countColumn('Input tokens', ({ input_tokens }) => input_tokens),
      countColumn('Output tokens', ({ output_tokens }) => output_tokens),
    ],
    empty: {
      text: 'No costs were reported. The built-in demo costs nothing; connect a model to see its costs here.',
      command: view.inTerminal(`svc model ${view.host.instance}`),
    },
  })
}
