// A local server of Discord's REST API and gateway, with what matters of their semantics: sessions that are resumed from a sequence and end,
// nonces that are known for a while, rate limits with retry_after, closing codes, files by signed address, messages of channels by page.
// The shapes are those of Discord's documentation.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type WebSocket, WebSocketServer } from 'ws'
import type {
  PlatformEvent,
  PlatformMessage,
  PlatformStandIn,
  SendFault,
} from '../../src/channels/process/connector.contract.ts'
import type { CleanupScope } from './temp.ts'
import { until } from './until.ts'

export const DISCORD_TOKEN = 'MTIzNDU2Nzg5MDEyMzQ1Njc4OQ.GStand.in-token-of-the-bot-0123456789abcdef'
export const DISCORD_BOT = { id: '123456789012345678', username: 'ada_test', global_name: null, bot: true }
export const DISCORD_PERSON = { id: '420000000000000042', username: 'mia', global_name: 'Mia Berg' }
const OTHER_BOT = { id: '770000000000000077', username: 'other', global_name: null, bot: true }
export const DISCORD_GUILD = '200000000000000002'
export const DISCORD_CHANNEL = '300000000000000003'
export const DISCORD_THREAD = '310000000000000031'
export const DISCORD_DIRECT = '400000000000000004'
export const DISCORD_ROLE = '500000000000000005'
const EPOCH = 1_420_070_400_000n
const CONTENT_INTENT = 1 << 15

type Json = Record<string, unknown>

export interface SentDiscordMessage extends PlatformMessage {
  text: string
  readonly body: Json
  buttons: readonly string[]
}

export interface DiscordServer extends PlatformStandIn {
  readonly url: string
  readonly sent: readonly SentDiscordMessage[]
  /** Requests in order, without those of files. */
  readonly calls: readonly { readonly method: string; readonly path: string; readonly body: Json }[]
  /** Sends an event to the bot. */
  dispatch(type: string, data: Json): void
  /** A message as the gateway sends it, of the channel of the stand-in. It is in the history, too. */
  message(members: Json): Json & { readonly id: string }
  /** In the history only, as if it was written while the bot had no session. */
  missed(members: Json): Json & { readonly id: string }
  /** Ends all sessions, so that none can be resumed. */
  endSessions(): void
  /** Closes the connections with this code. */
  disconnect(code: number): void
  /** Sends a frame as it is. */
  frame(text: string): void
  /** Refuses the next request whose method and path contain this. */
  refuse(call: string, status: number, body: Json): void
  forgetNonces(): void
  setFlags(flags: number): void
  /** How often the bot has identified and resumed. */
  readonly logins: { identified: number; resumed: number }
  readonly pinned: ReadonlySet<string>
  readonly reactions: ReadonlyMap<string, readonly string[]>
  readonly commands: readonly Json[]
  readonly answers: readonly { readonly id: string; readonly body: Json }[]
}

interface Session {
  readonly id: string
  readonly events: { s: number; t: string; d: Json }[]
  socket: WebSocket | undefined
  isOver: boolean
}

interface StoredMessage {
  readonly data: Json & { readonly id: string }
  readonly channel: string
  sent?: SentDiscordMessage
  isDeleted: boolean
}

class ApiFault extends Error {
  readonly status: number
  readonly code: number

