import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { capabilitiesOf } from './adapter-requests.ts'
import { openAdapterServer } from './adapter-server.ts'
import { AdapterStore } from './adapter-store.ts'
import { StoppedError } from './host-client.ts'
import { type Connector, type ConnectorActions, PlatformError, type WebhookRequest } from './port.ts'

const TOKEN = 'token'
const FILE_MAX = 1000

interface SetUpOptions {
  readonly host?: string | undefined
  readonly webhook?: Connector['webhook']
}

async function setUp(t: TestContext, actions: Partial<ConnectorActions> = {}, { host, webhook }: SetUpOptions = {}) {
  const directory = tempDir(t)
  const state = new AdapterStore(directory, () => 0)
  const faults: unknown[] = []
  const server = await openAdapterServer({
    connector: {
      ...{ limits: { text: 100, fileBytes: FILE_MAX }, actions, close: async () => undefined },
      ...(webhook ? { webhook } : {}),
    },
    state,
    account: 'test',
    directory,
    host,
    health: () => ({ status: 'ok', since: '2026-01-01T00:00:00Z' }),
    token: () => TOKEN,
    onFault: (error) => void faults.push(error),
  })
  t.after(async () => {
    await server.close()
    state.close()
  })
  const call = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(server.url + path, {
      method: 'POST',
      ...init,
      headers: { Authorization: `Bearer ${TOKEN}`, ...init.headers },
    })
    const body: Record<string, unknown> = JSON.parse(await response.text())
    return { status: response.status, body, retryAfter: response.headers.get('retry-after') }
  }
  const tempFiles = (): string[] => readdirSync(directory).filter((name) => name.endsWith('.tmp'))
  return { server, directory, call, faults, tempFiles }
}

const formOf = (...files: Uint8Array[]): FormData => {
  const form = new FormData()
  for (const [name, value] of Object.entries({ chat_jid: 'test:chat', key: 'k', filename: 'ä.txt' }))
    form.set(name, value)
  for (const bytes of files) form.append('file', new File([new Uint8Array(bytes)], 'ä.txt', { type: 'text/plain' }))
  return form
}

