// A channel of a registered adapter: a separate process that connects one platform and serves HTTP. Only actions that the
// adapter's capabilities allow are sent to it.
import { randomBytes } from 'node:crypto'
import {
  type ActionName,
  type Channel,
  type ChannelActions,
  ChannelError,
  type DeliveryReceipt,
  type OutgoingFile,
} from '../../core/delivery/channel.ts'
import { hintFor } from '../../core/delivery/platforms.ts'
import { type AdapterRequest, sendAdapterRequest } from '../adapter-request.ts'
import type { Adapter } from '../registered-adapter.ts'
import { redactAddress } from './adapter-errors.ts'
import { readAdapterResponse } from './adapter-response.ts'
import { parseAdapterHistory } from './history-response.ts'
import { buildMultipartForm } from './multipart-form.ts'

export { probeHealth } from './health-check.ts'

/** Both are shorter than DELIVERY_LEASE_MS, so that no other process sends the same message meanwhile. */
const RESPONSE_TIMEOUT_MS = 30_000
const FILE_TIMEOUT_MS = 75_000

/** Actions that an adapter has only if it registers the capability. */
const REQUIRED_CAPABILITIES: Partial<Record<ActionName, string>> = {
  send: 'send_text',
  send_file: 'send_file',
  send_voice: 'send_voice',
  typing: 'typing',
  draft: 'draft',
  fetch_history: 'fetch_history',
  forward: 'fwd',
  quote: 'quote',
  repost: 'repost',
  dislike: 'dislike',
  edit: 'edit',
  delete: 'delete',
  pin_message: 'pin',
  unpin_message: 'pin',
  unpin_all: 'pin',
}
/** Actions that an adapter has unless it registers the capability as false. */
const DEFAULT_ON_CAPABILITIES: Partial<Record<ActionName, string>> = {
  like: 'like',
  post: 'post',
  pane_set_prompts: 'pane',
  pane_set_title: 'pane',
}

export function openHttpChannel(adapter: Adapter): Channel {
  const { name, platform, capabilities } = adapter
  const can = (action: string): boolean => {
    const required = REQUIRED_CAPABILITIES[action as ActionName]
    if (required !== undefined) return capabilities[required] === true
    return capabilities[DEFAULT_ON_CAPABILITIES[action as ActionName] ?? ''] !== false
  }
  return {
    name,
    platform,
    isInternal: false,
    isIdempotent: capabilities.dedupe === true,
    hasButtons: capabilities.buttons === true,
    actions: Object.fromEntries(Object.entries(createActions(adapter)).filter(([action]) => can(action))),
    hint: (action) => hintFor(platform, action),
  }
}

