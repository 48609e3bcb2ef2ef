// A Bot API server for benchmarks: hands out updates, and knows when the client has confirmed them by asking for later ones.
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'

const ME = { id: 7, is_bot: true, first_name: 'Ada', username: 'ada_bot', can_read_all_group_messages: true }

export interface BotApi {
  readonly url: string
  /** One message in each of these private chats; resolves to the milliseconds until the client has confirmed all. */
  say(chats: readonly number[]): Promise<number>
  close(): Promise<void>
}

interface Poll {
  readonly limit: number
  readonly response: ServerResponse
}

export async function openBotApi(): Promise<BotApi> {
  let updates: { readonly update_id: number }[] = []
  let next = 1
  let poll: Poll | undefined
  let onConfirmed: (() => void) | undefined
  const send = (response: ServerResponse, result: unknown): void => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ ok: true, result }))
  }
  const answer = (): void => {
    if (!poll || updates.length === 0) return
    send(poll.response, updates.slice(0, poll.limit))
    poll = undefined
  }
  const onPoll = (response: ServerResponse, { offset = 0, limit = 100 }: { offset?: number; limit?: number }): void => {
    const before = updates.length
    updates = updates.filter(({ update_id }) => update_id >= offset)
    poll = { limit, response }
    response.on('close', () => {
      if (poll?.response === response) poll = undefined
    })
    if (before > 0 && updates.length === 0) onConfirmed?.()
    answer()
  }
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const method = request.url?.split('/').at(-1)
    if (method === 'getUpdates') onPoll(response, body === '' ? {} : JSON.parse(body))
    else send(response, method === 'getMe' ? ME : true)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    say: async (chats) => {
      const confirmed = new Promise<void>((resolve) => {
        onConfirmed = resolve
      })
      const date = Math.floor(Date.now() / 1000)
      for (const id of chats) {
        const from = { id, is_bot: false, first_name: 'Mia' }
        const chat = { id, type: 'private', first_name: 'Mia' }
        const update_id = next++
        updates.push({
          update_id,
          ...{ message: { message_id: update_id, date, from, chat, text: 'What is new in this place today?' } },
        })
      }
      const started = performance.now()
      answer()
      await confirmed
      return performance.now() - started
    },
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