suite('the server of an adapter', () => {
  test('answers no request without its token, whatever the path', async (t) => {
    const sent: string[] = []
    const { call } = await setUp(t, { sendText: async ({ text }) => String(sent.push(text)) })
    const body = '{"chat_jid":"test:chat","content":"text","key":"k"}'
    for (const Authorization of ['', 'Bearer', 'Bearer tokem', 'Bearer token2', 'Basic token', TOKEN])
      for (const path of ['/health', '/health?x', '/send', '/send-file', '/v1/history', '/', '//health', '/nothing'])
        for (const init of [{ method: 'GET' }, { method: 'POST', body }]) {
          const { status } = await call(path, { ...init, headers: { Authorization } })
          assert.equal(status, 401, `${init.method} ${path} ${Authorization}`)
        }
    assert.deepEqual(sent, [])
    assert.equal((await call('/health')).body.status, 'ok')
  })

  test('listens on all addresses for a host that is not on loopback, and names that host', async (t) => {
    const isReached = async (port: string, address: string): Promise<boolean> => {
      const response = await fetch(`http://${address}:${port}/health`, {
        headers: { Authorization: `Bearer ${TOKEN}` },
      })
      return response.ok
    }
    const { server } = await setUp(t, {}, { host: 'routd' })
    const { hostname, port } = new URL(server.url)
    assert.equal(hostname, 'routd')
    for (const address of ['127.0.0.1', '127.0.0.2']) assert.ok(await isReached(port, address), address)
    assert.equal(new URL((await setUp(t, {}, { host: 'fd00::1' })).server.url).hostname, '[fd00::1]')
    for (const host of [undefined, '127.0.0.1']) {
      const own = new URL((await setUp(t, {}, { host })).server.url)
      assert.equal(own.hostname, '127.0.0.1')
      assert.ok(await isReached(own.port, '127.0.0.1'))
      await assert.rejects(isReached(own.port, '127.0.0.2'))
    }
  })

  test('refuses requests of another shape with a reason, and goes on', async (t) => {
    const { call, faults } = await setUp(t, { sendText: async () => '1' })
    const json = { 'Content-Type': 'application/json' }
    const cases = [
      ['/send', { method: 'GET' }, 405],
      ['/send', { method: 'DELETE' }, 405],
      ['/v1/history', {}, 405],
      ['/send', {}, 400],
      ['/send', { body: '{', headers: json }, 400],
      ['/send', { body: '[]', headers: json }, 400],
      ['/send', { body: '{"chat_jid":"test:chat","content":5,"key":"k"}', headers: json }, 400],
      ['/nothing', { body: '{}', headers: json }, 400],
      ['//', {}, 400],
      ['/constructor', {}, 400],
      ['/send-file', { body: 'x', headers: { 'Content-Type': 'multipart/form-data' } }, 400],
      ['/send-file', { body: 'x', headers: { 'Content-Type': 'multipart/form-data; boundary=y' } }, 400],
    ] as const
    for (const [path, init, expected] of cases) {
      const { status, body } = await call(path, init)
      assert.equal(status, expected, `${path} ${JSON.stringify(init)}`)
      assert.match(String(body.error), /\w+ \w+/)
    }
    const sent = await call('/send', { body: '{"chat_jid":"test:chat","content":"text","key":"k"}', headers: json })
    assert.deepEqual([sent.status, sent.body], [200, { ok: true, id: '1' }])
    assert.deepEqual(faults, [])
  })

  test('says that a body or a file is too large, and does not break the connection', async (t) => {
    const { call, tempFiles } = await setUp(t, { sendFile: async () => '1' })
    const large = await call('/send', { body: 'x'.repeat(8 * 1024 * 1024) })
    assert.equal(large.status, 400)
    assert.match(String(large.body.error), /longer than 4194304 bytes/)
    const file = await call('/send-file', { body: formOf(new Uint8Array(20 * 1024 * 1024)) })
    assert.equal(file.status, 400)
    assert.match(String(file.body.error), /larger than 1000 bytes/)
    assert.equal((await call('/send-file', { body: formOf(new Uint8Array(1), new Uint8Array(1)) })).status, 400)
    assert.deepEqual(tempFiles(), [])
  })

  test('keeps a file only as long as it is sent', async (t) => {
    const seen: unknown[] = []
    const { call, tempFiles } = await setUp(t, {
      sendFile: async ({ path, filename, mime }) => {
        seen.push([readFileSync(path, 'utf8'), filename, mime, tempFiles().length])
        if (seen.length === 2) throw new Error('a bug')
        return '1'
      },
    })
    assert.equal((await call('/send-file', { body: formOf(Buffer.from('bytes')) })).status, 200)
    const other = formOf(Buffer.from('bytes'))
    other.set('key', 'other')
    assert.equal((await call('/send-file', { body: other })).status, 504)
    assert.deepEqual(seen, [
      ['bytes', 'ä.txt', 'text/plain', 1],
      ['bytes', 'ä.txt', 'text/plain', 1],
    ])
    await until(() => tempFiles().length === 0)
  })

  test('removes the file of an upload that broke off', async (t) => {
    const { server, tempFiles, faults, call } = await setUp(t, { sendFile: async () => '1' })
    const upload = httpRequest(`${server.url}/send-file`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${TOKEN}`,
        'Content-Type': 'multipart/form-data; boundary=b',
        'Content-Length': 900,
      },
    })
    upload.on('error', () => undefined)
    upload.write('--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nbytes of the file')
    await until(() => tempFiles().length === 1)
    upload.destroy()
    await until(() => tempFiles().length === 0)
    assert.equal((await call('/send-file', { body: formOf(Buffer.from('bytes')) })).status, 200)
    assert.deepEqual(faults, [])
  })

  test('removes the files of a process that was killed, and nothing else', async (t) => {
    const { directory, server, tempFiles } = await setUp(t)
    await server.close()
    writeFileSync(join(directory, `${crypto.randomUUID()}.tmp`), 'bytes')
    writeFileSync(join(directory, 'other.tmp'), 'bytes')
    const state = new AdapterStore(directory, () => 0)
    t.after(() => state.close())
    const options = { state, account: 'test', directory, token: () => TOKEN, onFault: () => undefined }
    const connector = { limits: { text: 1 }, actions: {}, close: async () => undefined }
    const next = await openAdapterServer({ ...options, connector, health: () => ({ status: 'ok', since: '' }) })
    await next.close()
    assert.deepEqual(tempFiles(), ['other.tmp'])
  })

  test('says when to try again, if the platform names a time', async (t) => {
    const times = [7, 0.2, 1e300, Number.NaN, -1, undefined]
    const { call } = await setUp(t, {
      like: async () => {
        throw new PlatformError('rate_limited', 'too many requests', { retryAfterS: times.shift() })
      },
    })
    const seen = []
    const body = '{"chat_jid":"test:chat","target_id":"1"}'
    while (times.length > 0) {
      const { status, retryAfter } = await call('/like', { body })
      seen.push([status, retryAfter])
    }
    assert.deepEqual(seen, [
      [429, '7'],
      [429, '1'],
      [429, '86400'],
      [429, null],
      [429, null],
      [429, null],
    ])
  })

  test('finishes the requests that run when it closes', async (t) => {
    const sending = Promise.withResolvers<string>()
    let isAsked = false
    const { call, server } = await setUp(t, {
      sendText: () => {
        isAsked = true
        return sending.promise
      },
    })
    const sent = call('/send', { body: '{"chat_jid":"test:chat","content":"text","key":"k"}' })
    await until(() => isAsked)
    const closed = server.close()
    sending.resolve('1')
    assert.equal((await sent).body.id, '1')
    await closed
  })
})

suite('requests of the platform', () => {
  const deliver = (call: Awaited<ReturnType<typeof setUp>>['call'], envelope: object) =>
    call('/webhook', { body: JSON.stringify(envelope), headers: { 'Content-Type': 'application/json' } })

  test('reach the connector byte by byte, and its answer comes back', async (t) => {
    const requests: WebhookRequest[] = []
    const { call } = await setUp(
      t,
      {},
      {
        webhook: async (request) => {
          requests.push(request)
          return { status: 201, headers: { 'x-a': '1' }, body: 'text' }
        },
      },
    )
    const bytes = Buffer.from([0, 255, 10, 13, 128])
    const { status, body } = await deliver(call, {
      ...{ method: 'POST', path: '/a', query: 'b=1', headers: { 'x-one': '1', 'x-two': 2 } },
      body: bytes.toString('base64'),
    })
    assert.deepEqual([status, body], [200, { ok: true, status: 201, headers: { 'x-a': '1' }, body: 'text' }])
    assert.deepEqual(requests, [{ method: 'POST', path: '/a', query: 'b=1', headers: { 'x-one': '1' }, body: bytes }])
    await deliver(call, { method: 7, headers: [], body: {} })
    assert.deepEqual(requests[1], { method: '', path: '/', query: '', headers: {}, body: Buffer.alloc(0) })
  })

  test('are unsupported without a webhook, which the capability says', async (t) => {
    const { call } = await setUp(t)
    assert.equal((await deliver(call, {})).status, 501)
    assert.equal(capabilitiesOf({ actions: {} }).webhook, undefined)
    assert.equal(capabilitiesOf({ actions: {}, webhook: async () => ({ status: 200 }) }).webhook, true)
  })

  test('wait in limited number, and those that are too many come again', async (t) => {
    const stored = Promise.withResolvers<void>()
    let running = 0
    const { call } = await setUp(
      t,
      {},
      {
        webhook: async () => {
          running++
          await stored.promise
          return { status: 200 }
        },
      },
    )
    const waiting = Array.from({ length: 64 }, () => deliver(call, {}))
    await until(() => running === 64)
    const { status, retryAfter } = await deliver(call, {})
    assert.deepEqual([status, retryAfter], [503, '2'])
    stored.resolve()
    assert.deepEqual(new Set((await Promise.all(waiting)).map((each) => each.status)), new Set([200]))
    assert.equal((await deliver(call, {})).status, 200)
  })

  test('come again if the process stops before svc has the event', async (t) => {
    const { call, faults } = await setUp(t, {}, { webhook: () => Promise.reject(new StoppedError()) })
    assert.equal((await deliver(call, {})).status, 503)
    assert.deepEqual(faults, [])
  })
})
