// Chats and people that ask for a folder: the queue in its order, all requests, and the gates. For operators.
import type { OnboardingRow } from '../../../core/people/onboarding.ts'
import { CHAT_ROLES } from '../../../core/people/onboarding-admission.ts'
import type { OnboardingGateRow } from '../../../core/people/onboarding-gates.ts'
import { onboardingResource } from '../../../resources/onboarding.ts'
import { onboardingGatesResource } from '../../../resources/onboarding-gates.ts'
import { badge, buttonLink, renderTabs, section, timeOf } from '../../../web/dash/parts.ts'
import { type DataTable, defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import type { FormFields } from '../../http/form-request.ts'
import { definePage, type PageContent, type PageView } from '../page.ts'

const { list, queue, update, find_pairing } = onboardingResource.verbs
const gates = onboardingGatesResource.verbs

const VIEWS = { queue: 'Waiting', all: 'All requests', gates: 'Gates' } as const
type AdmissionView = keyof typeof VIEWS

export const admissionsPage = definePage({
  path: '/dash/admissions',
  title: 'Admissions',
  nav: 'people',
  isShown: ({ isOperator }) => isOperator,
  actions: {
    approve: {
      run: async (view, fields) => {
        const { jid, folder = '' } = await decide(view, fields, 'approve')
        return { done: `${jid} has the folder ${folder} now.`, to: view.url({ jid: undefined }) }
      },
    },
    find_pairing: {
      run: async (view, fields) => {
        const { jid } = await view.call(find_pairing, { code: fields.get('code') ?? '' })
        return { done: `${jid} has this code.`, to: view.url({ jid }) }
      },
    },
    refuse: {
      run: async (view, fields) => ({ done: `${(await decide(view, fields, 'refuse')).jid} was refused.` }),
      confirm: ({ jid = '' }) => `Refuse ${jid}? The chat is told once and gets no further answers.`,
    },
    reprompt: {
      run: async (view, fields) => ({
        done: `${(await decide(view, fields, 'reprompt')).jid} was asked for a name again.`,
      }),
    },
    put_gate: { verb: gates.put, done: 'Gate saved.' },
    change_gate: { verb: gates.update, done: 'Gate changed.' },
    remove_gate: {
      verb: gates.delete,
      done: 'Gate deleted.',
      confirm: ({ spec = '' }) => `Delete the gate ${spec}? Requests for its folders then wait for an operator.`,
    },
  },
  show: async (view) => {
    const current = viewOf(view)
    const tabs = Object.entries(VIEWS).map(([name, label]) => ({
      href: view.url({ view: name === 'queue' ? undefined : name, jid: undefined }),
      label,
      isCurrent: name === current,
    }))
    const content = current === 'gates' ? await showGates(view) : await showRequests(view, current)
    return {
      title: 'Admissions',
      ...content,
      top: html`${renderTabs('Admissions', tabs)}${content.top ?? EMPTY_HTML}`,
    }
  },
})

function decide(view: PageView, fields: FormFields, action: 'approve' | 'refuse' | 'reprompt') {
  const [folder, to] = ['folder', 'to'].map((name) => fields.get(name) || undefined)
  const role = CHAT_ROLES.find((each) => each === fields.get('role'))
  return view.call(update, { jid: fields.get('jid') ?? '', action, folder, to, role })
}

function viewOf({ query }: PageView): AdmissionView {
  return query.view === 'all' || query.view === 'gates' ? query.view : 'queue'
}

async function showRequests(view: PageView, current: 'queue' | 'all'): Promise<Omit<PageContent, 'title'>> {
  const { onboarding, next } = await view.call(current === 'queue' ? queue : list, {
    limit: view.limit,
    after: view.query.after,
  })
  const { jid } = view.query
  return {
    top: jid
      ? html`${section('approve', `Approve ${jid}`, approvalForm(view, jid))}${section('admit', `Let ${jid} talk to an agent`, existingFolderForm(view, jid))}`
      : section('pairing', 'Pairing code', pairingForm(view)),
    table: defineTable(requestTable(view, onboarding, next)),
    isLive: true,
  }
}

function approvalForm(view: PageView, jid: string): Html {
  return view.form({
    action: 'approve',
    submit: 'Approve',
    fixed: { jid },
    fields: [{ name: 'folder', label: 'New folder', isRequired: true, maxLength: 255, hint: 'It must not exist yet' }],
  })
}

function existingFolderForm(view: PageView, jid: string): Html {
  return view.form({
    action: 'approve',
    id: 'admit',
    submit: 'Let in',
    fixed: { jid },
    fields: [
      { name: 'to', label: 'Folder', isRequired: true, maxLength: 255, hint: 'It exists, and gets this chat' },
      {
        name: 'role',
        label: 'The person',
        kind: 'select',
        value: 'member',
        options: [
          ['member', 'is a member: may use it in other places, too'],
          ['admin', 'administers it'],
          ['none', 'has no rights beyond this chat'],
        ],
      },
    ],
  })
}

/** What an unknown person was told to show. */
function pairingForm(view: PageView): Html {
  return view.form({
    action: 'find_pairing',
    submit: 'Find',
    fields: [
      { name: 'code', label: 'Code', isRequired: true, maxLength: 20, hint: 'Six letters that a person got in a chat' },
    ],
  })
}

function requestTable(
  view: PageView,
  rows: readonly OnboardingRow[],
  next: string | undefined,
): DataTable<OnboardingRow> {
  return {
    id: 'admissions',
    caption: 'Requests for a folder',
    rows,
    rowId: ({ jid }) => jid,
    next,
    rowActions: (row) => decisionButtons(view, row),
    columns: [
      { label: 'Position', cell: ({ position }) => position, isNumber: true },
      { label: 'Chat or person', cell: ({ jid }) => html`<code>${jid}</code>`, value: ({ jid }) => jid },
      { label: 'Folder', cell: ({ folder }) => folder },
      { label: 'Will administer', cell: ({ user_sub }) => user_sub },
      { label: 'Decided by', cell: ({ gate }) => (gate === undefined ? 'an operator' : `gate ${gate}`) },
      {
        label: 'Status',
        cell: ({ status }) => badge(status.replaceAll('_', ' '), TONES[status]),
        value: ({ status }) => status,
      },
      {
        label: 'Asked',
        cell: (row) => timeOf(row.queued_at ?? row.created, view.nowMs),
        value: (row) => row.queued_at ?? row.created,
      },
    ],
    empty: {
      text: 'No chat and no person waits for a folder.',
      command: view.inTerminal(`svc onboarding ${view.host.instance} list`),
    },
  }
}

const TONES = {
  awaiting_message: 'idle',
  token_used: 'idle',
  queued: 'warn',
  approved: 'ok',
  refused: 'fault',
} as const

/** A request without a name is approved with a name that the operator gives. */
function decisionButtons(view: PageView, { jid, status, folder }: OnboardingRow): Html {
  if (status === 'approved') return EMPTY_HTML
  const button = (action: string, text: string, isPrimary = false): Html =>
    view.button({ action, text, label: `${text} ${jid}`, fixed: { jid }, isPrimary })
  const approve = folder === undefined ? EMPTY_HTML : button('approve', 'Approve', true)
  const other = buttonLink(view.url({ jid }), folder === undefined ? 'Give a folder' : 'Another folder')
  const refuse = status === 'refused' ? EMPTY_HTML : button('refuse', 'Refuse')
  return html`${approve}${other}${refuse}${button('reprompt', 'Ask again')}`
}

async function showGates(view: PageView): Promise<Omit<PageContent, 'title'>> {
  const { onboarding_gates, next } = await view.call(gates.list, { limit: view.limit, after: view.query.after })
  return {
    top: section(
      'new-gate',
      'Add a gate',
      view.form({
        action: 'put_gate',
        submit: 'Save',
        fields: [
          { name: 'spec', label: 'Folders', isRequired: true, maxLength: 255, hint: 'A glob such as guests/*' },
          { name: 'daily_limit', label: 'Newcomers per day', kind: 'number', min: 1, max: 1_000_000, isRequired: true },
        ],
      }),
    ),
    table: defineTable<OnboardingGateRow>({
      id: 'gates',
      caption: 'Gates',
      rows: onboarding_gates,
      rowId: ({ spec }) => spec,
      next,
      rowActions: ({ spec, enabled }) =>
        html`${view.button({
          action: 'change_gate',
          text: enabled ? 'Close' : 'Open',
          label: `${enabled ? 'Close' : 'Open'} the gate ${spec}`,
          fixed: { spec, enabled: String(!enabled) },
        })}${view.button({ action: 'remove_gate', text: 'Delete', label: `Delete the gate ${spec}`, fixed: { spec }, isDangerous: true })}`,
      columns: [
        { label: 'Folders', cell: ({ spec }) => spec },
        { label: 'Newcomers per day', cell: ({ daily_limit }) => daily_limit, isNumber: true },
        {
          label: 'State',
          cell: ({ enabled }) => (enabled ? badge('open', 'ok') : badge('closed')),
          value: ({ enabled }) => enabled,
        },
      ],
      empty: {
        text: 'No gates: an operator decides on every request.',
        command: view.inTerminal(`svc gate ${view.host.instance} add 'guests/*' 10/day`),
      },
    }),
  }
}