  constructor(status: number, code: number, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

export async function openDiscordServer(
  t: CleanupScope,
  { inGuild = false }: { readonly inGuild?: boolean } = {},
): Promise<DiscordServer> {
  const sessions: Session[] = []
  const messages: StoredMessage[] = []
  const files = new Map<string, Uint8Array>()
  const calls: { method: string; path: string; body: Json }[] = []
  const pinned = new Set<string>()
  const reactions = new Map<string, string[]>()
  const nonces = new Map<string, StoredMessage>()
  const refusals = new Map<string, { status: number; body: Json }>()
  const answers: { id: string; body: Json }[] = []
  const logins = { identified: 0, resumed: 0 }
  let commands: Json[] = []
  let [count, isRevoked, flags]: [number, boolean, number] = [0, false, 1 << 19]
  let fault: SendFault | undefined
  let last: { type: string; data: Json } | undefined
  const channel = inGuild ? DISCORD_CHANNEL : DISCORD_DIRECT
  const place: Json = inGuild ? { guild_id: DISCORD_GUILD } : {}

  const newId = (): string => String(((BigInt(Date.now()) - EPOCH) << 22n) + BigInt(++count))
  const channels: Record<string, Json> = {
    [DISCORD_CHANNEL]: { id: DISCORD_CHANNEL, type: 0, guild_id: DISCORD_GUILD, name: 'general' },
    [DISCORD_THREAD]: {
      ...{ id: DISCORD_THREAD, type: 11, guild_id: DISCORD_GUILD, name: 'plans', parent_id: DISCORD_CHANNEL },
    },
    [DISCORD_DIRECT]: { id: DISCORD_DIRECT, type: 1, recipients: [DISCORD_PERSON] },
  }
  const roles = [
    { id: DISCORD_GUILD, name: '@everyone' },
    { id: DISCORD_ROLE, name: 'Ada', managed: true, tags: { bot_id: DISCORD_BOT.id } },
    { id: '510000000000000051', name: 'team' },
  ]
  const lastIn = (id: string): string | undefined => messages.findLast((each) => each.channel === id)?.data.id
  const guild = (): Json => ({
    ...{ id: DISCORD_GUILD, name: 'The server', joined_at: '2024-01-01T00:00:00.000000+00:00', roles },
    channels: [{ ...channels[DISCORD_CHANNEL], guild_id: undefined, last_message_id: lastIn(DISCORD_CHANNEL) ?? null }],
    threads: [{ ...channels[DISCORD_THREAD], last_message_id: lastIn(DISCORD_THREAD) ?? null }],
  })

  const push = (session: Session, type: string, d: Json): void => {
    const event = { s: session.events.length + 1, t: type, d }
    session.events.push(event)
    session.socket?.send(JSON.stringify({ op: 0, ...event }))
  }
  const dispatch = (type: string, data: Json): void => {
    last = { type, data }
    for (const session of sessions) if (!session.isOver) push(session, type, data)
  }
  const store = (members: Json): StoredMessage => {
    const id = typeof members.id === 'string' ? members.id : newId()
    const data = {
      ...{ type: 0, channel_id: channel, author: DISCORD_PERSON, content: '', timestamp: new Date().toISOString() },
      ...{ edited_timestamp: null, tts: false, mention_everyone: false, mentions: [], mention_roles: [] },
      ...{ attachments: [], embeds: [], pinned: false, flags: 0, components: [] },
      ...members,
      id,
    }
    const stored: StoredMessage = { data, channel: String(data.channel_id), isDeleted: false }
    messages.push(stored)
    return stored
  }
  const live = (data: Json): Json => {
    const isOfGuild = channels[String(data.channel_id)]?.guild_id !== undefined
    return isOfGuild ? { ...data, guild_id: DISCORD_GUILD, member: { nick: null, roles: [] } } : data
  }
  const message = (members: Json): Json & { id: string } => {
    const { data } = store(members)
    dispatch('MESSAGE_CREATE', live(data))
    return data
  }
  const find = (id: string): StoredMessage => {
    const found = messages.find(({ data, isDeleted }) => data.id === id && !isDeleted)
    if (!found) throw new ApiFault(404, 10_008, 'Unknown Message')
    return found
  }
  const findIn = (channelId: string, id: string): StoredMessage => {
    const found = find(id)
    if (found.channel !== channelId) throw new ApiFault(404, 10_008, 'Unknown Message')
    return found
  }

  const authors = { person: DISCORD_PERSON, bot: OTHER_BOT, self: DISCORD_BOT }
  const say = async ({ text = '', by = 'person', replyTo, file }: PlatformEvent): Promise<string> => {
    await until(() => sessions.length > 0)
    const id = newId()
    const replied = messages.find(({ data }) => data.id === replyTo)?.data
    const attachments = []
    if (file) {
      files.set(`/attachments/${channel}/${id}/${file.name}`, file.bytes)
      const address = `${url}/attachments/${channel}/${id}/${file.name}?ex=1&is=1&hm=1`
      attachments.push({ id, filename: file.name, content_type: file.type, size: file.bytes.length, url: address })
    }
    message({
      ...{ id, content: text, author: authors[by], attachments },
      ...(replied
        ? {
            type: 19,
            message_reference: { type: 0, message_id: replyTo, channel_id: channel },
            referenced_message: replied,
          }
        : {}),
    })
    return id
  }

  const create = (channelId: string, body: Json, file?: { name: string; bytes: number }): StoredMessage => {
    if (!channels[channelId]) throw new ApiFault(404, 10_003, 'Unknown Channel')
    const content = String(body.content ?? '')
    if ([...content].length > 2000) throw new ApiFault(400, 50_035, 'Invalid Form Body')
    if (typeof body.nonce === 'string' && body.nonce.length > 25) throw new ApiFault(400, 50_035, 'Invalid Form Body')
    const known = body.enforce_nonce === true ? nonces.get(String(body.nonce)) : undefined
    if (known) return known
    const reference = body.message_reference as Json | undefined
    const stored = store({ channel_id: channelId, author: DISCORD_BOT, content, message_reference: reference })
    const isReply = reference !== undefined && reference.type !== 1
    stored.sent = {
      id: stored.data.id,
      chat: channelId === DISCORD_DIRECT ? `dm/${channelId}` : `${DISCORD_GUILD}/${DISCORD_CHANNEL}`,
      text: content,
      body,
      buttons: buttonsOf(body),
      ...(isReply ? { replyTo: String(reference.message_id) } : {}),
      ...(channelId === DISCORD_THREAD ? { threadId: channelId } : {}),
      ...(file ? { files: [file] } : {}),
    }
    nonces.set(String(body.nonce), stored)
    dispatch('MESSAGE_CREATE', { ...live(stored.data), nonce: body.nonce })
    return stored
  }

  const page = (channelId: string, query: URLSearchParams): Json[] => {
    if (!channels[channelId]) throw new ApiFault(404, 10_003, 'Unknown Channel')
    const limit = Math.min(Number(query.get('limit') ?? 50), 100)
    const [after, before] = [query.get('after'), query.get('before')]
    const all = messages.filter((each) => each.channel === channelId && !each.isDeleted).map(({ data }) => data)
    const found = all
      .filter(
        ({ id }) => (after === null || BigInt(id) > BigInt(after)) && (before === null || BigInt(id) < BigInt(before)),
      )
      .sort((a, b) => (BigInt(a.id) < BigInt(b.id) ? -1 : 1))
    return (after === null ? found.slice(-limit) : found.slice(0, limit)).reverse()
  }

  type Route = (
    parts: readonly string[],
    request: { body: Json; query: URLSearchParams; file?: { name: string; bytes: number } },
  ) => unknown
  const ROUTES: readonly (readonly [string, RegExp, Route])[] = [
    [
      'GET',
      /^\/gateway\/bot$/,
      () => ({ url: url.replace('http', 'ws'), shards: 1, session_start_limit: START_LIMIT }),
    ],
    ['GET', /^\/users\/@me$/, () => DISCORD_BOT],
    ['GET', /^\/applications\/@me$/, () => ({ id: DISCORD_BOT.id, name: 'Ada', flags, bot_require_code_grant: false })],
    [
      'PUT',
      /^\/applications\/\d+\/commands$/,
      (_, { body }) => {
        commands = Array.isArray(body) ? body : []
        return commands
      },
    ],
    ['GET', /^\/channels\/(\d+)$/, ([id = '']) => channels[id] ?? unknownChannel()],
    ['GET', /^\/guilds\/(\d+)\/roles$/, () => roles],
    ['GET', /^\/channels\/(\d+)\/messages$/, ([id = ''], { query }) => page(id, query)],
    ['POST', /^\/channels\/(\d+)\/messages$/, ([id = ''], { body, file }) => create(id, body, file).data],
    ['POST', /^\/channels\/(\d+)\/typing$/, () => undefined],
    [
      'PATCH',
      /^\/channels\/(\d+)\/messages\/(\d+)$/,
      ([place = '', id = ''], { body }) => {
        const { sent, data } = findIn(place, id)
        if (!sent) throw new ApiFault(403, 50_005, 'Cannot edit a message authored by another user')
        sent.text = String(body.content)
        sent.buttons = buttonsOf(body)
        return data
      },
    ],
    [
      'DELETE',
      /^\/channels\/(\d+)\/messages\/(\d+)$/,
      ([place = '', id = '']) => {
        findIn(place, id).isDeleted = true
        dispatch('MESSAGE_DELETE', live({ id, channel_id: place }))
      },
    ],
    [
      'PUT',
      /^\/channels\/(\d+)\/messages\/(\d+)\/reactions\/([^/]+)\/@me$/,
      ([place = '', id = '', emoji = '']) => {
        findIn(place, id)
        const name = decodeURIComponent(emoji)
        if (/^[a-z ]+$/.test(name)) throw new ApiFault(400, 10_014, 'Unknown Emoji')
        reactions.set(id, [...(reactions.get(id) ?? []), name])
      },
    ],
    [
      'PUT',
      /^\/channels\/(\d+)\/messages\/pins\/(\d+)$/,
      ([place = '', id = '']) => {
        findIn(place, id)
        pinned.add(id)
      },
    ],
    ['DELETE', /^\/channels\/(\d+)\/messages\/pins\/(\d+)$/, ([, id = '']) => void pinned.delete(id)],
    [
      'GET',
      /^\/channels\/(\d+)\/messages\/pins$/,
      () => ({ items: [...pinned].map((id) => ({ pinned_at: '', message: find(id).data })), has_more: false }),
    ],
    ['POST', /^\/interactions\/(\d+)\/([^/]+)\/callback$/, ([id = ''], { body }) => void answers.push({ id, body })],
  ]
  const unknownChannel = (): never => {
    throw new ApiFault(404, 10_003, 'Unknown Channel')
  }

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://discord')
    const bytes = files.get(decodeURIComponent(pathname))
    if (bytes) return void response.writeHead(200).end(bytes)
    const answer = (status: number, body?: unknown, headers: Record<string, string> = {}): void => {
      if (body === undefined) response.writeHead(204).end()
      else response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(body))
    }
    const { body, file } = await readBody(request)
    const method = request.method ?? ''
    const path = pathname.replace(/^\/v10/, '')
    calls.push({ method, path, body })
    const hasToken = request.headers.authorization === `Bot ${DISCORD_TOKEN}`
    if (!hasToken || isRevoked) return answer(401, { message: '401: Unauthorized', code: 0 })
    const refusal = [...refusals].find(([call]) => `${method} ${path}`.includes(call))
    if (refusal) {
      refusals.delete(refusal[0])
      return answer(refusal[1].status, refusal[1].body)
    }
    const isSend = method === 'POST' && /^\/channels\/\d+\/messages$/.test(path)
    const now = isSend ? fault : undefined
    if (isSend) fault = undefined
    if (now === 'lost before') return void request.socket.destroy()
    if (now === 'error') return answer(502, { message: '502: Bad Gateway', code: 0 })
    if (typeof now === 'object') {
      const { limited } = now
      const headers = limited === undefined ? {} : { 'Retry-After': String(limited), 'X-RateLimit-Scope': 'user' }
      return answer(429, { message: 'You are being rate limited.', retry_after: limited, global: false }, headers)
    }
    for (const [verb, pattern, route] of ROUTES) {
      const found = verb === method ? pattern.exec(path) : null
      if (!found) continue
      try {
        const result = route(found.slice(1), { body, query, ...(file ? { file } : {}) })
        if (now === 'lost after') return void request.socket.destroy()
        return answer(200, result)
      } catch (error) {
        if (!(error instanceof ApiFault)) throw error
        return answer(error.status, { message: error.message, code: error.code })
      }
    }
    answer(404, { message: '404: Not Found', code: 0 })
  }

