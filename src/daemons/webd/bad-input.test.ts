// Malformed and hostile requests at a link; those that the listener refuses are in ../http/listener.test.ts.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { openLinkHost } from '../../../test/support/link-host.ts'
import { sendRaw, statusOf } from '../../../test/support/served-host.ts'
import { until } from '../../../test/support/until.ts'

const MIB = 1024 * 1024

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

/** The most memory that is in use at a time during the work, over that before it. */
async function peakBytes(work: () => Promise<void>): Promise<number> {
  const used = (): number => {
    collectGarbage()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
  const before = used()
  let peak = before
  const timer = setInterval(() => {
    peak = Math.max(peak, used())
  }, 5)
  await work()
  clearInterval(timer)
  return peak - before
}

test('bad input at a link', async (t) => {
  const settings = { WEBHOOK_RATE_HOOK: '0', WEBHOOK_RATE_WEB: '0' }
  const s = await openLinkHost(t, { settings })
  const link = await s.mintHook()
  const url = s.url('webd')
  const head = (...headers: string[]): string =>
    [`POST ${link.hook} HTTP/1.1`, 'Host: a', ...headers, '', ''].join('\r\n')
  const stored = async (): Promise<number> => (await s.messages(link.jid)).length
  const close = 'Connection: close'
  const open = async (): Promise<{ socket: Socket; text: () => string }> => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    t.after(() => void socket.destroy())
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('error', () => {})
    await once(socket, 'connect')
    return { socket, text: () => text }
  }

  await t.test(
    'a Content-Length above the limit is 413 before the body is sent, and the connection closes',
    async () => {
      const answer = await sendRaw(url, head(`Content-Length: ${MIB + 1}`))
      assert.equal(statusOf(answer), 413)
      assert.match(answer, /\r\nConnection: close\r\n/i)
      assert.match(answer, /application\/problem\+json/)
    },
  )

  await t.test('a client that sends the body anyway reads the response', async () => {
    for (let time = 0; time < 10; time++)
      assert.equal((await s.to(`POST ${link.hook}`, { body: new Uint8Array(2 * MIB) })).status, 413)
  })

  await t.test('a client that sends Expect: 100-continue gets 100, or the refusal at once', async () => {
    const yes = await sendRaw(url, head('Expect: 100-continue', 'Content-Length: 2', close), 'ab')
    assert.match(yes, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 204 /)
    const no = await sendRaw(url, head('Expect: 100-continue', `Content-Length: ${MIB + 1}`))
    assert.equal(statusOf(no), 413)
    const unknown = head('Expect: 100-continue', 'Content-Length: 2').replace(link.token, 'A'.repeat(43))
    assert.equal(statusOf(await sendRaw(url, unknown)), 401)
    assert.equal(await stored(), 1)
  })

  await t.test('chunks that exceed the limit are 413', async () => {
    const chunk = `${(65_536).toString(16)}\r\n${'x'.repeat(65_536)}\r\n`
    const { socket, text } = await open()
    socket.write(head('Transfer-Encoding: chunked'))
    for (let sent = 0; sent < 17 && text() === ''; sent++) {
      socket.write(chunk)
      await new Promise(setImmediate)
    }
    await until(() => text() !== '' || socket.destroyed)
    assert.equal(statusOf(text()), 413)
    assert.equal(await stored(), 1)
  })

  await t.test('a body in chunks of one byte takes no more memory than another', async () => {
    const { chat } = await s.mintChat({ jid_suffix: 'chunks' })
    const count = 300_000
    const chunked = (text: string): string => text.replace(/./gs, (byte) => `1\r\n${byte}\r\n`)
    const form = '--b\r\nContent-Disposition: form-data; name=content\r\n\r\n'
    const bodies: [path: string, type: string, body: string][] = [
      [link.hook, 'text/plain', 'x'.repeat(count)],
      [chat, 'text/plain', 'x'.repeat(count)],
      [chat, 'multipart/form-data; boundary=b', `${form}${'x'.repeat(count)}\r\n--b--\r\n`],
    ]
    for (const [path, type, body] of bodies) {
      const wire = Buffer.from(`${chunked(body)}0\r\n\r\n`)
      const headers = [`POST ${path} HTTP/1.1`, 'Host: a', `Content-Type: ${type}`, 'Transfer-Encoding: chunked', close]
      const bytes = await peakBytes(async () => {
        const { socket, text } = await open()
        socket.write([...headers, '', ''].join('\r\n'))
        socket.write(wire)
        await once(socket, 'close')
        assert.match(text(), /^HTTP\/1\.1 20[04] /)
      })
      assert.ok(bytes < 20 * MIB, `${path} ${type}: ${bytes} bytes`)
    }
  })

  const broken: Record<string, string[]> = {
    'a negative length': [head('Content-Length: -1')],
    'two lengths in one': [head('Content-Length: 2, 2'), 'ab'],
    'a length of 20 digits': [head(`Content-Length: ${'9'.repeat(20)}`)],
    'a length and chunks': [head('Content-Length: 1', 'Transfer-Encoding: chunked'), '0\r\n\r\n'],
    'an unknown coding': [head('Transfer-Encoding: xchunked'), 'a'],
    'an invalid chunk size': [head('Transfer-Encoding: chunked'), 'zz\r\nab\r\n0\r\n\r\n'],
    'a chunk that is longer than its size': [head('Transfer-Encoding: chunked'), '1\r\nabcdef\r\n0\r\n\r\n'],
    'an extension of 17 KiB': [head('Transfer-Encoding: chunked'), `1;${'x'.repeat(17_000)}\r\na\r\n0\r\n\r\n`],
    'a key with a line break in it': [head('Idempotency-Key: a\r\n b')],
    'two keys': [head('Idempotency-Key: a', 'Idempotency-Key: b', 'Content-Length: 0', close)],
    'a key twice': [head('Idempotency-Key: a', 'Idempotency-Key: a', 'Content-Length: 0', close)],
  }
  for (const [what, parts] of Object.entries(broken)) {
    await t.test(`${what} is refused and leaves no row`, async () => {
      const before = await stored()
      const status = statusOf(await sendRaw(url, ...parts))
      assert.ok([400, 413, 431].includes(status), String(status))
      assert.equal(await stored(), before)
    })
  }

  await t.test('a body that ends early leaves no row', async () => {
    const before = await stored()
    for (const begun of [head('Content-Length: 10'), `${head('Transfer-Encoding: chunked')}4\r\n`]) {
      const ended = await open()
      ended.socket.end(`${begun}abcd`)
      await once(ended.socket, 'close')
      assert.ok([0, 400].includes(statusOf(ended.text())), ended.text())
      const reset = await open()
      reset.socket.write(`${begun}abcd`)
      await new Promise(setImmediate)
      reset.socket.resetAndDestroy()
    }
    assert.equal((await s.to(`POST ${link.hook}`)).status, 204)
    assert.equal(await stored(), before + 1)
  })

  await t.test('a stalled body is 408 and leaves no row', async () => {
    // A separate server with short timeouts.
    const hasty = await openLinkHost(t, { settings, limits: { headMs: 300, requestMs: 300 } })
    const { hook, jid } = await hasty.mintHook()
    const begun = `POST ${hook} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabcd`
    assert.equal(statusOf(await sendRaw(hasty.url('webd'), begun)), 408)
    assert.deepEqual(await hasty.messages(jid), [])
  })

  await t.test('of a thousand pipelined requests, cut in the middle, all acknowledged ones are stored', async () => {
    const before = await stored()
    const one = (at: number): string => {
      const body = `request ${at}`
      return `${head(`Content-Length: ${body.length}`)}${body}`
    }
    const { socket, text } = await open()
    socket.write(Array.from({ length: 1000 }, (_, at) => one(at)).join(''))
    const acknowledged = (): number => text().match(/HTTP\/1\.1 204/g)?.length ?? 0
    await until(() => acknowledged() > 200)
    socket.destroy()
    const count = acknowledged()
    const rows = (await s.messages(link.jid)).slice(before)
    assert.ok(rows.length >= count, `${rows.length} rows, ${count} acknowledged`)
    // In the order of sending, without gaps.
    assert.deepEqual(
      rows.map(({ content }) => Buffer.from(content).toString()),
      rows.map((_, at) => `request ${at}`),
    )
  })

  await t.test('a client that closes its half after the request gets its response', async () => {
    const { socket, text } = await open()
    socket.end(`${head('Content-Length: 2')}ab`)
    await once(socket, 'close')
    assert.equal(statusOf(text()), 204)
  })

  await t.test('clients that reset the connection before the response do no harm', async () => {
    for (let time = 0; time < 30; time++) {
      const { socket } = await open()
      socket.write(`${head('Content-Length: 2')}ab`)
      if (time % 3 === 0) await new Promise(setImmediate)
      socket.resetAndDestroy()
    }
    assert.equal((await s.to(`POST ${link.hook}`)).status, 204)
  })

  await t.test('absolute-form is accepted only for the host in Host', async () => {
    const other = `POST http://b${link.hook} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n${close}\r\n\r\n`
    assert.equal(statusOf(await sendRaw(url, other)), 400)
    for (const target of [`http://a${link.hook}`, `HTTPS://A${link.hook}?x`]) {
      const own = `POST ${target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n${close}\r\n\r\n`
      assert.equal(statusOf(await sendRaw(url, own)), 204, target)
    }
  })

  await t.test('an HTTP/1.0 request gets one response and the connection closes', async () => {
    const request = `POST ${link.hook} HTTP/1.0\r\nHost: a\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nab`
    assert.equal(statusOf(await sendRaw(url, request)), 204)
  })

  await t.test('a compressed body is stored unchanged', async () => {
    const packed = Buffer.from('1f8b0800000000000003', 'hex')
    const init = { body: packed, headers: { 'Content-Encoding': 'gzip' } }
    assert.equal((await s.to(`POST ${link.hook}`, init)).status, 204)
    assert.deepEqual(Buffer.from((await s.messages(link.jid)).at(-1)?.content ?? []), packed)
  })

  assert.deepEqual(
    s.logged().filter(({ level }) => level === 'error'),
    [],
    'none of this is an internal error',
  )
})
