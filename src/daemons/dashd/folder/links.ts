// Links that a folder owns or gets messages from: their use, a form to mint one, tests and replays.
import { defaultReach, type Reach } from '../../../core/access/reach.ts'
import { refuse } from '../../../lib/refusal.ts'
import { inboxResource } from '../../../resources/inbox.ts'
import { routeTokensResource } from '../../../resources/route-tokens.ts'
import { renderDetails } from '../../../web/dash/detail-pane.ts'
import type { FormField } from '../../../web/dash/form.ts'
import { badge, buttonLink, copyText, link, notice, section, textBlock, timeOf } from '../../../web/dash/parts.ts'
import { countColumn, type DataTable, defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html, trustedHtml } from '../../../web/html.ts'
import type { FormFields } from '../../http/form-request.ts'
import { messagePath, stateBadge } from '../message-parts.ts'
import { type ActionRedirect, folderPath, type PageContent, type PageView } from '../page.ts'
import { excerpt } from '../turn-parts.ts'
import { optionalField, requiredField } from '../typed-fields.ts'
import { defineFolderView } from './view.ts'

const tokens = routeTokensResource.verbs
type LinkRow = Awaited<ReturnType<typeof tokens.list_of.run>>['tokens'][number]
type Delivery = Awaited<ReturnType<typeof tokens.deliveries.run>>['deliveries'][number]

const DELIVERIES = 20

export const linksView = defineFolderView({
  name: 'links',
  title: 'Links',
  actions: {
    chat: { run: (view, fields) => mintChat(view, fields) },
    webhook: { run: (view, fields) => mintWebhook(view, fields) },
    revoke: {
      verb: tokens.revoke,
      done: ({ deleted }: { deleted: number }, { jid }: { jid: string }) =>
        `Revoked ${jid} (${deleted} ${deleted === 1 ? 'link' : 'links'}).`,
      confirm: ({ jid = '' }) => `Revoke all links of ${jid}? They stop working at once, and cannot be restored.`,
    },
    test: {
      run: async (view, fields) => {
        const jid = requiredField(fields, 'jid')
        const { message_id } = await view.call(tokens.deliver_test, { jid })
        return sentTo(view, message_id, `Sent a test through ${jid}.`)
      },
    },
    replay: {
      run: async (view, fields) => {
        const { message_id } = await view.call(tokens.replay, { id: requiredField(fields, 'id') })
        return sentTo(view, message_id, 'Delivered the message again, as a new one.')
      },
    },
  },
  show: async (view, folder) => {
    const { message: sent, jid } = view.query
    const { tokens: rows, next } = await view.call(tokens.list_of, {
      folder,
      limit: view.limit,
      after: view.query.after,
    })
    const may = await mayMint(view, folder)
    const table = await linkTable(view, folder, { rows, next, may })
    return {
      main: html`${sent === undefined ? EMPTY_HTML : await showSent(view, sent)}${jid === undefined ? EMPTY_HTML : await showLink(view, jid, rows)}`,
      table: defineTable(table),
      bottom: html`<div class="pair">${may.chat ? section('new-chat', 'Create a chat link', chatForm(view, folder)) : EMPTY_HTML}${may.webhook ? section('new-webhook', 'Create a webhook', webhookForm(view, folder)) : EMPTY_HTML}</div>`,
      isLive: true,
    }
  },
})

function sentTo(view: PageView, message: string, done: string): ActionRedirect {
  return { to: `${folderPath(view.params.folder ?? '', 'links')}&message=${encodeURIComponent(message)}`, done }
}

interface MintRights {
  readonly chat: boolean
  readonly webhook: boolean
}

async function mayMint(view: PageView, target_folder: string): Promise<MintRights> {
  return {
    chat: await view.may(tokens.issue_chat, { target_folder }),
    webhook: await view.may(tokens.issue_hook, { target_folder, source_label: 'source' }),
  }
}

interface LinkList {
  readonly rows: readonly LinkRow[]
  readonly next: string | undefined
  readonly may: MintRights
}

/** With where the answers go, as few links have that and the table is wide. */
function contextOf({
  answer_to,
  context = '',
}: {
  readonly answer_to?: string | undefined
  readonly context?: string | undefined
}): string {
  return answer_to === undefined ? context : `Answers go to ${answer_to}. ${context}`.trim()
}

