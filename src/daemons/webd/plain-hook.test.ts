import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import fc from 'fast-check'
import { onEveryEngine } from '../../../test/support/host.ts'
import { links } from '../../../test/support/links.ts'
import { raw, statusOf } from '../../../test/support/serve.ts'
import { until } from '../../../test/support/until.ts'

/** The first post of a link is found in the store; the ones after it take the short way. */
onEveryEngine('the short way of a hook', (engine) => {
  test('says and stores the same as the long one', async (t) => {
    const s = await links(t, { engine })
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

  test('a revoked link is 401 on the very next post, over its rate as well', async (t) => {
    const s = await links(t, { engine, settings: { WEBHOOK_RATE_HOOK: '2' } })
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

test('what is not plain about a post is left to the long way', async (t) => {
  const s = await links(t)
  const hook = await s.mintHook()
  const post = (headers: Record<string, string>, body = 'x'): Promise<{ status: number }> =>
    s.to(`POST ${hook.hook}`, { body, headers })
  await post({})
  for (const repeat of [1, 2])
    assert.equal((await post({ 'Idempotency-Key': 'k' }, `${repeat}`)).status, repeat === 1 ? 204 : 422)
  for (const _ of [1, 2]) assert.equal((await post({ 'webhook-id': 'w' })).status, 204)
  assert.equal((await s.messages()).length, 3)
  const line = `POST ${hook.hook} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n`
  const chunked = `${line}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`
  assert.equal(statusOf(await raw(s.url('webd'), chunked)), 204)
  assert.match(
    await raw(s.url('webd'), `${line}Content-Length: 1\r\nExpect: 100-continue\r\n\r\n`, 'y'),
    /^HTTP\/1\.1 100 .*\r\n\r\nHTTP\/1\.1 204/s,
  )
  assert.equal((await s.messages()).length, 5)
})

test('a body that breaks off is not stored, and a body in pieces is', async (t) => {
  const s = await links(t)
  const hook = await s.mintHook()
  await s.to(`POST ${hook.hook}`, { body: 'first' })
  const head = `POST ${hook.hook} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 6\r\n\r\n`
  assert.equal(statusOf(await raw(s.url('webd'), `${head}ab`, 'c', 'def')), 204)
  const last = await s.messages()
  assert.equal(Buffer.from(last.at(-1)?.content ?? []).toString(), 'abcdef')
  const { hostname, port } = new URL(s.url('webd'))
  const socket = connect(Number(port), hostname)
  socket.end(`${head}abc`)
  await once(socket.resume(), 'close')
  assert.equal((await s.messages()).length, 2)
})

test('its posts are counted and logged as the others, without the token', async (t) => {
  const s = await links(t)
  const hook = await s.mintHook()
  for (const body of ['1', '2', '3']) await s.to(`POST ${hook.hook}`, { body })
  await until(() => s.logged().filter(({ status }) => status === 204).length === 3)
  const [, second, third] = s.logged().filter(({ status }) => status === 204)
  assert.deepEqual(Object.keys(second ?? {}), Object.keys(third ?? {}))
  assert.match(String(third?.path), /^\/hook\/[0-9a-f]{8}$/)
  assert.ok(!JSON.stringify(s.logged()).includes(hook.token))
})

test('bytes are bytes, whichever way they come', async (t) => {
  const s = await links(t)
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
