// The requests of svc, by path: each calls an action of the connector. See docs/channels.md#receive-messages-from-svc.
import { isObject } from '../../lib/text/json.ts'
import type { AdapterStore } from './adapter-store.ts'
import type { Drafts } from './drafts.ts'
import {
  type Button,
  type Connector,
  type ConnectorActions,
  type HealthStatus,
  type LocalFile,
  type Place,
  PlatformError,
  type TargetMessage,
} from './port.ts'
import type { Outgoing } from './send-part.ts'
import type { Sender } from './sender.ts'
import type { WebhookReceiver } from './webhook-requests.ts'

export interface ReportedHealth {
  readonly status: HealthStatus
  readonly detail?: string | undefined
  /** RFC 3339. */
  readonly since: string
}

export interface RequestBody {
  readonly members: Readonly<Record<string, unknown>>
  /** Of the file of a form; the caller removes it. */
  readonly path?: string | undefined
  readonly mime?: string | undefined
}

export interface HostRequest {
  readonly path: string
  readonly query: URLSearchParams
  readonly body: RequestBody
}

export interface ActionContext {
  readonly connector: Connector
  readonly state: AdapterStore
  readonly sender: Sender
  readonly drafts: Drafts
  readonly webhooks: WebhookReceiver
  readonly account: string
}

/** The capability that each action stands for. */
const CAPABILITIES: Readonly<Record<keyof ConnectorActions, string>> = {
  sendText: 'send_text',
  sendFile: 'send_file',
  sendVoice: 'send_voice',
  post: 'post',
  forward: 'fwd',
  quote: 'quote',
  repost: 'repost',
  like: 'like',
  dislike: 'dislike',
  edit: 'edit',
  delete: 'delete',
  pin: 'pin',
  unpin: 'pin',
  unpinAll: 'pin',
  panePrompts: 'pane',
  paneTitle: 'pane',
  history: 'fetch_history',
  typing: 'typing',
}

/** Keys are kept, so every message is sent at most once. */
export function capabilitiesOf(
  {
    actions,
    draftEveryMs,
    hasButtons = false,
    webhook,
  }: Pick<Connector, 'actions' | 'draftEveryMs' | 'hasButtons' | 'webhook'>,
  settings: Readonly<Record<string, string>> = {},
): Record<string, boolean> {
  const canDraft = [draftEveryMs, actions.sendText, actions.edit, actions.delete].every((each) => each !== undefined)
  const named = Object.entries(CAPABILITIES).map(([action, capability]) => [capability, action in actions] as const)
  const all: Record<string, boolean> = {
    dedupe: true,
    draft: canDraft && settings.drafts !== 'off',
    buttons: hasButtons,
    ...(webhook ? { webhook: true } : {}),
  }
  for (const [capability, has] of named) all[capability] = (all[capability] ?? false) || has
  return all
}

type Members = RequestBody['members']
type Handler = (context: ActionContext, request: HostRequest) => Promise<object>

const noId = async (done: Promise<void>): Promise<object> => {
  await done
  return {}
}
const withId = async (sent: Promise<string | undefined>): Promise<object> => ({ id: await sent })

