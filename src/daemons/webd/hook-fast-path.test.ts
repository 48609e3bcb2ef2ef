import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import fc from 'fast-check'
import { onEveryEngine } from '../../../test/support/host.ts'
import { openLinkHost } from '../../../test/support/link-host.ts'
import { sendRaw, statusOf } from '../../../test/support/served-host.ts'
import { until } from '../../../test/support/until.ts'

/** The first post of a link takes the slow path; later ones take the fast path. */
onEveryEngine('the fast path of hooks', (engine) => {
  test('responds and stores like the slow path', async (t) => {
    const s = await openLinkHost(t, { engine })
    const hook = await s.mintHook({ source_label: 'ci', context: 'be brief' })
    const bodies = [
      'first, the long way',
      'second, the short way',
      '',
      '\u0000\u00ff',
      'x'.repeat(65_536),
      'x'.repeat(65_537),
    ]
    const answers = []
    for (const body of bodies) {
      const headers = { 'Content-Type': 'text/x-own; a=1' }
      answers.push(await s.to(`POST ${hook.hook}`, { body, headers }))
    }
    for (const { status, text, headers } of answers) {
      assert.deepEqual([status, text, headers.get('access-control-allow-origin')], [204, '', '*'])
      assert.match(
        headers.get('x-request-id') ?? '',
        /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      )
    }
    const stored = await s.messages(hook.jid)
    assert.deepEqual(
      stored.map(({ content }) => Buffer.from(content).toString()),
      bodies,
    )
    const [first, ...others] = stored.map(
      ({ sender, content_type, link_context, target_folder, kind, direction, turn_id }) => ({
        sender,
        content_type,
        link_context,
        target_folder,
        kind,
        direction,
        turn_id,
      }),
    )
    for (const other of others) assert.deepEqual(other, first)
    assert.deepEqual(
      stored.map(({ id }) => id),
      answers.map(({ headers }) => headers.get('x-request-id')),
    )
  })

  test('a revoked link is 401 with the next post, also over its rate', async (t) => {
    const s = await openLinkHost(t, { engine, settings: { WEBHOOK_RATE_HOOK: '2' } })
    const [hook, full] = [await s.mintHook({ source_label: 'a' }), await s.mintHook({ source_label: 'b' })]
    for (const link of [hook, hook, full, full])
      assert.equal((await s.to(`POST ${link.hook}`, { body: 'x' })).status, 204)
    const refused = await s.to(`POST ${full.hook}`, { body: 'x' })
    assert.equal(refused.status, 429)
    assert.equal(refused.headers.get('retry-after'), '30')
    s.clock.advance(30_000)
    await s.revoke(hook)
    await s.revoke(full)
    for (const link of [hook, full]) assert.equal((await s.to(`POST ${link.hook}`, { body: 'x' })).status, 401)
    assert.equal((await s.messages()).length, 4)
  })
})

test('other posts take the slow path', async (t) => {
  const s = await openLinkHost(t)
  const hook = await s.mintHook()
  const post = (headers: Record<string, string>, body = 'x'): Promise<{ status: number }> =>
    s.to(`POST ${hook.hook}`, { body, headers })
  await post({})
  for (const repeat of [1, 2])
    assert.equal((await post({ 'Idempotency-Key': 'k' }, `${repeat}`)).status, repeat === 1 ? 204 : 422)
  for (const name of ['webhook-id', 'svix-id'])
    for (const _ of [1, 2]) assert.equal((await post({ [name]: name })).status, 204)
  assert.equal((await s.messages()).length, 4)
  const line = `POST ${hook.hook} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n`
  const chunked = `${line}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`
  assert.equal(statusOf(await sendRaw(s.url('webd'), chunked)), 204)
  assert.match(
    await sendRaw(s.url('webd'), `${line}Content-Length: 1\r\nExpect: 100-continue\r\n\r\n`, 'y'),
    /^HTTP\/1\.1 100 .*\r\n\r\nHTTP\/1\.1 204/s,
  )
  assert.equal((await s.messages()).length, 6)
})

test('a body that ends early is not stored, and one in several chunks is', async (t) => {
  const s = await openLinkHost(t)
  const hook = await s.mintHook()
  await s.to(`POST ${hook.hook}`, { body: 'first' })
  const head = `POST ${hook.hook} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 6\r\n\r\n`
  assert.equal(statusOf(await sendRaw(s.url('webd'), `${head}ab`, 'c', 'def')), 204)
  const last = await s.messages()
  assert.equal(Buffer.from(last.at(-1)?.content ?? []).toString(), 'abcdef')
  const { hostname, port } = new URL(s.url('webd'))
  const socket = connect(Number(port), hostname)
  socket.end(`${head}abc`)
  await once(socket.resume(), 'close')
  assert.equal((await s.messages()).length, 2)
})

test('its posts are counted and logged like others, without the token', async (t) => {
  const s = await openLinkHost(t)
  const hook = await s.mintHook()
  for (const body of ['1', '2', '3']) await s.to(`POST ${hook.hook}`, { body })
  await until(() => s.logged().filter(({ status }) => status === 204).length === 3)
  const [, second, third] = s.logged().filter(({ status }) => status === 204)
  assert.deepEqual(Object.keys(second ?? {}), Object.keys(third ?? {}))
  assert.match(String(third?.path), /^\/hook\/[0-9a-f]{8}$/)
  assert.ok(!JSON.stringify(s.logged()).includes(hook.token))
})

test('a post to an unknown link gets the same refusal for every Accept, or a page, and is logged', async (t) => {
  const s = await openLinkHost(t)
  const path = `/hook/${'x'.repeat(42)}A`
  const headersOf = ({ headers }: { headers: Headers }) =>
    [...headers].filter(([name]) => !['date', 'x-request-id'].includes(name))
  const [any, json, page] = [
    await s.to(`POST ${path}`, { body: 'hello' }),
    await s.to(`POST ${path}`, { body: 'hello', headers: { Accept: 'application/json' } }),
    await s.to(`POST ${path}`, { body: 'hello', headers: { Accept: 'text/html' } }),
  ]
  assert.deepEqual([any.status, any.text], [401, json.text])
  assert.deepEqual(headersOf(any), headersOf(json))
  assert.match(page.headers.get('content-type') ?? '', /^text\/html/)
  await until(() => s.logged().filter(({ status }) => status === 401).length === 3)
  const lines = s.logged().filter(({ status }) => status === 401)
  assert.deepEqual(
    lines.map(({ request }) => request),
    [any, json, page].map(({ headers }) => headers.get('x-request-id')),
  )
  const fields = lines.map(({ path, reason, method, remote }) => [path, reason, method, remote])
  assert.deepEqual(fields, [fields[0], fields[0], fields[0]])
  assert.equal(fields[0]?.[0], `/hook/${hash('sha256', path.slice('/hook/'.length), 'hex').slice(0, 8)}`)
})

test('any bytes are stored unchanged', async (t) => {
  const s = await openLinkHost(t)
  const hook = await s.mintHook()
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
      assert.equal((await s.to(`POST ${hook.hook}`, { body: Buffer.from(bytes) })).status, 204)
      const [row] = (await s.messages()).slice(-1)
      assert.deepEqual(Buffer.from(row?.content ?? []), Buffer.from(bytes))
    }),
    { numRuns: 30 },
  )
})
