import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { suite, type TestContext, test } from 'node:test'
import { until } from '../../../test/support/until.ts'
import { openLog } from '../../lib/log/log.ts'
import { HostClient, readRetryAfter, StoppedError } from './host-client.ts'
import type { InboundEvent } from './port.ts'

type Answer = number | { readonly token?: string; readonly duplicate?: boolean; readonly ignored?: string }

/** A server whose answers the test decides: a status or a body. */
async function setUp(t: TestContext, onEvent: (event: InboundEvent, token: string) => Answer) {
  let registrations = 0
  const received: InboundEvent[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = JSON.parse(Buffer.concat(chunks).toString())
    const bearer = request.headers.authorization?.replace('Bearer ', '') ?? ''
    const isEvent = request.url === '/v1/messages'
    if (isEvent) received.push(body)
    const answer = isEvent ? onEvent(body, bearer) : { token: `token ${++registrations}` }
    response.writeHead(typeof answer === 'number' ? answer : 200).end(JSON.stringify(answer))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const stop = new AbortController()
  t.after(() => {
    stop.abort()
    server.closeAllConnections()
    server.close()
  })
  const client = new HostClient({
    hostUrl: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    secret: 'secret',
    log: await openLog({ to: { write: () => undefined } }),
    signal: stop.signal,
    registration: { name: 'test', url: 'http://127.0.0.1:9', jid_prefixes: ['test:'], capabilities: {} },
  })
  return { client, stop, received, registrations: () => registrations }
}

const event = (id: string, chat = 'a'): InboundEvent => ({ chat_jid: `test:${chat}`, id, content: id })

suite('an event', () => {
  test('waits for the earlier ones of its chat, however often they fail', async (t) => {
    const stored: string[] = []
    let failures = 2
    const { client } = await setUp(t, ({ id = '' }) => {
      if (id === '1' && failures-- > 0) return 503
      stored.push(id)
      return {}
    })
    await Promise.all([client.receive(event('1')), client.receive(event('2')), client.receive(event('3', 'b'))])
    assert.deepEqual(stored, ['3', '1', '2'])
  })

  test('is reported as stored, duplicate, ignored or refused', async (t) => {
    const answers: Record<string, Answer> = {
      '1': {},
      '2': { duplicate: true },
      '3': { ignored: 'own' },
      '4': 400,
      '5': 403,
    }
    const { client } = await setUp(t, ({ id = '' }) => answers[id] ?? 500)
    const receipts = []
    for (const id of Object.keys(answers)) receipts.push(await client.receive(event(id)))
    assert.deepEqual(receipts, ['stored', 'duplicate', 'ignored', 'refused', 'refused'])
  })

  test('is not lost if the address has no such path for a while', async (t) => {
    let failures = 1
    const { client } = await setUp(t, () => (failures-- > 0 ? 404 : {}))
    assert.equal(await client.receive(event('1')), 'stored')
  })

  test('registers before the first one, and once for all whose token has ended', async (t) => {
    let ended = ''
    const { client, registrations, received } = await setUp(t, (_, token) => (token === ended ? 401 : {}))
    await client.receive(event('1'))
    assert.deepEqual([registrations(), received.length], [1, 1])
    ended = 'token 1'
    await Promise.all(['a', 'b', 'c', 'd', 'e'].map((chat) => client.receive(event('2', chat))))
    assert.equal(registrations(), 2)
  })

  test('comes without its files if svc does not take as much', async (t) => {
    const attachments = [{ filename: 'a.png', data: new Uint8Array(10) }, { url: 'https://example.test/b' }]
    const { client, received } = await setUp(t, (each) => (each.attachments?.length === 2 ? 413 : {}))
    assert.equal(await client.receive({ ...event('1'), attachments }), 'stored')
    assert.deepEqual(received.at(-1), {
      ...event('1'),
      content: '1\n[the file a.png is too large to receive]',
      attachments: [{ url: 'https://example.test/b' }],
    })
    await client.receive({ ...event('2'), attachments: [{ filename: 'b', data: new Uint8Array(25 * 1024 * 1024) }] })
    assert.equal(received.at(-1)?.content, '2\n[the file b is too large to receive]')
    assert.equal(received.length, 3)
  })

  test('stays at the platform if the process stops while it waits', async (t) => {
    const { client, stop, received } = await setUp(t, () => 503)
    const results = [client.receive(event('1')), client.receive(event('2'))].map((each) =>
      assert.rejects(each, StoppedError),
    )
    await until(() => received.length > 0)
    stop.abort()
    await Promise.all(results)
    assert.ok(received.every(({ id }) => id === '1'))
  })

  test('waits no longer than a minute, whatever it is told', () => {
    assert.equal(readRetryAfter('7'), 7000)
    assert.equal(readRetryAfter('99999'), 60_000)
    assert.equal(readRetryAfter('9'.repeat(400)), 60_000)
    for (const odd of [undefined, '', '-1', '1.5', 'soon']) assert.equal(readRetryAfter(odd), undefined)
  })
})
