// A local server of Slack, with what matters of its semantics: forms, answers with "ok", Socket Mode with envelopes that come again
// until they are confirmed, not in order, a history without answers in threads, files in two steps, 429 with Retry-After. The shapes
// are those of Slack's documentation.
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type WebSocket, WebSocketServer } from 'ws'
import type {
  PlatformEvent,
  PlatformMessage,
  PlatformStandIn,
  SendFault,
} from '../../src/channels/process/connector.contract.ts'
import { SLACK_SCOPES } from '../../src/channels/slack/connector.ts'
import type { CleanupScope } from './temp.ts'
import { WebhookSender } from './webhook-sender.ts'

export const SLACK_TOKENS = {
  app_token: 'xapp-1-A0TESTAPP-1234567890-stand-in-app-token',
  bot_token: 'xoxb-1234567890-1234567890-stand-in-bot-token',
}
export const SLACK_SIGNING_SECRET = '0123456789abcdef0123456789abcdef'
export const SLACK_TEAM = 'T0TEST'
export const SLACK_PERSON = 'U0MIA'
const BOT = { user_id: 'U0ADA', bot_id: 'B0ADA', app_id: 'A0TESTAPP' }
const USERS: Readonly<Record<string, string>> = { U0MIA: 'Mia Berg', U0NOAH: 'Noah', U0ADA: 'ada' }
export const SLACK_DM = 'D0MIA'
export const SLACK_CHANNEL = 'C0TEAM'
export const SLACK_GROUP = 'C0GROUP'
const KINDS: Readonly<Record<string, readonly [type: string, path: string, name?: string]>> = {
  [SLACK_DM]: ['im', 'dm'],
  [SLACK_CHANNEL]: ['channel', 'channel', 'the-team'],
  [SLACK_GROUP]: ['mpim', 'group', 'mpdm-mia--noah--ada-1'],
}
const TEXT_MAX = 12_000

type Json = Record<string, unknown>

export interface SlackServer extends PlatformStandIn {
  readonly url: string
  /** Calls of the Web API, in order. */
  readonly calls: readonly { readonly method: string; readonly params: Json }[]
  /** Ids of envelopes that were confirmed. */
  readonly confirmed: ReadonlySet<string>
  /** Headers of requests for files. */
  readonly downloads: readonly (string | undefined)[]
  readonly pinned: ReadonlySet<string>
  readonly reactions: ReadonlyMap<string, readonly string[]>
  /** All messages of a channel, also those of people. */
  readonly messages: readonly Json[]
  /** Statuses of all attempts to deliver by the Events API. */
  readonly deliveries: readonly number[]
  deliverTo(url: string): void
  connections(): number
  /** Sends an event as Slack does; returns the id of its envelope. */
  event(event: Json): string
  envelope(type: string, payload: unknown): string
  /** Sends text that is no envelope. */
  raw(text: string): void
  /** Adds a message of a person; `isQuiet`: only to the history. */
  write(message: Json, options?: { readonly isQuiet?: boolean }): string
  /** What Slack sends before it ends a connection. */
  announceEnd(reason: string): void
  /** Ends all connections without a word, and refuses others until the next call with false. */
  cut(isDown?: boolean): void
  /** Answers the next calls of a method with this error. */
  refuse(method: string, error: string, more?: Json, times?: number): void
  /** Rights of the token of the bot. */
  scopes: readonly string[]
  /** How often a file that was sent must be asked for until it has its message. */
  shareAfter: number
}

