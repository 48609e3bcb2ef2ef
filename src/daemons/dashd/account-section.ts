// Accounts of chat platforms on the page Channels: connecting one by a form, who may start direct chats, and removal.
import {
  type AccountField,
  accountName,
  CONNECTED_PLATFORMS,
  type ConnectedPlatform,
  DEFAULT_DIRECT_MODE,
  isConnectedPlatform,
  mustBeAccount,
  PLATFORM_ACCOUNTS,
} from '../../core/delivery/platform-accounts.ts'
import { refuse } from '../../lib/refusal.ts'
import { channelAccountsResource } from '../../resources/channel-accounts.ts'
import type { FormField } from '../../web/dash/form.ts'
import { buttonLink, link, notice, section, timeOf } from '../../web/dash/parts.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import type { FormFields } from '../http/form-request.ts'
import { type CheckedAccount, checkPlatformAccount } from '../process/account-check.ts'
import type { DashPage, PageContent, PageView } from './page.ts'

const accounts = channelAccountsResource.verbs

type Account = Awaited<ReturnType<typeof accounts.list.run>>['channel_accounts'][number]

const NAMES: Readonly<Record<ConnectedPlatform, string>> = {
  telegram: 'Telegram',
  slack: 'Slack',
  discord: 'Discord',
  email: 'E-mail',
}

const DIRECT_MODES = [
  ['pairing', 'people who show a code to you'],
  ['allowlist', 'people with rights, and chats that a route names'],
  ['open', 'everyone'],
  ['off', 'no one: they are ignored'],
] as const

export const ACCOUNT_ACTIONS: NonNullable<DashPage['actions']> = {
  connect: { run: connect },
  set_account: { verb: accounts.set, done: 'Account changed.' },
  remove_account: {
    verb: accounts.remove,
    confirm: ({ account }) => `Disconnect ${account}? Its adapter stops, and its messages stay at the platform.`,
    done: 'Account disconnected.',
  },
}

export async function renderAccounts(view: PageView): Promise<Html> {
  const { channel_accounts: rows } = await view.call(accounts.list, {})
  const table = view.list<Account>({
    id: 'accounts-table',
    caption: 'Accounts',
    rows,
    rowId: ({ account }) => account,
    columns: [
      { label: 'Account', cell: ({ account }) => account },
      { label: 'Direct chats of', cell: ({ settings }) => modeText(settings.dm) },
      { label: 'Connected', cell: ({ created_at }) => timeOf(created_at, view.nowMs) },
      { label: 'By', cell: ({ created_by }) => created_by },
    ],
    rowActions: ({ account }) =>
      html`${buttonLink(view.url({ account }), 'Direct chats')}${view.button({ action: 'remove_account', fixed: { account }, text: 'Disconnect', label: `Disconnect ${account}`, isDangerous: true })}`,
    empty: {
      text: 'No account is connected. Choose a platform below.',
      command: view.inTerminal(`svc channel ${view.host.instance} add telegram`),
    },
  })
  const platforms = CONNECTED_PLATFORMS.map((platform) =>
    buttonLink(view.url({ connect: platform }), `Connect ${NAMES[platform]}`),
  )
  return html`${table}<p>${platforms}</p>`
}