async function linkTable(view: PageView, folder: string, { rows, next, may }: LinkList): Promise<DataTable<LinkRow>> {
  const inputs = rows.map(({ jid }) => ({ jid }))
  const [mayRevoke, mayTest] = [
    await view.mayEach(tokens.revoke, inputs),
    await view.mayEach(tokens.deliver_test, inputs),
  ]
  const { nowMs } = view
  return {
    id: 'links',
    caption: `Links of ${folder}`,
    rows,
    rowId: ({ jid, created_at }) => `${jid} ${created_at}`,
    columns: [
      {
        label: 'Link',
        cell: ({ jid }) => link(view.url({ jid, message: undefined }), jid),
        value: ({ jid }) => jid,
      },
      { label: 'Issued by', cell: ({ owner_folder }) => owner_folder },
      { label: 'Delivers to', cell: ({ target_folder }) => target_folder ?? '' },
      { label: 'Tools', cell: ({ tools, jid }) => tools ?? defaultReach(jid) },
      { label: 'Visitors', cell: ({ visitors, jid }) => (jid.startsWith('web:') ? (visitors ?? 'together') : '') },
      { label: 'Signature', cell: ({ verify }) => verify ?? 'not checked' },
      {
        label: 'Context',
        isProse: true,
        cell: (row) => excerpt(contextOf(row)),
        value: contextOf,
      },
      {
        label: 'Created',
        cell: ({ created_at }) => timeOf(created_at, nowMs),
        value: ({ created_at }) => created_at,
      },
      {
        label: 'Last used',
        cell: ({ last_used_at }) => timeOf(last_used_at, nowMs),
        value: ({ last_used_at }) => last_used_at,
      },
      countColumn('Accepted', ({ accepted }) => accepted),
      {
        label: 'Refused',
        cell: ({ refused }) => describeRefusals(refused),
        value: ({ refused }) => sumOf(refused),
        isNumber: true,
      },
    ],
    rowActions: (row) => {
      const at = rows.indexOf(row)
      const { jid } = row
      const test = view.button({ action: 'test', fixed: { jid }, text: 'Test', label: `Test ${jid}` })
      const revoke = view.button({
        action: 'revoke',
        fixed: { jid },
        text: 'Revoke',
        label: `Revoke ${jid}`,
        isDangerous: true,
      })
      return html`${mayTest[at] ? test : EMPTY_HTML}${mayRevoke[at] ? revoke : EMPTY_HTML}`
    },
    empty: {
      text: `${folder} has no links. With a chat link anyone can talk to it; through a webhook other systems report to it.`,
      next: html`<p>${may.chat ? buttonLink('#new-chat', 'Create a chat link') : EMPTY_HTML} ${may.webhook ? buttonLink('#new-webhook', 'Create a webhook') : EMPTY_HTML}</p>`,
      command: view.inTerminal(`svc token ${view.host.instance} issue chat ${folder}`),
    },
    next,
  }
}

function sumOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0)
}

function describeRefusals(refused: Readonly<Record<string, number>>): Html | number {
  return sumOf(refused) === 0 ? 0 : html`<span title="${refusalReasons(refused)}">${sumOf(refused)}</span>`
}

function refusalReasons(refused: Readonly<Record<string, number>>): string {
  return Object.entries(refused)
    .map(([reason, count]) => `${reason.replaceAll('_', ' ')}: ${count}`)
    .join(', ')
}

/** The state of a message that was just sent; live until it is final. */
async function showSent(view: PageView, id: string): Promise<Html> {
  const details = await view.call(inboxResource.verbs.details, { id })
  // A message that was sent has no answers.
  const { answers, reason } = 'answers' in details ? details : { answers: [], reason: undefined }
  const { state = 'waiting' } = details
  const texts = answers.flatMap(({ kind, text }) => (kind === 'message' ? [text] : []))
  return section(
    'sent',
    'Sent message',
    renderDetails({
      State: stateBadge(state),
      Reason: reason,
      Answer: texts.length === 0 ? undefined : textBlock('sent-answer', texts.join('\n\n')),
      Message: link(messagePath(id), id),
    }),
    buttonLink(view.url({ message: undefined }), 'Close'),
  )
}