export async function openSlackServer(
  t: CleanupScope,
  { channel = SLACK_DM, receive }: { readonly channel?: string; readonly receive?: 'events' } = {},
): Promise<SlackServer> {
  const messages: Json[] = []
  const files = new Map<string, Json & { bytes: Uint8Array }>()
  const calls: { method: string; params: Json }[] = []
  const confirmed = new Set<string>()
  const downloads: (string | undefined)[] = []
  const pinned = new Set<string>()
  const reactions = new Map<string, string[]>()
  const refused = new Map<string, { error: string; more: Json; times: number }>()
  const sockets = new Set<WebSocket>()
  /** Not confirmed, by the id of the envelope. */
  const open = new Map<string, { type: string; payload: unknown; attempt: number; on: WebSocket | undefined }>()
  let [count, isRevoked, isDown]: [number, boolean, boolean] = [0, false, false]
  let fault: SendFault | undefined
  let last: { type: string; payload: unknown } | undefined
  const server = createServer((request, response) => {
    handle(request, response).catch(() => request.socket.destroy())
  })
  const sockers = new WebSocketServer({ server, path: '/link' })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`

  const nextTime = (): string => `${Math.floor(Date.now() / 1000)}.${String(++count).padStart(6, '0')}`
  const send = (
    id: string,
    socket: WebSocket,
    { type, payload, attempt }: { type: string; payload: unknown; attempt: number },
  ): void =>
    socket.send(
      JSON.stringify({
        ...{ envelope_id: id, type, payload, accepts_response_payload: type !== 'events_api' },
        ...(attempt > 0 ? { retry_attempt: attempt, retry_reason: 'timeout' } : {}),
      }),
    )
  let webhookUrl: string | undefined
  const sender = new WebhookSender<{ type: string; payload: unknown }>(t, ({ type, payload }, attempt) => {
    if (webhookUrl === undefined) return undefined
    const retry = { 'X-Slack-Retry-Num': String(attempt), 'X-Slack-Retry-Reason': 'http_error' }
    const call = signSlackRequest(type, payload)
    return { url: webhookUrl, ...call, headers: { ...call.headers, ...(attempt > 0 ? retry : {}) } }
  })
  const envelope = (type: string, payload: unknown, attempt = 0): string => {
    const id = `envelope-${++count}`
    last = { type, payload }
    if (receive) {
      sender.add(last)
      return id
    }
    const [on] = [...sockets].reverse()
    open.set(id, { type, payload, attempt, on })
    if (on) send(id, on, { type, payload, attempt })
    return id
  }
  const event = (body: Json): string =>
    envelope('events_api', {
      ...{ type: 'event_callback', team_id: SLACK_TEAM, api_app_id: BOT.app_id, event_id: `Ev${++count}`, event: body },
    })
  sockers.on('connection', (socket) => {
    if (isDown) return socket.terminate()
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('message', (data) => {
      const { envelope_id: id } = JSON.parse(String(data))
      confirmed.add(String(id))
      open.delete(String(id))
    })
    socket.send(
      JSON.stringify({ type: 'hello', num_connections: sockets.size, connection_info: { app_id: BOT.app_id } }),
    )
    // Slack keeps no order among those that it repeats.
    for (const [id, waiting] of [...open].reverse())
      if (waiting.on?.readyState !== socket.OPEN) {
        open.set(id, { ...waiting, on: socket, attempt: waiting.attempt + 1 })
        send(id, socket, { ...waiting, attempt: waiting.attempt + 1 })
      }
  })

  const typeOf = (id: unknown): string | undefined => KINDS[String(id)]?.[0]
  const write = (message: Json, { isQuiet = false } = {}): string => {
    const added: Json = { type: 'message', channel, user: SLACK_PERSON, ts: nextTime(), ...message }
    messages.push(added)
    const root = messages.find(({ ts }) => ts === added.thread_ts)
    if (root && root !== added)
      Object.assign(root, { thread_ts: root.ts, reply_count: Number(root.reply_count ?? 0) + 1 })
    if (!isQuiet) event({ ...added, channel_type: typeOf(added.channel), event_ts: added.ts })
    return String(added.ts)
  }
  const authorOf = (by: PlatformEvent['by']): Json => {
    if (by === 'self') return { user: BOT.user_id, bot_id: BOT.bot_id }
    return by === 'bot' ? { user: 'U0OTHER', bot_id: 'B0OTHER', bot_profile: { name: 'Other' } } : {}
  }
  const addFile = (file: { name: string; type: string; bytes: Uint8Array }): Json => {
    const id = `F0FILE${++count}`
    const shown = { id, name: file.name, mimetype: file.type, size: file.bytes.length, mode: 'hosted' }
    const members = { ...shown, url_private: `${url}/files/${id}`, url_private_download: `${url}/files/${id}/download` }
    files.set(id, { ...members, bytes: file.bytes })
    return members
  }
  const find = (ts: unknown, where: unknown = channel): Json => {
    const found = messages.find((message) => message.ts === ts && message.channel === where)
    if (!found) throw new SlackError('message_not_found')
    return found
  }
  const changed = (message: Json, before: Json): string =>
    event({
      ...{ type: 'message', subtype: 'message_changed', hidden: true, channel: message.channel, ts: nextTime() },
      ...{ channel_type: typeOf(message.channel), message, previous_message: before },
    })
  const remove = (message: Json): void => {
    messages.splice(messages.indexOf(message), 1)
    event({
      ...{ type: 'message', subtype: 'message_deleted', hidden: true, channel: message.channel, ts: nextTime() },
      ...{ channel_type: typeOf(message.channel), deleted_ts: message.ts, previous_message: message },
    })
  }
  const pageOf = (found: readonly Json[], params: Json): Json => {
    const [oldest, latest, from] = [
      Number(params.oldest ?? 0),
      Number(params.latest ?? 1e12),
      Number(params.cursor ?? 0),
    ]
    const isInclusive = params.inclusive === 'true'
    const within = found.filter(({ ts }) => {
      const at = Number(ts)
      return isInclusive ? at >= oldest && at <= latest : at > oldest && at < latest
    })
    const to = from + Number(params.limit ?? 100)
    const shown = within.slice(from, to).map(({ channel: _, metadata, ...message }) => ({
      ...message,
      ...(params.include_all_metadata === 'true' ? { metadata } : {}),
    }))
    const next_cursor = to < within.length ? String(to) : ''
    return { messages: shown, has_more: next_cursor !== '', response_metadata: { next_cursor } }
  }
  const mustBeChat = (id: unknown): string => {
    if (typeOf(id) === undefined) throw new SlackError('channel_not_found')
    return String(id)
  }
  const reacted = ({ name, timestamp }: Json): string[] => {
    find(timestamp)
    const given = reactions.get(String(timestamp)) ?? []
    if (given.includes(String(name))) throw new SlackError('already_reacted')
    return [...given, String(name)]
  }

  const METHODS: Readonly<Record<string, (params: Json) => Json>> = {
    'auth.test': () => ({
      url: `${url}/`,
      team: 'The workspace',
      team_id: SLACK_TEAM,
      user: 'ada',
      ...BOT,
      app_id: undefined,
    }),
    'bots.info': () => ({ bot: { id: BOT.bot_id, name: 'ada', app_id: BOT.app_id } }),
    'users.info': ({ user }) => {
      const name = USERS[String(user)]
      if (name === undefined) throw new SlackError('user_not_found')
      return { user: { id: user, name: name.toLowerCase(), profile: { display_name: name, real_name: name } } }
    },
    'conversations.info': ({ channel: id }) => {
      const [type, , name] = KINDS[mustBeChat(id)] ?? []
      return { channel: { id, name, is_mpim: type === 'mpim', is_im: type === 'im' } }
    },
    'apps.connections.open': () => ({ url: `${url.replace('http', 'ws')}/link?ticket=${++count}` }),
    'chat.postMessage': (params) => {
      const { channel: to, markdown_text: markdown, text, thread_ts, metadata, blocks, attachments, username } = params
      if (markdown !== undefined && (text ?? blocks) !== undefined) throw new SlackError('markdown_text_conflict')
      if (String(markdown ?? '').length > TEXT_MAX) throw new SlackError('msg_too_long')
      const shown = { thread_ts, metadata, blocks, attachments, username }
      const ts = write({ channel: mustBeChat(to), ...authorOf('self'), text: markdown ?? text, ...shown })
      return { channel: to, ts }
    },
    'chat.update': ({ channel: to, ts, markdown_text: markdown, text, blocks }) => {
      const found = find(ts, to)
      if (found.bot_id !== BOT.bot_id) throw new SlackError('cant_update_message')
      const before = { ...found }
      Object.assign(found, { text: markdown ?? text, blocks, edited: { user: BOT.user_id, ts: nextTime() } })
      changed(found, before)
      return { ts }
    },
    'chat.delete': ({ channel: from, ts }) => {
      remove(find(ts, from))
      return {}
    },
    'chat.getPermalink': ({ channel: of, message_ts: ts }) => {
      find(ts, of)
      return { permalink: `https://the-workspace.slack.com/archives/${of}/p${String(ts).replace('.', '')}` }
    },
    'reactions.add': (params) => {
      reactions.set(String(params.timestamp), reacted(params))
      return {}
    },
    'pins.add': ({ timestamp }) => {
      find(timestamp)
      if (pinned.has(String(timestamp))) throw new SlackError('already_pinned')
      pinned.add(String(timestamp))
      return {}
    },
    'pins.remove': ({ timestamp }) => {
      if (!pinned.delete(String(timestamp))) throw new SlackError('no_pin')
      return {}
    },
    'pins.list': () => ({ items: [...pinned].map((ts) => ({ type: 'message', message: { ts } })) }),
    'files.getUploadURLExternal': ({ filename, length }) => {
      const id = `F0UP${++count}`
      files.set(id, { id, name: filename, size: Number(length), bytes: new Uint8Array() })
      return { upload_url: `${url}/upload/${id}`, file_id: id }
    },
    'files.completeUploadExternal': ({ files: given, channel_id, thread_ts, initial_comment }) => {
      const [{ id = '' } = {}] = given as { id?: string }[]
      const file = files.get(id)
      if (!file || file.bytes.length !== file.size) throw new SlackError('file_not_found')
      const { bytes: _, ...shown } = file
      const members = { text: initial_comment ?? '', thread_ts, files: [shown] }
      const ts = write({ channel: mustBeChat(channel_id), ...authorOf('self'), ...members, subtype: 'file_share' })
      Object.assign(file, { shares: { private: { [String(channel_id)]: [{ ts }] } }, asked: 0 })
      return { files: [{ id, title: file.name }] }
    },
    'files.info': ({ file: id }) => {
      const found = files.get(String(id))
      if (!found || (String(id).startsWith('F0UP') && found.shares === undefined))
        throw new SlackError('file_not_found')
      const { bytes: _, asked, shares, ...file } = found
      found.asked = Number(asked) + 1
      return { file: { ...file, shares: Number(asked) < state.shareAfter ? {} : shares } }
    },
    'conversations.history': (params) => {
      const of = mustBeChat(params.channel)
      // Answers in threads are not in it, and the newest is the first.
      const top = messages.filter(({ channel: at, thread_ts, ts }) => at === of && (!thread_ts || thread_ts === ts))
      return pageOf(top.toReversed(), params)
    },
    'conversations.replies': (params) => {
      const of = mustBeChat(params.channel)
      const found = messages.filter(
        ({ channel: at, thread_ts, ts }) => at === of && (ts === params.ts || thread_ts === params.ts),
      )
      if (found.length === 0) throw new SlackError('thread_not_found')
      const root = found.find(({ ts }) => ts === params.ts)
      const page = pageOf(
        found.filter((each) => each !== root),
        params,
      )
      return { ...page, messages: [...(root ? [root] : []), ...(page.messages as Json[])] }
    },
    'assistant.threads.setStatus': () => ({}),
    'assistant.threads.setSuggestedPrompts': () => ({}),
    'assistant.threads.setTitle': () => ({}),
  }
  const SENDING = ['chat.postMessage', 'files.completeUploadExternal']

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = request.url ?? ''
    const bytes = await readBytes(request)
    const answer = (body: Json, status = 200, headers: Record<string, string> = {}): void => {
      response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(body))
    }
    if (path.startsWith('/upload/')) {
      const file = files.get(path.slice('/upload/'.length))
      if (file) file.bytes = bytes
      return void response.end('OK')
    }
    const bearer = request.headers.authorization
    if (path.startsWith('/files/')) {
      downloads.push(bearer)
      const file = files.get(path.split('/')[2] ?? '')
      if (bearer !== `Bearer ${SLACK_TOKENS.bot_token}` || !file)
        return void response.writeHead(302, { Location: `${url}/login` }).end()
      return void response.end(file.bytes)
    }
    const method = path.replace('/api/', '')
    const params = readForm(bytes.toString(), request.headers['content-type'] ?? '')
    calls.push({ method, params })
    const token = method === 'apps.connections.open' ? SLACK_TOKENS.app_token : SLACK_TOKENS.bot_token
    if (bearer !== `Bearer ${token}` || isRevoked) return answer({ ok: false, error: 'invalid_auth' })
    const refusal = refused.get(method)
    if (refusal && refusal.times-- > 0) {
      const { error, more } = refusal
      if (error === 'ratelimited') return answer({ ok: false, error }, 429, { 'Retry-After': String(more.seconds) })
      return answer({ ok: false, error, ...more })
    }
    const now = SENDING.includes(method) ? fault : undefined
    if (SENDING.includes(method)) fault = undefined
    if (now === 'lost before') return void request.socket.destroy()
    if (now === 'error') return answer({}, 502)
    if (typeof now === 'object')
      return answer(
        { ok: false, error: 'ratelimited' },
        429,
        now.limited === undefined ? {} : { 'Retry-After': String(now.limited) },
      )
    try {
      const result = METHODS[method]?.(params)
      if (now === 'lost after') return void request.socket.destroy()
      if (!result) return answer({ ok: false, error: 'unknown_method' })
      answer({ ok: true, ...result }, 200, { 'x-oauth-scopes': state.scopes.join(',') })
    } catch (error) {
      if (!(error instanceof SlackError)) throw error
      answer({ ok: false, error: error.message })
    }
  }
  const react = (type: string, ts: string): void => {
    const item = { type: 'message', channel: find(ts).channel, ts }
    event({ type, user: SLACK_PERSON, reaction: '+1', item, item_user: SLACK_PERSON, event_ts: nextTime() })
  }
  const cut = (down = false): void => {
    isDown = down
    for (const socket of sockets) socket.terminate()
    sockets.clear()
  }
  t.after(() => {
    cut(true)
    server.closeAllConnections()
    server.close()
  })
  const state: SlackServer = {
    url,
    account: receive
      ? {
          settings: { receive },
          secrets: { bot_token: SLACK_TOKENS.bot_token, signing_secret: SLACK_SIGNING_SECRET },
          apiUrl: url,
        }
      : { settings: {}, secrets: SLACK_TOKENS, apiUrl: url },
    deliverTo: (to) => {
      webhookUrl = to
      sender.wake()
    },
    deliveries: sender.statuses,
    chat: `${SLACK_TEAM}/${KINDS[channel]?.[1]}/${channel}`,
    person: `slack:${SLACK_TEAM}/user/${SLACK_PERSON}`,
    get sent() {
      return messages.filter(({ bot_id }) => bot_id === BOT.bot_id).map(shownMessage)
    },
    clearSent: () => {
      messages.length = 0
      calls.length = 0
      downloads.length = 0
      pinned.clear()
      reactions.clear()
      refused.clear()
    },
    ...{ calls, confirmed, downloads, pinned, reactions, messages },
    ...{ event, envelope, write, cut },
    connections: () => sockets.size,
    raw: (text) => {
      for (const socket of sockets) socket.send(text)
    },
    say: ({ text, by, replyTo, file }) =>
      write({
        ...authorOf(by),
        text: text ?? '',
        thread_ts: replyTo,
        ...(file ? { subtype: 'file_share', files: [addFile(file)] } : {}),
      }),
    edit: (id, text) => {
      const found = find(id)
      const before = { ...found }
      Object.assign(found, { text, edited: { user: SLACK_PERSON, ts: nextTime() } })
      changed(found, before)
    },
    remove: (id) => remove(find(id)),
    react: (id) => react('reaction_added', id),
    unreact: (id) => react('reaction_removed', id),
    buttonsOf: (id) => buttonsIn(messages.find(({ ts }) => ts === id)?.blocks),
    press: (id, value) => {
      const { channel } = find(id)
      envelope('interactive', {
        ...{
          type: 'block_actions',
          user: { id: SLACK_PERSON, name: 'mia' },
          channel: { id: channel, name: 'the-team' },
        },
        ...{ message: { ts: id }, container: { message_ts: id }, trigger_id: '12321423423.333649436676' },
        actions: [{ type: 'button', action_id: 'svc_0', value, action_ts: nextTime() }],
      })
    },
    failNext: (next) => {
      fault = next
    },
    revoke: () => {
      isRevoked = true
    },
    repeat: () => {
      if (last) envelope(last.type, last.payload, 1)
    },
    announceEnd: (reason) => {
      for (const socket of sockets)
        socket.send(JSON.stringify({ type: 'disconnect', reason, debug_info: { host: 'wss-111.slack.com' } }))
    },
    refuse: (method, error, more = {}, times = 1) => void refused.set(method, { error, more, times }),
    scopes: SLACK_SCOPES,
    shareAfter: 1,
  }
  return state
}

