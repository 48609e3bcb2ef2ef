// A folder at a glance, and the settings that its administrators may change.

import { GROUP_KEYS, type GroupKey, settingOf } from '../../../core/groups/group-settings.ts'
import { refuse } from '../../../lib/refusal.ts'
import { shellQuote } from '../../../lib/text/shell-quote.ts'
import { groupsResource } from '../../../resources/groups.ts'
import { routeTokensResource } from '../../../resources/route-tokens.ts'
import { renderDetails } from '../../../web/dash/detail-pane.ts'
import type { FormField } from '../../../web/dash/form.ts'
import { link, money, section, timeOf } from '../../../web/dash/parts.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { folderStateBadge, messageCountText } from '../folder-table.ts'
import { folderPath, type PageView } from '../page.ts'
import { defineFolderView } from './view.ts'

const groups = groupsResource.verbs
type GroupRow = Awaited<ReturnType<typeof groups.show.run>>

/** The model and the programs are set in the view of the agent. */
const SETTINGS: Readonly<Partial<Record<GroupKey, Pick<FormField, 'label' | 'hint' | 'options'>>>> = {
  name: { label: 'Name', hint: 'Shown to people.' },
  open: { label: 'Open', hint: "Whether siblings see each other's ambient messages.", options: ['true', 'false'] },
  tools: {
    label: 'Tools',
    hint: 'Names of the tools that runs are offered, with "*" for any characters; empty for all.',
  },
  work_paths: {
    label: 'Writable directories',
    hint: 'Directories of the workspace that webhooks and members may have the agent write, separated by commas; empty for data. Write [] for none.',
  },
  vision: {
    label: 'Images',
    hint: 'Whether the model gets images that visitors send (runtime openai); empty for the default.',
    options: ['auto', 'true', 'false'],
  },
  observe_window_messages: { label: 'Observed messages', hint: 'How many a turn sees; empty for the default.' },
  observe_window_chars: { label: 'Observed characters', hint: 'How many of them a turn sees; empty for the default.' },
  max_children: { label: 'Children', hint: 'How many folders its agent may create below; empty for the default.' },
}

export const overviewView = defineFolderView({
  name: 'overview',
  title: 'Overview',
  actions: {
    set: {
      run: async (view, fields) => {
        const key = readKey(fields.get('key'))
        const to = fields.get('to')?.trim() || undefined
        await view.call(groups.set, { folder: view.params.folder ?? '', key, to })
        return { done: `${SETTINGS[key]?.label ?? key} saved.` }
      },
    },
  },
  show: async (view, folder) => {
    const group = await view.call(groups.show, { folder })
    const { folders } = await view.call(groups.activity, { folder })
    const [activity] = folders
    const details = renderDetails({
      Name: group.name,
      State: activity && folderStateBadge(activity.state),
      'Messages today': activity && messageCountText(activity.messages_today),
      'Cost today': activity && costLink(folder, activity.cost_today_cents, group.cost_cap_cents_per_day),
      'Last activity': timeOf(activity?.last_at, view.nowMs),
      Product: group.product,
      Created: timeOf(group.added_at, view.nowMs),
      'Next steps': await nextSteps(view, folder),
    })
    return { main: section('summary', 'Today', details), bottom: await settings(view, group), isLive: true }
  },
})

function readKey(text: string | undefined): GroupKey {
  return GROUP_KEYS.find((key) => key === text && SETTINGS[key] !== undefined) ?? refuse('invalid', 'unknown setting')
}

function costLink(folder: string, spent: number, cap: number | undefined): Html {
  return link(folderPath(folder, 'budget'), cap === undefined ? money(spent) : `${money(spent)} of ${money(cap)}`)
}

async function nextSteps(view: PageView, folder: string): Promise<Html> {
  const mayChat = await view.may(routeTokensResource.verbs.open_person_chat, { folder })
  const maySetBudget = await view.may(groups.set_budget, { folder, daily: 0 })
  const steps = [
    ...(mayChat ? ([['chat', 'Chat with the agent']] as const) : []),
    ['agent', 'Edit its persona'],
    ...(maySetBudget ? ([['budget', 'Set a budget']] as const) : []),
  ] as const
  return html`${steps.map(([name, text], at) => html`${at === 0 ? '' : ' · '}${link(folderPath(folder, name), text)}`)}`
}

async function settings(view: PageView, group: GroupRow): Promise<Html> {
  const { folder } = group
  const keys = GROUP_KEYS.filter((key) => SETTINGS[key] !== undefined)
  const may = await view.mayEach(
    groups.set,
    keys.map((key) => ({ folder, key })),
  )
  const forms = keys
    .filter((_, at) => may[at])
    .map((key) => {
      const { label = key, hint, options } = SETTINGS[key] ?? {}
      const choice = options === undefined ? {} : ({ kind: 'select', options } as const)
      const field = {
        ...choice,
        name: 'to',
        inputNames: [key, `config.${key}`],
        label,
        hint,
        value: settingOf(group, key) ?? '',
        isRequired: key === 'name',
      }
      return view.form({ action: 'set', id: `set-${key}`, fields: [field], submit: 'Save', fixed: { key } })
    })
  if (forms.length === 0) return EMPTY_HTML
  const command = view.inTerminal(`svc group ${view.host.instance} set ${folder} name ${shellQuote(group.name)}`)
  return section('settings', 'Settings', html`${forms}${command}`)
}
