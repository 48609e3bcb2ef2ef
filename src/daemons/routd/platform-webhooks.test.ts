import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type TestContext, test } from 'node:test'
import { serveHost } from '../../../test/support/served-host.ts'
import { parseWebhookAnswer } from '../../channels/http/webhook-delivery.ts'
import { channelAccounts } from '../../core/delivery/channel-accounts.ts'
import { registerChannel } from '../../core/delivery/channel-registrations.ts'

interface Envelope {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly headers: Record<string, string>
  readonly body: string
}

async function setUp(t: TestContext, answer: object | number = { ok: true, status: 200, headers: {}, body: '' }) {
  const received: { envelope: Envelope; path: string | undefined; bearer: string | undefined }[] = []
  const adapter = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const envelope: Envelope = JSON.parse(Buffer.concat(chunks).toString())
    received.push({ envelope, path: request.url, bearer: request.headers.authorization })
    if (typeof answer === 'number') response.writeHead(answer).end('{"error": "a secret of the adapter"}')
    else response.end(JSON.stringify(answer))
  }).listen(0, '127.0.0.1')
  await once(adapter, 'listening')
  t.after(() => {
    adapter.closeAllConnections()
    adapter.close()
  })
  const address = adapter.address()
  const port = typeof address === 'object' ? address?.port : 0
  const served = await serveHost(t, { daemons: ['proxyd', 'routd'] })
  const { host } = served
  const register = (name: string, capabilities: Record<string, boolean>, url = `http://127.0.0.1:${port}`) =>
    host.engine.transaction((tx) =>
      registerChannel(tx, host, { name, url, jid_prefixes: [`${name}:`], capabilities, secret_name: undefined }),
    )
  const addAccount = (account: string, settings: Record<string, string>) =>
    host.engine.transaction((tx) =>
      channelAccounts.insert(tx, {
        ...{ account, platform: 'telegram', settings, secrets_sealed: Buffer.from('x'), leased_until: 0 },
        ...{ created_at: '2026-01-01T00:00:00.000Z', created_by: 'test' },
      }),
    )
  const ask = (path: string, init: RequestInit = {}) => fetch(served.url() + path, { method: 'POST', ...init })
  return { ask, register, addAccount, received }
}

test('a request reaches the adapter of its account, and its answer the platform', async (t) => {
  const { ask, register, received } = await setUp(t, {
    ...{ ok: true, status: 202, body: '<b>hello</b>' },
    headers: {
      'Content-Type': 'text/html',
      'X-Own': '1',
      'Set-Cookie': 'a=1',
      Location: '/x',
      'X-Accel-Redirect': '/',
    },
  })
  const token = await register('bridge', { webhook: true })
  const headers = {
    ...{ 'Content-Type': 'application/json', 'X-Signature': 'v0=abc', Cookie: 'session=1', Authorization: 'Bearer x' },
    ...{ 'User-Agent': 'platform/1', 'X-User-Sub': 'github:1', 'X-Forwarded-For': '9.9.9.9', Accept: '*/*' },
  }
  const answer = await ask('/channels/bridge/a%20b/c?x=%20&y', { headers, body: '{"ä":1}' })
  assert.equal(answer.status, 202)
  assert.equal(await answer.text(), '<b>hello</b>')
  assert.match(answer.headers.get('content-type') ?? '', /^text\/plain/)
  assert.equal(answer.headers.get('x-own'), '1')
  for (const name of ['set-cookie', 'location', 'x-accel-redirect']) assert.equal(answer.headers.get(name), null, name)
  const [{ envelope, path, bearer } = { envelope: undefined, path: '', bearer: '' }] = received
  assert.deepEqual([path, bearer], ['/webhook', `Bearer ${token}`])
  assert.deepEqual(
    { ...envelope, body: Buffer.from(envelope?.body ?? '', 'base64').toString() },
    {
      ...{ method: 'POST', path: '/a%20b/c', query: 'x=%20&y', body: '{"ä":1}' },
      headers: { 'content-type': 'application/json', 'user-agent': 'platform/1', 'x-signature': 'v0=abc' },
    },
  )
})

test('unknown accounts, and those that take no webhooks, are answered as any unknown path', async (t) => {
  const { ask, register, addAccount, received } = await setUp(t)
  await register('plain', { send_text: true })
  await register('taking', { webhook: true })
  await addAccount('telegram', {})
  await addAccount('telegram-work', { receive: 'polling' })
  const shown = async (path: string, init?: RequestInit) => {
    const answer = await ask(path, init)
    const headers = [...answer.headers].filter(([name]) => name !== 'x-request-id' && name !== 'date')
    return { status: answer.status, headers, body: await answer.text() }
  }
  const unknown = await shown('/v1/nothing')
  assert.equal(unknown.status, 404)
  for (const name of ['nobody', 'plain', 'telegram', 'telegram-work', 'Taking', '-'])
    assert.deepEqual(await shown(`/channels/${name}/`, {}), unknown, name)
  assert.deepEqual(await shown('/channels'), unknown)
  for (const method of ['PUT', 'DELETE', 'PATCH']) {
    assert.equal((await shown('/channels/taking/', { method })).status, 404, method)
    assert.equal((await shown('/channels/nobody/', { method })).status, 404, method)
  }
  assert.deepEqual(received, [])
  assert.equal((await shown('/channels/taking')).status, 200)
  assert.equal((await shown('/channels/taking/', { method: 'GET' })).status, 200)
})

test('an adapter that is away or fails is answered with 503, without a reason, so that the platform delivers again', async (t) => {
  const { ask, register, addAccount } = await setUp(t, 400)
  await register('failing', { webhook: true })
  await register('away', { webhook: true }, 'http://127.0.0.1:9')
  await addAccount('telegram', { receive: 'webhook' })
  for (const name of ['failing', 'away', 'telegram']) {
    const answer = await ask(`/channels/${name}/`)
    assert.equal(answer.status, 503, name)
    assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/)
    assert.doesNotMatch(await answer.text(), /secret|127\.0|adapter|telegram|away/)
  }
})

test('bodies above 1 MiB are refused', async (t) => {
  const { ask, register, received } = await setUp(t)
  await register('bridge', { webhook: true })
  assert.equal((await ask('/channels/bridge/', { body: 'x'.repeat(1_048_576) })).status, 200)
  assert.equal((await ask('/channels/bridge/', { body: 'x'.repeat(1_048_577) })).status, 413)
  assert.equal(received.length, 1)
})

test('answers of another shape count as failed', () => {
  for (const text of [
    '',
    '[]',
    '{}',
    '{"status":"200"}',
    '{"status":301}',
    '{"status":101}',
    '{"status":200.5}',
    '{"status":999}',
  ])
    assert.equal(parseWebhookAnswer(text), undefined, text)
  assert.equal(parseWebhookAnswer('{"status":200,"body":7}'), undefined)
  assert.deepEqual(parseWebhookAnswer('{"status":200,"headers":{"X-A":"1\\r\\nb"}}'), {
    status: 200,
    headers: {},
    body: '',
  })
})