const HANDLERS: Readonly<Record<string, Handler>> = {
  '/send': (context, { body: { members } }) =>
    withId(
      context.sender.sendText({
        ...outgoing(context, members),
        text: text(members, 'content'),
        turnId: optional(members, 'turn_id'),
        buttons: buttonsOf(members),
      }),
    ),
  '/send-file': (context, { body }) => withId(context.sender.sendFile('sendFile', outgoingFile(context, body))),
  '/send-voice': (context, { body }) => withId(context.sender.sendFile('sendVoice', outgoingFile(context, body))),
  '/post': (context, { body: { members } }) => {
    const files = filesOf(members)
    const post = required(context, 'post')
    return withId(
      context.sender.sendOne(outgoing(context, members), text(members, 'content'), (part) => post({ ...part, files })),
    )
  },
  '/forward': (context, { body: { members } }) => {
    const forward = required(context, 'forward')
    const source = sourceOf(context, members)
    const out = outgoing(context, { ...members, chat_jid: members.target_jid })
    return withId(context.sender.sendWith(out, (part) => forward({ ...part, source }), optional(members, 'comment')))
  },
  '/quote': (context, { body: { members } }) => {
    const quote = required(context, 'quote')
    const source = sourceOf(context, { ...members, source_jid: members.chat_jid })
    return withId(
      context.sender.sendOne(outgoing(context, members), text(members, 'comment'), (part) =>
        quote({ ...part, source }),
      ),
    )
  },
  '/repost': (context, { body: { members } }) => {
    const repost = required(context, 'repost')
    const source = sourceOf(context, { ...members, source_jid: members.chat_jid })
    return withId(context.sender.sendWith(outgoing(context, members), (part) => repost({ ...part, source })))
  },
  '/like': (context, { body: { members } }) =>
    noId(required(context, 'like')({ ...target(context, members), reaction: optional(members, 'reaction') ?? '' })),
  '/dislike': (context, { body: { members } }) => noId(required(context, 'dislike')(target(context, members))),
  '/edit': (context, { body: { members } }) =>
    noId(context.sender.edit(target(context, members), text(members, 'content'))),
  '/delete': (context, { body: { members } }) => noId(context.sender.delete(target(context, members))),
  '/pin': (context, { body: { members } }) => noId(required(context, 'pin')(target(context, members))),
  '/unpin': (context, { body: { members } }) =>
    noId(
      members.all === true
        ? required(context, 'unpinAll')(place(context, members))
        : required(context, 'unpin')(target(context, members)),
    ),
  '/v1/pane/prompts': (context, { body: { members } }) => {
    const prompts = (Array.isArray(members.prompts) ? members.prompts : [])
      .filter(isObject)
      .map(({ title, message }) => ({ title: String(title), message: String(message) }))
    return noId(required(context, 'panePrompts')({ ...place(context, { ...members, chat_jid: members.jid }), prompts }))
  },
  '/v1/pane/title': (context, { body: { members } }) =>
    noId(
      required(
        context,
        'paneTitle',
      )({
        ...place(context, { ...members, chat_jid: members.jid }),
        title: text(members, 'title'),
      }),
    ),
  '/webhook': ({ webhooks }, { body: { members } }) => webhooks.receive(members),
  '/typing': (context, { body: { members } }) =>
    noId(required(context, 'typing')({ ...place(context, members), on: members.on === true })),
  '/draft': async (context, { body: { members } }) => {
    const out = outgoing(context, members)
    if (members.done === true) context.drafts.remove(out)
    else context.drafts.show({ ...out, text: text(members, 'content') })
    return {}
  },
  '/v1/history': (context, { query }) =>
    required(
      context,
      'history',
    )({
      ...place(context, { chat_jid: query.get('jid') }),
      limit: Math.min(Math.max(Number(query.get('limit') ?? 50) || 50, 1), 1000),
      before: query.get('before') ?? undefined,
    }),
}

export async function answerRequest(context: ActionContext, request: HostRequest): Promise<object> {
  const handler = Object.hasOwn(HANDLERS, request.path) ? HANDLERS[request.path] : undefined
  if (!handler) throw new PlatformError('refused', `there is nothing at ${request.path}`)
  return handler(context, request)
}

function required<A extends keyof ConnectorActions>({ connector }: ActionContext, name: A): ConnectorActions[A] {
  const action = connector.actions[name]
  if (action === undefined) throw new PlatformError('unsupported', 'the platform cannot do this')
  return action
}

function text(members: Members, name: string): string {
  const value = members[name]
  return typeof value === 'string' && value !== '' ? value : refuseMember(`${name} is required`)
}

function optional(members: Members, name: string): string | undefined {
  const value = members[name]
  return typeof value === 'string' && value !== '' ? value : undefined
}

function refuseMember(message: string): never {
  throw new PlatformError('refused', message)
}

function chatOf({ account }: ActionContext, jid: unknown): string {
  if (typeof jid !== 'string' || !jid.startsWith(`${account}:`))
    return refuseMember(`${String(jid)} is no chat of ${account}`)
  return jid.slice(account.length + 1)
}

function place(context: ActionContext, members: Members): Place {
  return { chat: chatOf(context, members.chat_jid), threadId: optional(members, 'thread_id') }
}

function target(context: ActionContext, members: Members): TargetMessage {
  return { ...place(context, members), id: text(members, 'target_id') }
}

function sourceOf(context: ActionContext, members: Members): TargetMessage {
  return { chat: chatOf(context, members.source_jid), id: text(members, 'source_msg_id') }
}

function outgoing(context: ActionContext, members: Members): Outgoing {
  return {
    ...place(context, members),
    key: text(members, 'key'),
    replyTo: optional(members, 'reply_to'),
    agentName: optional(members, 'agent_name'),
  }
}

function outgoingFile(context: ActionContext, { members, path, mime }: RequestBody) {
  if (path === undefined) return refuseMember('file is required')
  return {
    ...outgoing(context, members),
    path,
    mime,
    filename: optional(members, 'filename') ?? 'file',
    caption: optional(members, 'caption'),
  }
}

function buttonsOf({ buttons }: Members): Button[] | undefined {
  if (!Array.isArray(buttons) || buttons.length === 0) return undefined
  return buttons.filter(isObject).map((button) => ({
    id: text(button, 'id'),
    label: text(button, 'label'),
    style: button.style === 'primary' || button.style === 'danger' ? button.style : undefined,
  }))
}

function filesOf({ media_paths: paths, media_names: names }: Members): LocalFile[] {
  const shown: readonly unknown[] = Array.isArray(names) ? names : []
  return (Array.isArray(paths) ? paths : []).map((path, at) => ({
    path: String(path),
    filename: typeof shown[at] === 'string' ? shown[at] : 'file',
  }))
}