  const server = createServer((request, response) => {
    handle(request, response).catch(() => request.socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`

  const gateway = new WebSocketServer({ server })
  gateway.on('connection', (socket) => {
    socket.send(JSON.stringify({ op: 10, d: { heartbeat_interval: 41_250 } }))
    socket.on('close', () => {
      for (const session of sessions) if (session.socket === socket) session.socket = undefined
    })
    socket.on('message', (text) => {
      const { op, d } = JSON.parse(String(text))
      if (op === 1) socket.send(JSON.stringify({ op: 11 }))
      if (op !== 2 && op !== 6) return
      if (d.token !== DISCORD_TOKEN || isRevoked) return socket.close(4004)
      if (op === 6) {
        const session = sessions.find(({ id, isOver }) => id === d.session_id && !isOver)
        if (!session || d.seq > session.events.length) return socket.send(JSON.stringify({ op: 9, d: false }))
        logins.resumed++
        session.socket = socket
        for (const event of session.events.slice(d.seq)) socket.send(JSON.stringify({ op: 0, ...event }))
        return push(session, 'RESUMED', {})
      }
      if ((d.intents & CONTENT_INTENT) !== 0 && (flags & ((1 << 18) | (1 << 19))) === 0) return socket.close(4014)
      logins.identified++
      const session: Session = { id: `session-${newId()}`, events: [], socket, isOver: false }
      sessions.push(session)
      push(session, 'READY', {
        ...{ v: 10, user: DISCORD_BOT, guilds: [{ id: DISCORD_GUILD, unavailable: true }] },
        ...{
          session_id: session.id,
          resume_gateway_url: url.replace('http', 'ws'),
          application: { id: DISCORD_BOT.id },
        },
      })
      push(session, 'GUILD_CREATE', guild())
    })
  })
  t.after(() => {
    for (const socket of gateway.clients) socket.terminate()
    gateway.close()
    server.closeAllConnections()
    server.close()
  })

  const reaction = (type: string, id: string, emoji: string): void =>
    dispatch(type, {
      ...{ user_id: DISCORD_PERSON.id, channel_id: find(id).channel, message_id: id, emoji: { id: null, name: emoji } },
      ...(find(id).channel === DISCORD_DIRECT ? {} : place),
    })
  return {
    url,
    account: { settings: {}, secrets: { token: DISCORD_TOKEN }, apiUrl: url },
    chat: inGuild ? `${DISCORD_GUILD}/${DISCORD_CHANNEL}` : `dm/${DISCORD_DIRECT}`,
    person: `discord:user/${DISCORD_PERSON.id}`,
    get sent() {
      return messages.flatMap(({ sent, isDeleted }) => (sent && !isDeleted ? [sent] : []))
    },
    clearSent: () => {
      messages.length = 0
      calls.length = 0
      answers.length = 0
      pinned.clear()
      reactions.clear()
      refusals.clear()
      nonces.clear()
    },
    calls,
    dispatch,
    message,
    missed: (members) => store(members).data,
    say,
    edit: (id, text) =>
      dispatch('MESSAGE_UPDATE', live({ ...find(id).data, content: text, edited_timestamp: new Date().toISOString() })),
    remove: (id) => dispatch('MESSAGE_DELETE', live({ id, channel_id: find(id).channel })),
    react: (id, emoji) => reaction('MESSAGE_REACTION_ADD', id, emoji),
    unreact: (id, emoji) => reaction('MESSAGE_REACTION_REMOVE', id, emoji),
    buttonsOf: (id) => messages.find(({ sent }) => sent?.id === id)?.sent?.buttons ?? [],
    press: (id, custom_id) =>
      dispatch('INTERACTION_CREATE', {
        ...{ id: newId(), application_id: DISCORD_BOT.id, token: 'aW50ZXJhY3Rpb24', version: 1, type: 3 },
        ...{ channel_id: find(id).channel, message: { id }, data: { component_type: 2, custom_id } },
        ...(find(id).channel === DISCORD_DIRECT
          ? { user: DISCORD_PERSON }
          : { guild_id: DISCORD_GUILD, member: { nick: 'Mia B.', user: DISCORD_PERSON } }),
      }),
    failNext: (next) => {
      fault = next
    },
    revoke: () => {
      isRevoked = true
      for (const socket of gateway.clients) socket.close(4004)
    },
    repeat: () => {
      if (last) dispatch(last.type, last.data)
    },
    endSessions: () => {
      for (const session of sessions) session.isOver = true
    },
    disconnect: (code) => {
      for (const socket of gateway.clients) socket.close(code)
    },
    frame: (text) => {
      for (const socket of gateway.clients) socket.send(text)
    },
    refuse: (call, status, body) => void refusals.set(call, { status, body }),
    forgetNonces: () => nonces.clear(),
    setFlags: (next) => {
      flags = next
    },
    logins,
    pinned,
    reactions,
    get commands() {
      return commands
    },
    answers,
  }
}

const START_LIMIT = { total: 1000, remaining: 999, reset_after: 14_400_000, max_concurrency: 1 }

function buttonsOf({ components }: Json): string[] {
  const rows = (Array.isArray(components) ? components : []) as { components: { custom_id: string }[] }[]
  return rows.flatMap((row) => row.components.map(({ custom_id }) => custom_id))
}

/** JSON, or a form with a file. */
async function readBody(request: IncomingMessage): Promise<{ body: Json; file?: { name: string; bytes: number } }> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  const bytes = Buffer.concat(chunks)
  const type = request.headers['content-type'] ?? ''
  if (!type.startsWith('multipart/')) return { body: bytes.length === 0 ? {} : JSON.parse(bytes.toString()) }
  const form = await new Response(bytes, { headers: { 'Content-Type': type } }).formData()
  const file = form.get('files[0]')
  return {
    body: JSON.parse(String(form.get('payload_json'))),
    ...(file instanceof File ? { file: { name: file.name, bytes: file.size } } : {}),
  }
}
