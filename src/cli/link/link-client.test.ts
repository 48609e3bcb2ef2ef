// The client against servers that misbehave. test/e2e tests it with the real server.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { parseMultipart } from '../../lib/http/multipart.ts'
import { LinkClient, TransportError } from './link-client.ts'

const LINK = 'x'.repeat(43)
const POSTED = JSON.stringify({ user: {}, turn_id: 't1', status: 'pending' })

type Handler = (request: IncomingMessage, response: ServerResponse, nth: number) => void

interface ClientTest {
  readonly client: LinkClient
  readonly origin: string
  readonly seen: { method: string; path: string; headers: IncomingMessage['headers'] }[]
  readonly stop: AbortController
}

async function startServer(t: TestContext, handler: Handler): Promise<ClientTest> {
  const seen: ClientTest['seen'] = []
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
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const stop = new AbortController()
  return { client: new LinkClient(origin, LINK, stop.signal), origin, seen, stop }
}

const json = (response: ServerResponse, status: number, body: string, headers = {}): void => {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(body)
}

/** A TransportError with this message, which does not contain the link. */
const isTransportError = (message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof TransportError, String(error))
  assert.match(error.message, message)
  assert.doesNotMatch(error.message, /xxxx/)
  return true
}

suite('post', () => {
  const message = { content: 'hello', topic: 'a' }

  test('sends JSON to the link and returns the id of the round', async (t) => {
    const { client, seen } = await startServer(t, (_, response) => json(response, 200, POSTED))
    assert.equal(await client.post(message, 'k1'), 't1')
    const [{ method, path, headers } = { method: '', path: '', headers: {} }] = seen
    assert.deepEqual([method, path, headers['content-type']], ['POST', `/chat/${LINK}/`, 'application/json'])
  })

  test('retries with the same idempotency key after a broken connection or a 5xx', async (t) => {
    const { client, seen } = await startServer(t, (request, response, nth) => {
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

  test('reports full storage, and files that are not accepted, at once', async (t) => {
    for (const [status, code] of [
      [507, 'storage_full'],
      [501, 'unsupported'],
    ] as const) {
      const body = JSON.stringify({ detail: 'not today', code, hint: 'send less' })
      const { client, seen } = await startServer(t, (_, response) => json(response, status, body))
      await assert.rejects(client.post(message, 'k1'), isRefusal(code, `(${status}): not today`))
      assert.equal(seen.length, 1)
    }
  })

  test('keeps what a frame says of an answer that was stopped, and of a voice message', async (t) => {
    const file = { id: 'f', name: 'a.ogg', type: 'audio/ogg', size: 1, transcript: 'hello' }
    const frame = { seq: 1, id: 'm', kind: 'message', content: 'a', created_at: 'now', partial: true, files: [file] }
    const round = { turn_id: 't1', status: 'failed', frames: [frame], last_seq: 1, error: 'stopped' }
    const { client } = await startServer(t, (_, response) => json(response, 200, JSON.stringify(round)))
    assert.deepEqual(await client.poll('t1', 0), round)
  })

  test('reports a transport error if no server listens, it keeps failing, or it is not svc', async (t) => {
    const closed = createServer().listen(0, 'localhost')
    await once(closed, 'listening')
    const origin = `http://localhost:${(closed.address() as AddressInfo).port}`
    await new Promise((resolve) => closed.close(resolve))
    const unreachable = new LinkClient(origin, LINK, new AbortController().signal)
    await assert.rejects(
      unreachable.post(message, 'k'),
      isTransportError(/^no server listens at http:\/\/localhost:\d+$/),
    )
    const failing = await startServer(t, (_, response) => json(response, 500, '{"detail": "it broke"}'))
    await assert.rejects(failing.client.post(message, 'k'), isTransportError(/responded with 500: it broke/))
    assert.equal(failing.seen.length, 3)
    for (const body of ['<html>hello</html>', '{}', '[]', '{"turn_id": 1}', '']) {
      const other = await startServer(t, (_, response) => json(response, 200, body))
      await assert.rejects(other.client.post(message, 'k'), isTransportError(/does not respond like svc/))
    }
  })

  const filesOf = (t: TestContext, contents: Readonly<Record<string, string>>) => {
    const directory = mkdtempSync(join(tmpdir(), 'svc-send-'))
    t.after(() => rm(directory, { recursive: true }))
    return Object.entries(contents).map(([name, text]) => {
      const path = join(directory, name)
      writeFileSync(path, text)
      return { name, path }
    })
  }

  test('sends a form with files, again after a broken connection', async (t) => {
    const bodies: Buffer[] = []
    const types: string[] = []
    const { client, seen } = await startServer(t, async (request, response, nth) => {
      types.push(request.headers['content-type'] ?? '')
      bodies.push(Buffer.concat(await request.toArray()))
      if (nth === 1) request.socket.destroy()
      else json(response, 200, POSTED)
    })
    const large = 'x'.repeat(200_000)
    const files = filesOf(t, { 'a "b"\n.txt': 'one', c: '', large })
    assert.equal(await client.post({ ...message, files }, 'k1'), 't1')
    assert.equal(bodies.length, 2)
    for (const [at, body] of bodies.entries())
      assert.deepEqual(
        parseMultipart(body, types[at] ?? '', 9).map(({ name, content }) => [name, Buffer.from(content).toString()]),
        [
          ['content', 'hello'],
          ['topic', 'a'],
          ['file', 'one'],
          ['file', ''],
          ['file', large],
        ],
      )
    assert.match(String(bodies[0]), /filename="a %22b%22%0A.txt"/)
    assert.deepEqual(
      seen.map(({ headers }) => headers['idempotency-key']),
      ['k1', 'k1'],
    )
  })

  test('names a file that cannot be read any more', async (t) => {
    const { client, seen } = await startServer(t, (request) => request.resume())
    const [file = { name: '', path: '' }] = filesOf(t, { gone: 'one' })
    await rm(file.path)
    const sent = client.post({ ...message, files: [file] }, 'k')
    await assert.rejects(sent, isRefusal('not_found', `cannot read ${file.path}: it does not exist`))
    assert.ok(seen.length <= 1)
  })

  test('does not follow redirects, which would reveal the link to another server', async (t) => {
    const { client, seen } = await startServer(t, (_, response) =>
      response.writeHead(308, { Location: 'http://127.0.0.1:1/elsewhere' }).end(),
    )
    await assert.rejects(
      client.post(message, 'k'),
      isTransportError(/redirect \(308\): set WEB_HOST to where it leads/),
    )
    assert.ok(seen.every(({ path }) => path.startsWith('/chat/')))
  })

  test('does not retry after a 4xx and repeats the message of the server', async (t) => {
    const problem = JSON.stringify({ title: 'Not signed in', detail: 'no such link', code: 'unauthenticated' })
    const gone = await startServer(t, (_, response) => json(response, 401, problem))
    await assert.rejects(gone.client.post(message, 'k'), isRefusal('unauthenticated', '(401): no such link'))
    assert.equal(gone.seen.length, 1)
    const busy = await startServer(t, (_, response) => json(response, 429, '{}', { 'Retry-After': '7' }))
    await assert.rejects(busy.client.post(message, 'k'), (error) => {
      assert.match(String(Object(error).hint), /in 7 s/)
      return isRefusal('invalid', '429')(error)
    })
  })

  test('stops when the signal aborts', async (t) => {
    const { client, stop, seen } = await startServer(t, () => stop.abort())
    await assert.rejects(client.post(message, 'k'), { name: 'AbortError' })
    assert.equal(seen.length, 1)
  })
})

suite('events', () => {
  const frame = (seq: number): string => `id: ${seq}\nevent: message\ndata: {"seq":${seq}}\n\n`
  const DONE = 'id: 4\nevent: round_done\ndata: {"status":"success"}\n\n'
  const stream = (response: ServerResponse): ServerResponse =>
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
  const readIds = async ({ client }: ClientTest): Promise<string[]> => {
    const ids = []
    for await (const { id } of client.events('t 1')) ids.push(id)
    return ids
  }

  test('resume after a broken connection, until the round is done', async (t) => {
    const tested = await startServer(t, (_, response, nth) => {
      if (nth === 1) stream(response).write(frame(1), () => response.socket?.destroy())
      else if (nth === 2) stream(response).end(`: ping\n\n${frame(2)}id: 3\ndata: half`)
      else if (nth === 3) json(response, 503, '{}')
      else stream(response).write(frame(3) + DONE)
    })
    assert.deepEqual(await readIds(tested), ['1', '2', '3', '4'])
    assert.deepEqual(
      tested.seen.map(({ path, headers }) => [path, headers['last-event-id']]),
      [undefined, '1', '2', '2'].map((last) => [`/chat/${LINK}/t%201/sse?deltas=1`, last]),
    )
  })

  test('stop at a 4xx, such as a revoked link', async (t) => {
    const tested = await startServer(t, (_, response, nth) => {
      if (nth === 1) stream(response).end(frame(1))
      else json(response, 401, '{"detail": "revoked"}')
    })
    await assert.rejects(readIds(tested), isRefusal('invalid', 'revoked'))
    assert.equal(tested.seen.length, 2)
  })

  test('retry if the response is not an event stream', async (t) => {
    const tested = await startServer(t, (_, response, nth) => {
      if (nth === 1) json(response, 200, '{}')
      else stream(response).end(DONE)
    })
    assert.deepEqual(await readIds(tested), ['4'])
  })
})
