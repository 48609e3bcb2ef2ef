// A folder at a glance, and the settings that its administrators may change.

import { PICTURE_BYTES_MAX, STARTERS_MAX } from '../../../core/groups/group-config.ts'
import { GROUP_KEYS, type GroupKey, settingOf } from '../../../core/groups/group-settings.ts'
import { refuse } from '../../../lib/refusal.ts'
import { shellQuote } from '../../../lib/text/shell-quote.ts'
import { groupsResource } from '../../../resources/groups.ts'
import { routeTokensResource } from '../../../resources/route-tokens.ts'
import { avatarHtml } from '../../../web/avatar.ts'
import { renderDetails } from '../../../web/dash/detail-pane.ts'
import type { FormField } from '../../../web/dash/form.ts'
import { link, money, section, timeOf, visibleText } from '../../../web/dash/parts.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { tintOf } from '../../../web/text/agent-profile.ts'
import { folderStateBadge, messageCountText } from '../folder-table.ts'
import { folderPath, type PageView } from '../page.ts'
import { picturePath } from '../pictures.ts'
import { defineFolderView } from './view.ts'

const groups = groupsResource.verbs
const PICTURE_MAX = `${PICTURE_BYTES_MAX / 1024} KiB`
/** Of an upload: a photo of a phone is refused beside the field, with what was typed. */
const PHOTO_BYTES_MAX = 16 * 1024 * 1024

type GroupRow = Awaited<ReturnType<typeof groups.show.run>>

/** The model and the programs are set in the view of the agent. */
const SETTINGS: Readonly<Partial<Record<GroupKey, Pick<FormField, 'label' | 'hint' | 'options' | 'kind' | 'rows'>>>> = {
  name: { label: 'Name', hint: 'Shown to people. While it is that of the folder, PERSONA.md may name the agent.' },
  greeting: { label: 'Greeting', hint: 'Shown before the first message.', kind: 'multiline', rows: 3 },
  starters: {
    label: 'Starters',
    hint: `Messages that people can start with, each in a line; at most ${STARTERS_MAX}.`,
    kind: 'multiline',
    rows: STARTERS_MAX,
  },
  picture: {
    label: 'Picture',
    hint: 'Path of an image in the workspace, such as me.png; empty for the initials.',
  },
  colour: { label: 'Colour', hint: 'Of the initials and of the chat, such as #4f5bd5; empty for the default.' },
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
        // Browsers send line breaks as CR LF.
        const to = fields.get('to')?.replaceAll('\r\n', '\n').trim() || undefined
        await view.call(groups.set, { folder: view.params.folder ?? '', key, to })
        return { done: `${SETTINGS[key]?.label ?? key} saved.` }
      },
    },
    upload_picture: {
      maxBytes: PHOTO_BYTES_MAX,
      run: async (view, _, files) => {
        const { bytes } = files.get('file') ?? refuse('invalid', 'choose a file')
        if (bytes.byteLength > PICTURE_BYTES_MAX) refuse('invalid', `content is larger than ${PICTURE_MAX}`)
        const content = Buffer.from(bytes).toString('base64')
        const { picture } = await view.call(groups.upload_picture, { folder: view.params.folder ?? '', content })
        return { done: `Picture saved as ${picture} in the workspace.` }
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
    const top = html`<p class="who">${await who(view, folder)}</p>`
    return { top, main: section('summary', 'Today', details), bottom: await settings(view, group), isLive: true }
  },
})

async function who(view: PageView, folder: string): Promise<Html> {
  const { name, picture, colour, greeting = '' } = await view.call(groups.identity, { folder })
  const avatar = { name, tint: colour ?? tintOf(folder), picture: picture && picturePath(folder) }
  return html`${avatarHtml(avatar)} <span><strong>${visibleText(name)}</strong> ${visibleText(greeting)}</span>`
}

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
      const shown = SETTINGS[key] ?? { label: key }
      const field = {
        ...(shown.options === undefined ? {} : ({ kind: 'select' } as const)),
        ...shown,
        name: 'to',
        inputNames: [key, `config.${key}`],
        value: settingOf(group, key) ?? '',
        isRequired: key === 'name',
      }
      const form = view.form({ action: 'set', id: `set-${key}`, fields: [field], submit: 'Save', fixed: { key } })
      return key === 'picture' ? html`${form}${uploadForm(view)}` : form
    })
  if (forms.length === 0) return EMPTY_HTML
  const command = view.inTerminal(`svc group ${view.host.instance} set ${folder} name ${shellQuote(group.name)}`)
  return section('settings', 'Settings', html`${forms}${command}`)
}

function uploadForm(view: PageView): Html {
  const field: FormField = {
    ...{ name: 'file', label: 'New picture', kind: 'file', inputNames: ['content'] },
    hint: `PNG, JPEG, GIF, WebP or AVIF of at most ${PICTURE_MAX}.`,
  }
  return view.form({ action: 'upload_picture', fields: [field], submit: 'Upload' })
}