/** The forms of the chosen platform or account, which live updates leave alone. */
export async function renderAccountForms(view: PageView): Promise<Html> {
  const { connect: platform = '', account } = view.query
  const { channel_accounts: rows } = account ? await view.call(accounts.list, {}) : { channel_accounts: [] }
  const chosen = rows.find((row) => row.account === account)
  if (chosen) return section('direct-chats', `Direct chats of ${account}`, directForm(view, chosen))
  if (!isConnectedPlatform(platform)) return EMPTY_HTML
  const { required, optional, secrets } = PLATFORM_ACCOUNTS[platform]
  const fields: FormField[] = [
    ...required.map(({ name, label, rule }) => ({
      name,
      label: capital(label),
      isRequired: true,
      hint: capital(rule),
    })),
    ...optional
      .filter(({ inForms }) => inForms)
      .map(({ name, rule }) => ({ name, label: TEXT_LABELS[name] ?? capital(name), hint: capital(rule) })),
    ...choicesOf(optional).map(({ name, options = [] }) => ({
      ...{ name, label: CHOICE_LABELS[name] ?? capital(name), kind: 'select' as const, options },
    })),
    ...secrets.map(({ name, label, rule, onlyWith }) => ({
      ...{ name, label: capital(label), kind: 'password' as const, isRequired: onlyWith === undefined },
      ...{ maxLength: 1000, hint: `${onlyWith ? `Only ${optionText(optional, onlyWith)}. ` : ''}${capital(rule)}` },
    })),
    { name: 'dm', label: 'Direct chats of', kind: 'select', options: DIRECT_MODES, value: DEFAULT_DIRECT_MODE },
    {
      name: 'account',
      label: 'Name of a further account',
      maxLength: 32,
      hint: 'Empty for the first of this platform',
    },
  ]
  const form = view.form({ action: 'connect', submit: 'Connect', fixed: { platform }, fields })
  return section(
    'connect',
    `Connect ${NAMES[platform]}`,
    html`<p>Nothing is saved before ${platform === 'email' ? 'the servers have' : `${NAMES[platform]} has`} accepted the account. The guide in docs/${platform}.md has the steps there.</p>${form}`,
  )
}

const TEXT_LABELS: Readonly<Record<string, string>> = { authserv: 'Server that checks senders' }
const CHOICE_LABELS: Readonly<Record<string, string>> = { receive: 'Messages arrive' }

function choicesOf(optional: readonly AccountField[]): readonly AccountField[] {
  return optional.filter(({ options }) => options !== undefined)
}

function optionText(
  optional: readonly AccountField[],
  { setting, value }: { readonly setting: string; readonly value: string },
): string {
  const options = optional.find(({ name }) => name === setting)?.options ?? []
  return options.find(([each]) => each === value)?.[1] ?? `with ${setting}=${value}`
}

function directForm(view: PageView, { account, settings }: Account): Html {
  return view.form({
    action: 'set_account',
    submit: 'Save',
    fixed: { account, name: 'dm' },
    fields: [{ name: 'value', label: 'Who may start one', kind: 'select', options: DIRECT_MODES, value: settings.dm }],
  })
}

function modeText(mode: string = DEFAULT_DIRECT_MODE): string {
  return DIRECT_MODES.find(([value]) => value === mode)?.[1] ?? mode
}

async function connect(view: PageView, fields: FormFields): Promise<PageContent> {
  const platform = fields.get('platform') ?? ''
  if (!isConnectedPlatform(platform)) refuse('invalid', `${platform} is no platform that svc connects`)
  const { required, optional, secrets: secretFields } = PLATFORM_ACCOUNTS[platform]
  const read = (names: readonly { readonly name: string }[]): Record<string, string> =>
    Object.fromEntries(names.map(({ name }) => [name, (fields.get(name) ?? '').trim()]))
  const settings = {
    ...read(required),
    ...withoutEmpty(read(optional.filter(({ options, inForms }) => options || inForms))),
    dm: fields.get('dm') || DEFAULT_DIRECT_MODE,
  }
  const secrets = withoutEmpty(read(secretFields))
  const account = accountName(platform, fields.get('account')?.trim() || undefined)
  mustBeAccount(platform, { settings, secrets })
  const sources = await view.daemon.currentSources()
  const checked = await checkPlatformAccount(platform, { settings, secrets, sources })
  await view.call(accounts.add, { account, platform, settings, secrets })
  return connectedPage(account, checked)
}

function withoutEmpty(values: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ''))
}

function connectedPage(account: string, { name, inviteUrl, steps = [] }: CheckedAccount): PageContent {
  const invite = inviteUrl === undefined ? EMPTY_HTML : html`<p>${link(inviteUrl, 'Add it to a chat')}</p>`
  const remaining = steps.length === 0 ? EMPTY_HTML : html`<ul>${steps.map((step) => html`<li>${step}</li>`)}</ul>`
  return {
    title: `${account} is connected`,
    main: html`${notice('ok', `It is ${name}. Its adapter starts within seconds.`)}${invite}${remaining}<p>${link('/dash/channels', 'Back to the channels')}</p>`,
  }
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
