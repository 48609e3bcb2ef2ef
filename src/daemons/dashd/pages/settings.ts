// /dash/settings: every setting with the value in force and where it comes from. Settings are changed in .env, not here.
import { renderFilters } from '../../../web/dash/filter-bar.ts'
import { badge, copyText, notice } from '../../../web/dash/parts.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { DAEMON_NAMES } from '../../settings.ts'
import { listSettingsInForce, type SettingInForce } from '../../settings-in-force.ts'
import { definePage, type PageView } from '../page.ts'

const PATH = '/dash/settings'

export const settingsPage = definePage({
  path: PATH,
  title: 'Settings',
  nav: 'system',
  isShown: ({ isOperator }) => isOperator,
  show: async (view) => {
    const { daemon, query } = view
    const all = listSettingsInForce(daemon.sources, await daemon.currentSources())
    const [words, isOnlySet] = [(query.q ?? '').toLowerCase(), query.only === 'set']
    const rows = all.filter(
      ({ key, about, isDefault }) =>
        (!isOnlySet || !isDefault) && (words === '' || `${key} ${about}`.toLowerCase().includes(words)),
    )
    const filters = renderFilters({
      id: 'filter',
      path: PATH,
      query,
      fields: [
        { name: 'q', label: 'Name or purpose', kind: 'search' },
        {
          name: 'only',
          label: 'Which',
          kind: 'select',
          options: [
            ['', 'all settings'],
            ['set', 'only those that are set'],
          ],
        },
      ],
    })
    return {
      title: 'Settings',
      top: html`${processNote(view)}${filters}`,
      main: restartNote(all),
      table: settingsTable(rows, view.host.instance),
      bottom: html`<p class="hint">To change a setting, edit <code>.env</code> of the instance and restart svc. Models need no restart: ${copyText(`svc model ${view.host.instance}`)}</p>`,
    }
  },
})

/** A process with some of the daemons may have only their settings, as in a container. */
function processNote({ daemon: { peers }, host }: PageView): Html {
  const others = DAEMON_NAMES.filter((name) => !peers.isLocal(name))
  if (others.length === 0) return EMPTY_HTML
  return notice(
    'warn',
    html`This process does not run ${others.join(', ')}. The page shows the settings that this process has; those of other processes may differ. On the host: ${copyText(`svc settings ${host.instance}`)}`,
  )
}

function restartNote(all: readonly SettingInForce[]): Html {
  const waiting = all.filter(({ needsRestart }) => needsRestart).map(({ key }) => key)
  if (waiting.length === 0) return EMPTY_HTML
  return notice('warn', `Changed since the start, and used after a restart of svc: ${waiting.join(', ')}.`)
}

function settingsTable(rows: readonly SettingInForce[], instance: string) {
  return defineTable<SettingInForce>({
    id: 'settings',
    caption: 'Settings in force',
    rows,
    rowId: ({ key }) => key,
    columns: [
      { label: 'Setting', cell: ({ key }) => html`<code class="nowrap">${key}</code>`, value: ({ key }) => key },
      { label: 'Value', cell: valueCell, value: ({ isSecret, value }) => (isSecret ? '(secret)' : value) },
      { label: 'Origin', cell: ({ origin }) => origin },
      { label: 'Default', cell: ({ initial }) => initial },
      { label: 'Purpose', cell: ({ about }) => about },
    ],
    empty: { text: 'No setting matches.', command: `svc settings ${instance}` },
  })
}

function valueCell({ value, isSecret, fault, needsRestart, isDefault }: SettingInForce): Html {
  const shown = isSecret
    ? badge('secret, set', 'ok')
    : value === undefined
      ? EMPTY_HTML
      : isDefault
        ? html`<span class="muted">${value}</span>`
        : html`<strong>${value}</strong>`
  const wrong = fault === undefined ? EMPTY_HTML : html` ${badge('not valid', 'fault')} ${fault}`
  return html`${shown}${wrong}${needsRestart ? html` ${badge('restart', 'warn')}` : EMPTY_HTML}`
}
