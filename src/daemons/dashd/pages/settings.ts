// /dash/settings: every setting with the value in force and where it comes from, and a form for those in the store.
import { hash } from 'node:crypto'
import { z } from 'zod'
import { MODEL_SETTINGS, SEALED } from '../../../core/secrets/model-keys.ts'
import { isSecretSetting } from '../../../core/secrets/secret-settings.ts'
import { refuse } from '../../../lib/refusal.ts'
import { BooleanSetting, readSettings } from '../../../lib/settings.ts'
import { settingsResource } from '../../../resources/settings.ts'
import { renderFilters } from '../../../web/dash/filter-bar.ts'
import type { FormField } from '../../../web/dash/form.ts'
import { badge, link, notice, section } from '../../../web/dash/parts.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import type { FormFields } from '../../http/form-request.ts'
import { findSetting, parseFixedSettings } from '../../setting-rules.ts'
import { DAEMON_NAMES, INSTANCE_SETTINGS } from '../../settings.ts'
import { listSettingsInForce, type SettingInForce } from '../../settings-in-force.ts'
import { definePage, type PageView } from '../page.ts'

const PATH = '/dash/settings'

export const settingsPage = definePage({
  path: PATH,
  title: 'Settings',
  nav: 'system',
  isShown: ({ isOperator }) => isOperator,
  actions: { save: { run: saveSettings } },
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
      table: settingsTable(rows, view),
      bottom: await renderChange(view, rows),
    }
  },
})

/** The model has a page of its own, which also tests it. */
function isEditable({ key, change }: SettingInForce, fixed: readonly string[]): boolean {
  return change !== 'env' && !fixed.includes(key) && !MODEL_SETTINGS.some((name) => name === key)
}

interface StoredValues {
  /** By key; secrets as the word that stands for them. */
  readonly values: ReadonlyMap<string, string>
  /** Changes with every change of them. */
  readonly mark: string
}

async function readStored(view: PageView): Promise<StoredValues> {
  const { settings } = await view.call(settingsResource.verbs.list, {})
  const values = new Map(settings.map(({ key, value }) => [key, value]))
  return { values, mark: hash('sha256', JSON.stringify(settings), 'hex') }
}

async function renderChange(view: PageView, rows: readonly SettingInForce[]): Promise<Html> {
  const { daemon, host } = view
  const { SETTINGS_FIXED } = readSettings({ SETTINGS_FIXED: INSTANCE_SETTINGS.SETTINGS_FIXED }, daemon.sources)
  const { values, mark } = await readStored(view)
  const fixed = parseFixedSettings(SETTINGS_FIXED)
  const fields = rows.filter((row) => isEditable(row, fixed)).flatMap((row) => fieldsOf(row, values.get(row.key)))
  const rest = html`<p class="hint">The model is on its own page: ${link('/dash/model', 'Model')}. Settings that are not here are set in <code>.env</code>. </p>${view.inTerminal(`svc settings ${host.instance}`)}`
  if (fields.length === 0) return rest
  return section(
    'change',
    'Change settings',
    html`<p>A value here takes precedence over <code>.env</code>. Empty a field to use the value of <code>.env</code>, the environment or the default.</p>${view.form({ action: 'save', fields, submit: 'Save', fixed: { mark } })}${rest}`,
  )
}

const EFFECTS = { live: '', restart: ' Takes effect after a restart of svc.', env: '' } as const

function fieldsOf(row: SettingInForce, stored: string | undefined): FormField[] {
  const { key, about, change, value, initial, isSecret } = row
  const hint = `${about[0]?.toUpperCase()}${about.slice(1)}.${EFFECTS[change]}`
  if (stored === SEALED || isSecretName(key))
    return [
      {
        name: key,
        label: key,
        kind: 'password',
        hint: `${hint} ${stored === SEALED ? 'Empty keeps it.' : 'Stored encrypted.'}`,
      },
      ...(stored === SEALED ? [{ name: `${REMOVE}${key}`, label: `Remove ${key}`, kind: 'checkbox' } as const] : []),
    ]
  const shown = isSecret ? undefined : (value ?? initial)
  const options = optionsOf(key)
  if (options) {
    const unset = `not set here${stored === undefined && shown !== undefined ? `: ${shown}` : ''}`
    return [{ name: key, label: key, kind: 'select', value: stored ?? '', options: [['', unset], ...options], hint }]
  }
  const placeholder = stored === undefined ? shown : initial
  return [{ name: key, label: key, value: stored ?? '', hint, ...(placeholder === undefined ? {} : { placeholder }) }]
}

const REMOVE = 'remove '

/** Values to choose from; undefined for a text. */
function optionsOf(key: string): readonly string[] | undefined {
  const schema = findSetting(key)?.schema
  if (schema === BooleanSetting) return ['true', 'false']
  return schema instanceof z.ZodEnum ? schema.options.map(String) : undefined
}

/** Secret whatever its value is. */
function isSecretName(key: string): boolean {
  return isSecretSetting(key, 'x')
}

async function saveSettings(view: PageView, fields: FormFields) {
  const { values, mark } = await readStored(view)
  if (fields.get('mark') !== mark)
    refuse('conflict', 'the settings were changed meanwhile', 'reload the page, check them, and save again')
  const changes: { key: string; value?: string }[] = []
  for (const { key } of listSettingsInForce(view.daemon.sources, await view.daemon.currentSources())) {
    const [typed, stored] = [fields.get(key)?.trim(), values.get(key)]
    if (fields.get(`${REMOVE}${key}`) === 'true') changes.push({ key })
    else if (typed === undefined || typed === (stored === SEALED ? '' : (stored ?? ''))) continue
    else changes.push(typed === '' ? { key } : { key, value: typed })
  }
  if (changes.length === 0) return { done: 'Nothing was changed.' }
  const { changed } = await view.call(settingsResource.verbs.save, { changes })
  const waiting = changed.filter((key) => findSetting(key)?.change !== 'live')
  const restart = waiting.length === 0 ? '' : ` Restart svc to use ${waiting.join(', ')}.`
  return { done: `Saved: ${changed.join(', ')}.${restart}` }
}

/** A process with some of the daemons may have only their settings, as in a container. */
function processNote(view: PageView): Html {
  const {
    daemon: { peers },
    host,
  } = view
  const others = DAEMON_NAMES.filter((name) => !peers.isLocal(name))
  if (others.length === 0) return EMPTY_HTML
  return notice(
    'warn',
    html`This process does not run ${others.join(', ')}. The page shows the settings that this process has; those of other processes may differ. ${view.inTerminal(`svc settings ${host.instance}`)}`,
  )
}

function restartNote(all: readonly SettingInForce[]): Html {
  const waiting = all.filter(({ needsRestart }) => needsRestart).map(({ key }) => key)
  if (waiting.length === 0) return EMPTY_HTML
  return notice('warn', `Changed since the start, and used after a restart of svc: ${waiting.join(', ')}.`)
}

function settingsTable(rows: readonly SettingInForce[], view: PageView) {
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
    empty: { text: 'No setting matches.', command: view.inTerminal(`svc settings ${view.host.instance}`) },
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
