// The client against a server that misbehaves in one way at a time; against the real one it is tried in test/e2e.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { LinkClient, TransportError } from './link-client.ts'

const LINK = 'x'.repeat(43)
const POSTED = JSON.stringify({ user: {}, turn_id: 't1', status: 'pending' })

type Handler = (request: IncomingMessage, response: ServerResponse, nth: number) => void

interface Tried {
  readonly client: LinkClient
  readonly origin: string
  readonly seen: { method: string; path: string; headers: IncomingMessage['headers'] }[]
  readonly stop: AbortController
}

async function against(t: TestContext, handler: Handler): Promise<Tried> {
  const seen: Tried['seen'] = []
  const server = createServer((request, response) => {
    seen.push({ method: request.method ?? '', path: request.url ?? '', headers: request.headers })
    handler(request, response, seen.length)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  // A server of ours listens on a port.
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const stop = new AbortController()
  return { client: new LinkClient(origin, LINK, stop.signal), origin, seen, stop }
}

const json = (response: ServerResponse, status: number, body: string, headers = {}): void => {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(body)
}

/** A transport fault with this sentence, in which the link does not stand. */
const fault = (sentence: RegExp) => (error: unknown) => {
  assert.ok(error instanceof TransportError, String(error))
  assert.match(error.message, sentence)
  assert.doesNotMatch(error.message, /xxxx/)
  return true
}

suite('posting', () => {
  const message = { content: 'hello', topic: 'a' }

  test('is JSON at the link, and gives the id of the round', async (t) => {
    const { client, seen } = await against(t, (_, response) => json(response, 200, POSTED))
    assert.equal(await client.post(message, 'k1'), 't1')
    const [{ method, path, headers } = { method: '', path: '', headers: {} }] = seen
    assert.deepEqual([method, path, headers['content-type']], ['POST', `/chat/${LINK}/`, 'application/json'])
  })

  test('is tried again with the same key when the server is not well, and only then', async (t) => {
    const { client, seen } = await against(t, (request, response, nth) => {
      if (nth === 1) request.socket.destroy()
      else if (nth === 2) json(response, 503, '{"detail": "starting"}')
      else json(response, 200, POSTED)
    })
    assert.equal(await client.post(message, 'k1'), 't1')
    assert.deepEqual(
      seen.map(({ headers }) => headers['idempotency-key']),
      ['k1', 'k1', 'k1'],
    )
  })

  test('ends with a transport fault where nothing listens, it stays unwell, or it is no svc', async (t) => {
    const closed = createServer().listen(0, 'localhost')
    await once(closed, 'listening')
    const origin = `http://localhost:${(closed.address() as AddressInfo).port}`
    await new Promise((resolve) => closed.close(resolve))
    const nobody = new LinkClient(origin, LINK, new AbortController().signal)
    await assert.rejects(nobody.post(message, 'k'), fault(/^nothing listens at http:\/\/localhost:\d+$/))
    const unwell = await against(t, (_, response) => json(response, 500, '{"detail": "it broke"}'))
    await assert.rejects(unwell.client.post(message, 'k'), fault(/answers 500: it broke/))
    assert.equal(unwell.seen.length, 3)
    for (const body of ['<html>hello</html>', '{}', '[]', '{"turn_id": 1}', '']) {
      const other = await against(t, (_, response) => json(response, 200, body))
      await assert.rejects(other.client.post(message, 'k'), fault(/does not answer as svc does/))
    }
  })

  test('follows no redirect: the link would be in other hands', async (t) => {
    const { client, seen } = await against(t, (_, response) =>
      response.writeHead(308, { Location: 'http://127.0.0.1:1/elsewhere' }).end(),
    )
    await assert.rejects(client.post(message, 'k'), fault(/redirect \(308\): WEB_HOST must be where it leads/))
    assert.ok(seen.every(({ path }) => path.startsWith('/chat/')))
  })

  test('is refused by every 4xx at once, with what the server says', async (t) => {
    const problem = JSON.stringify({ title: 'Not signed in', detail: 'no such link', code: 'unauthenticated' })
    const gone = await against(t, (_, response) => json(response, 401, problem))
    await assert.rejects(gone.client.post(message, 'k'), isRefusal('unauthenticated', '(401): no such link'))
    assert.equal(gone.seen.length, 1)
    const busy = await against(t, (_, response) => json(response, 429, '{}', { 'Retry-After': '7' }))
    await assert.rejects(busy.client.post(message, 'k'), (error) => {
      assert.match(String(Object(error).hint), /in 7 s/)
      return isRefusal('invalid', '429')(error)
    })
  })

  test('is given up when it is told to stop', async (t) => {
    const { client, stop, seen } = await against(t, () => stop.abort())
    await assert.rejects(client.post(message, 'k'), { name: 'AbortError' })
    assert.equal(seen.length, 1)
  })
})

suite('streaming', () => {
  const frame = (seq: number): string => `id: ${seq}\nevent: message\ndata: {"seq":${seq}}\n\n`
  const DONE = 'id: 4\nevent: round_done\ndata: {"status":"success"}\n\n'
  const stream = (response: ServerResponse): ServerResponse =>
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
  const idsOf = async ({ client }: Tried): Promise<string[]> => {
    const ids = []
    for await (const { id } of client.events('t 1')) ids.push(id)
    return ids
  }

  test('goes on where a broken connection left off, until the round is done', async (t) => {
    const tried = await against(t, (_, response, nth) => {
      if (nth === 1) stream(response).write(frame(1), () => response.socket?.destroy())
      else if (nth === 2) stream(response).end(`: ping\n\n${frame(2)}id: 3\ndata: half`)
      else if (nth === 3) json(response, 503, '{}')
      else stream(response).write(frame(3) + DONE)
    })
    assert.deepEqual(await idsOf(tried), ['1', '2', '3', '4'])
    assert.deepEqual(
      tried.seen.map(({ path, headers }) => [path, headers['last-event-id']]),
      [undefined, '1', '2', '2'].map((last) => [`/chat/${LINK}/t%201/sse`, last]),
    )
  })

  test('stops at a 4xx, such as a link that was revoked', async (t) => {
    const tried = await against(t, (_, response, nth) => {
      if (nth === 1) stream(response).end(frame(1))
      else json(response, 401, '{"detail": "revoked"}')
    })
    await assert.rejects(idsOf(tried), isRefusal('invalid', 'revoked'))
    assert.equal(tried.seen.length, 2)
  })

  test('takes no page for a stream', async (t) => {
    const tried = await against(t, (_, response, nth) => {
      if (nth === 1) json(response, 200, '{}')
      else stream(response).end(DONE)
    })
    assert.deepEqual(await idsOf(tried), ['4'])
  })
})