function createActions(adapter: Adapter): ChannelActions {
  const { name, platform } = adapter
  const send = async (
    tool: ActionName,
    path: string,
    request: Omit<AdapterRequest, 'url' | 'timeoutMs' | 'addresses'>,
    timeoutMs = adapter.timeoutMs ?? RESPONSE_TIMEOUT_MS,
  ) => {
    const authorization = adapter.token === undefined ? {} : { Authorization: `Bearer ${adapter.token}` }
    const isPane = path.startsWith('/v1/pane/')
    try {
      const response = await sendAdapterRequest({
        ...request,
        headers: { ...request.headers, ...authorization },
        url: new URL(adapter.url + path),
        addresses: adapter.addresses,
        timeoutMs,
      })
      return readAdapterResponse(response, { adapter: name, tool, platform, hint: hintFor(platform, tool), isPane })
    } catch (error) {
      throw redactAddress(error, adapter)
    }
  }
  const post = (tool: ActionName, path: string, members: JsonMembers) => send(tool, path, jsonBody(members))
  const done = async (response: Promise<unknown>): Promise<void> => {
    await response
  }
  const delivered = async (response: Promise<{ id?: string }>): Promise<DeliveryReceipt> => ({
    id: (await response).id,
  })
  const file = (tool: 'send_file' | 'send_voice', path: string) => async (out: OutgoingFile) => {
    const { jid, key, filename, caption } = out
    const fields = { chat_jid: jid, key, filename, caption, ...placeMembers(out) }
    const { headers, body } = await buildMultipartForm(fields, out, `svc-${randomBytes(16).toString('hex')}`)
    const keyed = { ...headers, ...keyHeader(key) }
    return delivered(send(tool, path, { method: 'POST', headers: keyed, body }, FILE_TIMEOUT_MS))
  }
  return {
    send: ({ jid, key, content, buttons, ...out }) =>
      delivered(post('send', '/send', { chat_jid: jid, key, content, buttons, ...placeMembers(out) })),
    send_file: file('send_file', '/send-file'),
    send_voice: file('send_voice', '/send-voice'),
    post: ({ jid, key, content, media, mediaNames, turnId, agentName }) => {
      const files = { media_paths: media, media_names: mediaNames }
      const about = { turn_id: turnId, agent_name: agentName }
      return delivered(post('post', '/post', { chat_jid: jid, key, content, ...files, ...about }))
    },
    forward: ({ jid, key, sourceMsgId, sourceJid, comment }) =>
      delivered(
        post('forward', '/forward', {
          target_jid: jid,
          key,
          source_msg_id: sourceMsgId,
          source_jid: sourceJid,
          comment,
        }),
      ),
    quote: ({ jid, key, sourceMsgId, comment }) =>
      delivered(post('quote', '/quote', { chat_jid: jid, key, source_msg_id: sourceMsgId, comment })),
    repost: ({ jid, key, sourceMsgId }) =>
      delivered(post('repost', '/repost', { chat_jid: jid, key, source_msg_id: sourceMsgId })),
    like: ({ jid, targetId, reaction }) =>
      done(post('like', '/like', { chat_jid: jid, target_id: targetId, reaction })),
    dislike: ({ jid, targetId }) => done(post('dislike', '/dislike', { chat_jid: jid, target_id: targetId })),
    edit: ({ jid, targetId, content }) => done(post('edit', '/edit', { chat_jid: jid, target_id: targetId, content })),
    delete: ({ jid, targetId }) => done(post('delete', '/delete', { chat_jid: jid, target_id: targetId })),
    pin_message: ({ jid, targetId }) => done(post('pin_message', '/pin', { chat_jid: jid, target_id: targetId })),
    unpin_message: ({ jid, targetId }) => done(post('unpin_message', '/unpin', { chat_jid: jid, target_id: targetId })),
    unpin_all: ({ jid }) => done(post('unpin_all', '/unpin', { chat_jid: jid, all: true })),
    pane_set_prompts: ({ jid, prompts }) => done(post('pane_set_prompts', '/v1/pane/prompts', { jid, prompts })),
    pane_set_title: ({ jid, title }) => done(post('pane_set_title', '/v1/pane/title', { jid, title })),
    typing: ({ jid, threadId, on }) => done(post('typing', '/typing', { chat_jid: jid, thread_id: threadId, on })),
    draft: ({ jid, key, content, isDone, ...out }) =>
      done(
        send('draft', '/draft', jsonBody({ chat_jid: jid, key, content, done: isDone, ...placeMembers(out) }, false)),
      ),
    fetch_history: async ({ jid, limit, before }) => {
      const query = new URLSearchParams({ jid, limit: String(limit), ...(before === undefined ? {} : { before }) })
      const { body } = await send('fetch_history', `/v1/history?${query}`, { method: 'GET', headers: {} })
      return parseAdapterHistory(body) ?? throwInvalidHistory(name)
    },
  }
}

/** Where a message belongs, and who writes it. */
function placeMembers({
  replyTo,
  threadId,
  turnId,
  agentName,
}: Pick<OutgoingFile, 'replyTo' | 'threadId' | 'turnId' | 'agentName'>) {
  return { reply_to: replyTo, thread_id: threadId, turn_id: turnId, agent_name: agentName }
}

type JsonMembers = Readonly<Record<string, unknown>>

/** `isKeyed`: the same key means the same request. */
function jsonBody(members: JsonMembers, isKeyed = true): Omit<AdapterRequest, 'url' | 'timeoutMs' | 'addresses'> {
  const body = Buffer.from(JSON.stringify(members))
  const key = isKeyed && typeof members.key === 'string' ? keyHeader(members.key) : {}
  const headers = { 'Content-Type': 'application/json', 'Content-Length': String(body.length), ...key }
  return { method: 'POST', headers, body }
}

function keyHeader(key: string): Record<string, string> {
  return { 'Idempotency-Key': key }
}

function throwInvalidHistory(adapter: string): never {
  throw new ChannelError('permanent', `${adapter} sent an invalid history`)
}