/** What the list has no place for, and the last messages. A JID may have several links. */
async function showLink(view: PageView, jid: string, rows: readonly LinkRow[]): Promise<Html> {
  const links = rows.filter((row) => row.jid === jid)
  const details = links.map(({ created_at, context, refused }, at) =>
    renderDetails({
      Created: timeOf(created_at, view.nowMs),
      Context: context === undefined ? 'none' : textBlock(`context-${at}`, context),
      Refused: sumOf(refused) === 0 ? 'nothing' : refusalReasons(refused),
    }),
  )
  const close = buttonLink(view.url({ jid: undefined }), 'Close')
  const deliveries = await showDeliveries(view, jid)
  return section('link', jid, html`${details}<h3>Last messages</h3>${deliveries}`, close)
}

async function showDeliveries(view: PageView, jid: string): Promise<Html> {
  const { deliveries } = await view.call(tokens.deliveries, { jid, limit: DELIVERIES })
  const may = await view.mayEach(
    tokens.replay,
    deliveries.map(({ id }) => ({ id })),
  )
  const table: DataTable<Delivery> = {
    id: 'deliveries',
    caption: `Messages through ${jid}`,
    rows: deliveries,
    rowId: ({ id }) => id,
    columns: [
      { label: 'Time', cell: ({ created_at, id }) => link(messagePath(id), timeOf(created_at, view.nowMs)) },
      { label: 'Sender', cell: ({ sender }) => sender },
      { label: 'Text', cell: ({ text }) => html`<span dir="auto">${excerpt(text)}</span>` },
      { label: 'State', cell: ({ state }) => stateBadge(state) },
      { label: 'Reason', cell: ({ reason }) => reason },
    ],
    rowActions: (row) =>
      may[deliveries.indexOf(row)]
        ? view.button({ action: 'replay', fixed: { id: row.id }, text: 'Replay', label: `Replay message ${row.id}` })
        : EMPTY_HTML,
    empty: {
      text: 'Nothing has arrived through this link.',
      command: view.inTerminal(`svc token ${view.host.instance} test ${jid}`),
    },
  }
  return view.list(table)
}

const REACHES: readonly (readonly [string, string])[] = [
  ['chat', 'chat: only answer in its own chat'],
  ['work', 'work: the everyday work of the folder'],
  ['all', 'all: everything that the folder may do'],
]

function commonFields(folder: string, reach: Reach): FormField[] {
  return [
    {
      name: 'jid_suffix',
      label: 'Suffix',
      maxLength: 64,
      hint: "Letters, digits, _ and -. Gives this link a chat apart from the folder's own.",
    },
    {
      name: 'context',
      label: 'Context',
      kind: 'multiline',
      maxLength: 16_384,
      hint: 'What these messages are, and how the agent should handle them. It cannot be changed later.',
    },
    {
      name: 'target_folder',
      label: 'Delivers to',
      value: folder,
      isRequired: true,
      hint: 'This folder, or one below it that you administer.',
    },
    {
      name: 'tools',
      label: 'Tools',
      kind: 'select',
      options: REACHES,
      value: reach,
      hint: 'What its messages can have the agent do.',
    },
  ]
}

function chatForm(view: PageView, folder: string): Html {
  const visitors: FormField = {
    name: 'visitors',
    label: 'Visitors',
    kind: 'select',
    options: [
      ['together', 'together: all see one conversation'],
      ['apart', 'apart: each sees only their own'],
    ],
    value: 'together',
    hint: 'Choose apart for a public web site. It cannot be changed later.',
  }
  const fields = [...commonFields(folder, 'chat'), visitors]
  return view.form({ action: 'chat', fields, submit: 'Create chat link' })
}

const SIGNATURES: readonly (readonly [string, string])[] = [
  ['', 'none'],
  ['github', 'GitHub (X-Hub-Signature-256)'],
  ['standard', 'Standard Webhooks (webhook-signature)'],
  ['stripe', 'Stripe (Stripe-Signature)'],
  ['hmac', 'HMAC-SHA256 in another header'],
]

