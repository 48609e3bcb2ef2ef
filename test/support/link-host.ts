// A served instance with links, in this process. Tests mint links, send requests and read the store.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { TestContext } from 'node:test'
import type { Reach } from '../../src/core/access/reach.ts'
import type { Visitors } from '../../src/core/links/visitor-chats.ts'
import { type Message, messages } from '../../src/core/messages/messages.ts'
import { type Round, rounds } from '../../src/core/turns/rounds.ts'
import { routeTokensResource } from '../../src/resources/route-tokens.ts'
import { EventParser, type StreamEvent } from './event-reader.ts'
import { type EngineName, testHost } from './host.ts'
import { type ServedHost, type ServedHostOptions, serveHost } from './served-host.ts'
import { until } from './until.ts'

export interface MintedLink {
  readonly token: string
  readonly jid: string
  /** `/chat/<token>/` */
  readonly chat: string
  /** `/hook/<token>` */
  readonly hook: string
}

export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body as JSON. */
  readonly body: Record<string, unknown>
}

export interface LinkHost extends ServedHost {
  mintChat(options?: {
    folder?: string
    jid_suffix?: string
    context?: string
    tools?: Reach
    visitors?: Visitors
  }): Promise<MintedLink>
  mintHook(options?: {
    folder?: string
    source_label?: string
    jid_suffix?: string
    context?: string
  }): Promise<MintedLink>
  revoke(link: MintedLink): Promise<void>
  /** `to('POST /hook/<token>', …)`, on the listener of webd. */
  to(request: string, init?: Omit<RequestInit, 'method'>): Promise<HttpAnswer>
  /** Posts a message to the chat URL and returns its turn. */
  speak(link: MintedLink, content: string, topic?: string): Promise<string>
  /** Waits for the end of the turn. */
  ended(link: MintedLink, turn: string): Promise<Record<string, unknown>>
  messages(jid?: string): Promise<Message[]>
  rounds(): Promise<Round[]>
}

export interface LinkHostOptions extends ServedHostOptions {
  readonly engine?: EngineName
}

/** Without other daemons, messages are not answered and rounds stay open. */
export async function openLinkHost(t: TestContext, options: LinkHostOptions = {}): Promise<LinkHost> {
  const { engine = 'sqlite', on = await testHost(t, engine), daemons = ['webd'], ...rest } = options
  if (!options.on) await on.groups('main')
  const served = await serveHost(t, { on, daemons, ...rest })
  const { verbs } = routeTokensResource
  const minted = ({ token, jid }: { token: string; jid: string }): MintedLink => ({
    token,
    jid,
    chat: `/chat/${token}/`,
    hook: `/hook/${token}`,
  })
  const to: LinkHost['to'] = async (asked, init = {}) => {
    const [method = '', path = ''] = asked.split(' ')
    const answer = await fetch(served.url('webd') + path, { redirect: 'manual', ...init, method })
    const text = await answer.text()
    const isJson = answer.headers.get('content-type')?.includes('json') && text !== ''
    return { status: answer.status, headers: answer.headers, text, body: isJson ? JSON.parse(text) : {} }
  }
  return {
    ...served,
    mintChat: async ({ folder = 'main', visitors, ...input } = {}) => {
      const verb = visitors === 'apart' ? verbs.issue_apart : verbs.issue_chat
      return minted(await on.cli.call(verb, { target_folder: folder, ...input }))
    },
    mintHook: async ({ folder = 'main', source_label = 'ci', ...input } = {}) =>
      minted(await on.cli.call(verbs.issue_hook, { target_folder: folder, source_label, ...input })),
    revoke: async ({ jid }) => {
      await on.cli.call(verbs.revoke, { jid })
    },
    to,
    speak: async ({ chat }, content, topic) => {
      const { status, body, text } = await to(
        `POST ${chat}`,
        json({ content, ...(topic === undefined ? {} : { topic }) }),
      )
      assert.equal(status, 200, text)
      return String(body.turn_id)
    },
    ended: async ({ chat }, turn) => {
      // Read the frames once, at the end.
      await until(async () => {
        const { status, body, text } = await to(`GET ${chat}${turn}?after=1000000`)
        assert.equal(status, 200, text)
        return body.status !== 'pending'
      })
      return (await to(`GET ${chat}${turn}`)).body
    },
    messages: async (jid) => {
      const all = await on.host.engine.read((tx) =>
        messages.list(tx, jid === undefined ? {} : { jid }, [['seq', 'asc']]),
      )
      return all
    },
    rounds: () => on.host.engine.read((tx) => rounds.list(tx, {}, [['message_seq', 'asc']])),
  }
}

/** The init of a request with a JSON body. */
export function json(
  body: unknown,
  headers: Record<string, string> = {},
): { body: string; headers: Record<string, string> } {
  return { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', ...headers } }
}

export interface OpenStream {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly events: readonly StreamEvent[]
  /** All received text. */
  text(): string
  isOver(): boolean
  /** Resolves when this many events have arrived. */
  count(events: number): Promise<readonly StreamEvent[]>
  over(): Promise<readonly StreamEvent[]>
  cut(): void
  /** Stops reading. */
  pause(): void
  resume(): void
}

/** An event stream that stays open until it is closed. */
export async function openStream(
  t: TestContext,
  url: string,
  headers: Record<string, string> = {},
): Promise<OpenStream> {
  const asking: ClientRequest = request(url, { agent: false, headers: { Accept: 'text/event-stream', ...headers } })
  asking.on('error', () => {})
  t.after(() => void asking.destroy())
  asking.end()
  const [answer]: IncomingMessage[] = await once(asking, 'response')
  if (!answer) throw new Error('there is no answer')
  const [events, parser]: [StreamEvent[], EventParser] = [[], new EventParser()]
  const chunks: Buffer[] = []
  let isOver = false
  answer.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    events.push(...parser.push(chunk))
  })
  answer.on('error', () => {})
  answer.on('close', () => {
    isOver = true
  })
  return {
    status: answer.statusCode ?? 0,
    headers: answer.headers,
    events,
    text: () => Buffer.concat(chunks).toString(),
    isOver: () => isOver,
    count: async (wanted) => {
      await until(() => events.length >= wanted || isOver)
      assert.ok(events.length >= wanted, `it ended after ${events.length}`)
      return events
    },
    over: async () => {
      await until(() => isOver)
      return events
    },
    cut: () => void asking.destroy(),
    pause: () => void answer.pause(),
    resume: () => void answer.resume(),
  }
}
