// An OpenAI-compatible endpoint on this machine: each request gets the next response of the test.
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { CleanupScope } from './temp.ts'

export interface ReceivedRequest {
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: {
    readonly model: string
    readonly stream: boolean
    readonly tools?: readonly { function: { name: string } }[]
    readonly tool_choice?: string
    readonly messages: readonly {
      role: string
      content: string | readonly { type: string }[] | null
      tool_calls?: unknown
      tool_call_id?: string
    }[]
  }
}

export type EndpointReply = (response: ServerResponse, asked: ReceivedRequest) => unknown

export interface ChatEndpoint {
  readonly url: string
  readonly asked: ReceivedRequest[]
  /** The next responses; the last one repeats. */
  answer(...replies: EndpointReply[]): void
}

export async function chatEndpoint(t: CleanupScope): Promise<ChatEndpoint> {
  const asked: ReceivedRequest[] = []
  let replies: EndpointReply[] = []
  const server = createServer(async (request, response) => {
    const { url = '', headers } = request
    // A request for the list of models has no body.
    const one = { url, headers, body: JSON.parse((await text(request)) || '{}') }
    asked.push(one)
    const reply = replies.length > 1 ? replies.shift() : replies[0]
    await reply?.(response, one)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1`,
    asked,
    answer: (...next) => {
      replies = next
    },
  }
}

const USAGE = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 }

export function events(response: ServerResponse, chunks: readonly unknown[], isEnded = true): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const chunk of chunks) response.write(`data: ${typeof chunk === 'string' ? chunk : JSON.stringify(chunk)}\n\n`)
  if (isEnded) response.end('data: [DONE]\n\n')
}

const delta = (piece: object, finish_reason: string | null = null): object => ({
  choices: [{ index: 0, delta: piece, finish_reason }],
})

/** Streams text in pieces of a few characters; the bytes may be cut inside a character. */
export function replyText(words: string, usage: object | null = USAGE): EndpointReply {
  return (response) => {
    const pieces = words.match(/.{1,3}/gsu) ?? []
    const chunks = [
      delta({ role: 'assistant', content: '' }),
      ...pieces.map((content) => delta({ content })),
      delta({}, 'stop'),
      ...(usage ? [{ choices: [], usage }] : []),
    ]
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const bytes = Buffer.from(
      `: hello\r\n\r\n${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\r\n\r\n`).join('')}data: [DONE]\r\n\r\n`,
    )
    for (let at = 0; at < bytes.length; at += 7) response.write(bytes.subarray(at, at + 7))
    response.end()
  }
}

/** Streams tool calls whose arguments are interleaved. */
export function replyToolCalls(...calls: readonly { readonly name: string; readonly args: string }[]): EndpointReply {
  return (response) => {
    const first = calls.map(({ name }, index) =>
      delta({ tool_calls: [{ index, id: `call-${index}`, type: 'function', function: { name, arguments: '' } }] }),
    )
    const longest = Math.max(...calls.map(({ args }) => args.length))
    const pieces = Array.from({ length: Math.ceil(longest / 2) }, (_, at) =>
      calls.flatMap(({ args }, index) => {
        const piece = args.slice(at * 2, at * 2 + 2)
        return piece === '' ? [] : [delta({ tool_calls: [{ index, function: { arguments: piece } }] })]
      }),
    ).flat()
    events(response, [...first, ...pieces, delta({}, 'tool_calls'), { choices: [], usage: USAGE }])
  }
}

export function replyError(status: number, error: unknown, headers: Record<string, string> = {}): EndpointReply {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    response.end(typeof error === 'string' ? error : JSON.stringify({ error }))
  }
}

/** A stream that ends in the middle of a word. */
export const replyCutOff: EndpointReply = (response) => {
  events(response, [delta({ content: 'never se' })], false)
  setImmediate(() => response.destroy())
}

/** Lists these models, and passes all other requests to `reply`. */
export function replyModels(models: readonly string[], reply: EndpointReply = replyWhole('hello')): EndpointReply {
  return (response, asked) => {
    if (!asked.url.endsWith('/models')) return reply(response, asked)
    response.writeHead(200, { 'content-type': 'application/json' })
    return response.end(JSON.stringify({ object: 'list', data: models.map((id) => ({ id, object: 'model' })) }))
  }
}

/** A complete response, for a client that does not stream. */
export function replyWhole(content: string): EndpointReply {
  return (response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ choices: [{ index: 0, message: { role: 'assistant', content } }] }))
  }
}