function webhookForm(view: PageView, folder: string): Html {
  const source = {
    name: 'source_label',
    label: 'Source',
    isRequired: true,
    maxLength: 64,
    placeholder: 'github',
    hint: 'The system that will post. Becomes the sender of every message.',
  }
  const signature: FormField[] = [
    { name: 'verify', label: 'Signature check', kind: 'select', options: SIGNATURES },
    {
      name: 'verify_header',
      label: 'Header of the signature',
      placeholder: 'X-Shop-Hmac',
      hint: 'Only for HMAC-SHA256 in another header.',
    },
    {
      name: 'verify_secret',
      label: 'Secret of the signature',
      kind: 'password',
      hint: 'The secret that the sender signs with. It is never shown again.',
    },
    {
      name: 'answer_to',
      label: 'Answers to',
      placeholder: 'https://ci.example.com/answers',
      hint: 'A chat that the folder may send to. Operators may name an https URL, too. Without it, answers stay in the chat of the link.',
    },
  ]
  return view.form({
    action: 'webhook',
    fields: [source, ...commonFields(folder, 'work'), ...signature],
    submit: 'Create webhook',
  })
}

function commonInput(fields: FormFields) {
  return {
    target_folder: requiredField(fields, 'target_folder'),
    jid_suffix: optionalField(fields, 'jid_suffix'),
    context: optionalField(fields, 'context'),
    // The verb checks the value.
    tools: optionalField(fields, 'tools') as Reach | undefined,
  }
}

interface MintedLink {
  readonly answer_secret?: string | undefined
  readonly token: string
  readonly url: string
  readonly jid: string
}

async function mintChat(view: PageView, fields: FormFields): Promise<PageContent> {
  const visitors = optionalField(fields, 'visitors') ?? 'together'
  if (!['together', 'apart'].includes(visitors)) refuse('invalid', 'visitors must be together or apart')
  const verb = visitors === 'apart' ? tokens.issue_apart : tokens.issue_chat
  const minted = await view.call(verb, commonInput(fields))
  const { renderSVG } = await import('uqr')
  const snippet = `<script src="${minted.url}widget.js" async></script>`
  return mintedPage(view, minted, {
    'On a web site': html`${copyText(snippet)}<p class="hint">Shows the chat in a corner of the page.</p>`,
    'QR code': trustedHtml(
      `<div class="qr" role="img" aria-label="QR code of the link">${renderSVG(minted.url)}</div>`,
    ),
  })
}

async function mintWebhook(view: PageView, fields: FormFields): Promise<PageContent> {
  const input = { ...commonInput(fields), source_label: requiredField(fields, 'source_label') }
  const scheme = optionalField(fields, 'verify')
  const verify_secret = optionalField(fields, 'verify_secret') ?? ''
  const verify = scheme === 'hmac' ? `hmac:${readHeaderName(fields)}` : scheme
  if (verify !== undefined && verify_secret === '') refuse('invalid', 'verify_secret must not be empty')
  const answer_to = optionalField(fields, 'answer_to')
  const signed = verify === undefined ? {} : { verify, verify_secret }
  const minted: MintedLink =
    verify === undefined && answer_to === undefined
      ? await view.call(tokens.issue_hook, input)
      : await view.call(tokens.issue_operator_hook, { ...input, ...signed, answer_to })
  const curl = `curl --data-binary '{"hello":"world"}' -H 'Content-Type: application/json' ${minted.url}`
  return mintedPage(view, minted, {
    ...(minted.answer_secret === undefined ? {} : { 'Secret of the answers': copyText(minted.answer_secret) }),
    Try: verify === undefined ? copyText(curl) : `Only posts with a valid signature are accepted (${verify}).`,
  })
}

function readHeaderName(fields: FormFields): string {
  const name = requiredField(fields, 'verify_header')
  return /^[\w-]+$/.test(name) ? name : refuse('invalid', 'verify_header must be a name such as X-Signature')
}

function mintedPage(
  view: PageView,
  { token, url, jid }: MintedLink,
  more: Readonly<Record<string, Html | string>>,
): PageContent {
  const back = buttonLink(folderPath(view.params.folder ?? '', 'links'), 'Done')
  return {
    title: `New link ${jid}`,
    main: html`${notice('warn', 'Copy it now: the link and its token are shown only this once.')}${renderDetails({
      Link: copyText(url),
      Token: copyText(token),
      Name: html`${jid} ${badge(jid.startsWith('hook:') ? 'webhook' : 'chat')}`,
      ...more,
    })}${back}`,
  }
}
