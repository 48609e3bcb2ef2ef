// An adapter with a platform, as a server on this machine. It records deliveries and can be scripted to
// fail like a real one.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { TestContext } from 'node:test'

/** How it handles a request. `held` delivers, and responds when it is released. */
export type Behaviour =
  | 'ok'
  | 'dropped before'
  | 'dropped after'
  | 'silent'
  | 'held'
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: unknown }

/** Or a function of the request. */
export type How = Behaviour | ((request: FakeRequest) => Behaviour)

export interface FakeRequest {
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  /** The members of a JSON body, or the fields of a form. */
  readonly body: Record<string, unknown>
  /** The files of a form. */
  readonly file?: { readonly name: string; readonly type: string; readonly text: string } | undefined
}

export interface FakeMessage {
  readonly id: string
  readonly path: string
  readonly jid: string
  readonly key: string
  content: string
  /** Ids of the buttons. */
  buttons: string[]
  reactions: string[]
  isPinned: boolean
  isDeleted: boolean
}

export interface FakeOptions {
  /** Whether a repeated key is delivered once. */
  readonly isKeyed?: boolean
  /** Paths that return 501. */
  readonly lacks?: readonly string[]
}

export interface FakeAdapter {
  readonly url: string
  readonly requests: readonly FakeRequest[]
  /** Messages that have reached the platform. */
  readonly delivered: readonly FakeMessage[]
  /** The threads with a typing indicator, '' for the main one. */
  readonly typing: ReadonlySet<string>
  /** The drafts that are shown, by turn. */
  readonly drafts: ReadonlyMap<string, string>
  /** Sets the behaviour: for all requests, or for the next ones in order. */
  behave(how: How, ...then: How[]): void
  /** Responds to held requests. */
  release(): void
  close(): Promise<void>
}

/** The capabilities of an adapter that supports everything. */
export const EVERY_CAPABILITY: Readonly<Record<string, boolean>> = Object.fromEntries(
  'send_text send_file send_voice typing draft buttons fetch_history fwd quote repost dislike edit delete pin'
    .split(' ')
    .map((name) => [name, true]),
)

const SENDING = ['/send', '/send-file', '/send-voice', '/post', '/forward', '/quote', '/repost']

export async function fakeAdapter(t: Pick<TestContext, 'after'>, options: FakeOptions = {}): Promise<FakeAdapter> {
  const { isKeyed = false, lacks = [] } = options
  const [requests, delivered]: [FakeRequest[], FakeMessage[]] = [[], []]
  const typing = new Set<string>()
  const drafts = new Map<string, string>()
  const held: (() => void)[] = []
  let [next, always]: [How[], How] = [[], 'ok']

  const platform = ({ path, body, query }: FakeRequest): { status: number; body: unknown } => {
    if (path === '/health') return { status: 200, body: { status: 'ok' } }
    if (lacks.includes(path))
      return { status: 501, body: { ok: false, error: 'unsupported', hint: 'the hint of the adapter' } }
    if (path === '/v1/history') {
      const messages = delivered
        .filter(({ jid, isDeleted }) => jid === query.get('jid') && !isDeleted)
        .map(({ id, content }, at) => ({ id, sender: 'me', content, timestamp: 1_700_000_000 + at, is_from_me: true }))
      return { status: 200, body: { source: 'platform', cap: '1000', messages: messages.reverse() } }
    }
    if (path === '/typing') {
      const thread = String(body.thread_id ?? '')
      if (body.on === true) typing.add(thread)
      else typing.delete(thread)
    }
    if (path === '/draft') {
      if (body.done === true) drafts.delete(String(body.key))
      else drafts.set(String(body.key), String(body.content))
    }
    if (path === '/send') drafts.delete(String(body.turn_id))
    if (path.startsWith('/v1/pane/') || path === '/typing' || path === '/draft')
      return { status: 200, body: { ok: true } }
    if (SENDING.includes(path)) {
      const key = String(body.key ?? '')
      const known = isKeyed ? delivered.find((message) => message.key === key) : undefined
      const message = known ?? {
        id: `p${delivered.length + 1}`,
        path,
        key,
        jid: String(body.chat_jid ?? body.target_jid),
        content: String(body.content ?? body.caption ?? body.comment ?? ''),
        buttons: Array.isArray(body.buttons) ? body.buttons.map(({ id }) => String(id)) : [],
        reactions: [],
        isPinned: false,
        isDeleted: false,
      }
      if (!known) delivered.push(message)
      return { status: 200, body: { ok: true, id: message.id } }
    }
    const on = delivered.find(({ id }) => id === body.target_id)
    if (path === '/unpin' && body.all === true) {
      for (const message of delivered) message.isPinned = false
      return { status: 200, body: { ok: true } }
    }
    if (!on) return { status: 400, body: { ok: false, error: 'there is no such message' } }
    if (path === '/like' || path === '/dislike') on.reactions.push(String(body.reaction ?? '👎'))
    else if (path === '/edit') [on.content, on.buttons] = [String(body.content), []]
    else if (path === '/delete') on.isDeleted = true
    else if (path === '/pin' || path === '/unpin') on.isPinned = path === '/pin'
    else return { status: 404, body: { ok: false, error: 'there is nothing here' } }
    return { status: 200, body: { ok: true } }
  }

  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = await read(incoming)
    const told = request.path === '/health' && always === 'ok' ? 'ok' : (next.shift() ?? always)
    const how = typeof told === 'function' ? told(request) : told
    requests.push(request)
    if (how === 'silent') return
    if (how === 'dropped before') {
      incoming.socket.destroy()
      return
    }
    if (typeof how === 'object') {
      response.writeHead(how.status, { 'Content-Type': 'application/json', ...how.headers })
      response.end(JSON.stringify(how.body ?? { ok: false, error: 'as it was told' }))
      return
    }
    const { status, body } = platform(request)
    if (how === 'dropped after') {
      incoming.socket.destroy()
      return
    }
    if (how === 'held') await new Promise<void>((resolve) => held.push(resolve))
    response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
  }

  const server = createServer((incoming, response) => {
    answer(incoming, response).catch(() => incoming.socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const release = (): void => {
    for (const go of held.splice(0)) go()
  }
  const close = async (): Promise<void> => {
    release()
    server.closeAllConnections()
    if (!server.listening) return
    server.close()
    await once(server, 'close')
  }
  t.after(close)
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    requests,
    delivered,
    typing,
    drafts,
    behave: (how, ...then) => {
      if (then.length === 0) [next, always] = [[], how]
      else [next, always] = [[how, ...then.slice(0, -1)], then.at(-1) ?? 'ok']
    },
    release,
    close,
  }
}

async function read(incoming: IncomingMessage): Promise<FakeRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk)
  const { pathname: path, searchParams: query } = new URL(incoming.url ?? '/', 'http://adapter')
  const bytes = Buffer.concat(chunks)
  const type = incoming.headers['content-type'] ?? ''
  const base = { path, query, headers: incoming.headers }
  if (!type.startsWith('multipart/')) return { ...base, body: bytes.length === 0 ? {} : JSON.parse(bytes.toString()) }
  const form = await new Response(bytes, { headers: { 'Content-Type': type } }).formData()
  const fields = [...form].filter(([, value]) => typeof value === 'string')
  const file = form.get('file')
  return {
    ...base,
    body: Object.fromEntries(fields),
    file: file instanceof File ? { name: file.name, type: file.type, text: await file.text() } : undefined,
  }
}
