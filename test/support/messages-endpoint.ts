// Imitates Anthropic's Messages API on this machine, as far as Claude Code uses it: streams and complete responses,
// with texts and calls of tools.
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { CleanupScope } from './temp.ts'

export interface MessagesRequest {
  readonly headers: IncomingHttpHeaders
  readonly body: {
    readonly model: string
    readonly stream?: boolean
    readonly tools?: readonly { readonly name: string }[]
    readonly messages: readonly { readonly role: string; readonly content: string | readonly RequestBlock[] }[]
  }
}

interface RequestBlock {
  readonly type: string
  /** Of a call of a tool. */
  readonly name?: string
}

type Block =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'tool_use'; readonly id: string; readonly name: string; readonly input: object }

/** The content of a response. */
export type MessagesReply = (asked: MessagesRequest) => readonly Block[]

export interface MessagesEndpoint {
  /** Without `/v1`, as in ANTHROPIC_BASE_URL. */
  readonly url: string
  /** Requests for a message. */
  readonly asked: MessagesRequest[]
  answer(reply: MessagesReply): void
}

export async function messagesEndpoint(t: CleanupScope): Promise<MessagesEndpoint> {
  const asked: MessagesRequest[] = []
  let reply: MessagesReply = () => replyText('hello')
  const server = createServer(async (request, response) => {
    const { method, url = '', headers } = request
    const body = await text(request)
    const { pathname } = new URL(url, 'http://localhost')
    if (method !== 'POST' || pathname !== '/v1/messages') {
      if (pathname === '/v1/messages/count_tokens') return sendJson(response, 200, { input_tokens: 100 })
      return sendJson(response, 404, { type: 'error', error: { type: 'not_found_error', message: 'not here' } })
    }
    const one = { headers, body: JSON.parse(body) }
    asked.push(one)
    const message = toMessage(asked.length, one.body.model, reply(one))
    if (one.body.stream) sendStream(response, message)
    else sendJson(response, 200, message)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    answer: (next) => {
      reply = next
    },
  }
}

export function replyText(words: string): readonly Block[] {
  return [{ type: 'text', text: words }]
}

export function replyToolUse(name: string, input: object): readonly Block[] {
  return [{ type: 'tool_use', id: `toolu_${name}`, name, input }]
}

const USAGE = { input_tokens: 1000, output_tokens: 100, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }

function toMessage(number: number, model: string, content: readonly Block[]) {
  const stop_reason = content.some(({ type }) => type === 'tool_use') ? 'tool_use' : 'end_turn'
  const base = { id: `msg_${number}`, type: 'message', role: 'assistant', model, stop_sequence: null } as const
  return { ...base, content, stop_reason, usage: USAGE }
}

function sendStream(response: ServerResponse, message: ReturnType<typeof toMessage>): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const send = (type: string, members: object = {}): void =>
    void response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`)
  const { content, stop_reason, usage } = message
  const start = { ...message, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } }
  send('message_start', { message: start })
  for (const [index, block] of content.entries()) {
    const isText = block.type === 'text'
    send('content_block_start', { index, content_block: { ...block, ...(isText ? { text: '' } : { input: {} }) } })
    const delta = isText
      ? { type: 'text_delta', text: block.text }
      : { type: 'input_json_delta', partial_json: JSON.stringify(block.input) }
    send('content_block_delta', { index, delta })
    send('content_block_stop', { index })
  }
  const { output_tokens } = usage
  send('message_delta', { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens } })
  send('message_stop')
  response.end()
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}