function shownMessage({ ts, channel, text, thread_ts, files }: Json): PlatformMessage {
  const given = (files ?? []) as { name: string; size: number }[]
  return {
    id: String(ts),
    chat: `${SLACK_TEAM}/${KINDS[String(channel)]?.[1]}/${channel}`,
    text: String(text ?? ''),
    ...(thread_ts === undefined || thread_ts === ts ? {} : { threadId: String(thread_ts), replyTo: String(thread_ts) }),
    ...(given.length === 0 ? {} : { files: given.map(({ name, size }) => ({ name, bytes: size })) }),
  }
}

function buttonsIn(blocks: unknown): string[] {
  const all = (Array.isArray(blocks) ? blocks : []) as { type: string; elements?: { value: string }[] }[]
  return all.flatMap(({ type, elements = [] }) => (type === 'actions' ? elements.map(({ value }) => value) : []))
}

/** A request of the Events API: presses and commands are forms. */
export function signSlackRequest(
  type: string,
  payload: unknown,
  { at = Math.floor(Date.now() / 1000), secret = SLACK_SIGNING_SECRET } = {},
): { readonly headers: Record<string, string>; readonly body: string } {
  const json = JSON.stringify(payload)
  const command = new URLSearchParams(payload as Record<string, string>)
  const form = type === 'interactive' ? new URLSearchParams({ payload: json }) : command
  const body = type === 'events_api' ? json : String(form)
  const signature = createHmac('sha256', secret).update(`v0:${at}:${body}`).digest('hex')
  const headers = {
    'Content-Type': type === 'events_api' ? 'application/json' : 'application/x-www-form-urlencoded',
    'X-Slack-Request-Timestamp': String(at),
    'X-Slack-Signature': `v0=${signature}`,
  }
  return { headers, body }
}

class SlackError extends Error {}

async function readBytes(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Objects are JSON in the fields of a form. */
function readForm(text: string, type: string): Json {
  if (!type.startsWith('application/x-www-form-urlencoded')) return {}
  return Object.fromEntries(
    [...new URLSearchParams(text)].map(([name, value]) => [
      name,
      /^(?:[[{])/.test(value) && isJsonField(name) ? JSON.parse(value) : value,
    ]),
  )
}

function isJsonField(name: string): boolean {
  return ['metadata', 'blocks', 'attachments', 'files', 'prompts'].includes(name)
}
