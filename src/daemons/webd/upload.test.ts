import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { type ClientRequest, request } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine } from '../../../test/support/host.ts'
import { type LinkHost, type MintedLink, openLinkHost, openStream } from '../../../test/support/link-host.ts'
import { until } from '../../../test/support/until.ts'
import { type ChatFile, chatFilePath, chatFiles } from '../../core/files/chat-files.ts'
import { MESSAGE_OVERHEAD_BYTES, storedBytes } from '../../core/links/storage-use.ts'

const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000', 'hex')

interface Sent {
  readonly name: string
  readonly bytes: Uint8Array
  readonly type?: string
}

function form(fields: Record<string, string>, ...files: readonly Sent[]): { body: FormData } {
  const body = new FormData()
  for (const [name, value] of Object.entries(fields)) body.append(name, value)
  for (const { name, bytes, type = '' } of files) body.append('file', new File([new Uint8Array(bytes)], name, { type }))
  return { body }
}

const text = (name: string, content: string): Sent => ({ name, bytes: Buffer.from(content) })

async function open(t: TestContext, engine: EngineName = 'sqlite', settings: Record<string, string> = {}) {
  const s = await openLinkHost(t, { engine, settings })
  return { s, link: await s.mintChat() }
}

const rowsOf = (s: LinkHost): Promise<ChatFile[]> =>
  s.host.engine.read((tx) => chatFiles.list(tx, {}, [['position', 'asc']]))

/** Names of all files below the directory of files. */
function onDisk(s: LinkHost): string[] {
  const { files = '' } = s.host.layout ?? {}
  try {
    return readdirSync(files, { recursive: true, encoding: 'utf8' }).filter((path) =>
      statSync(join(files, path)).isFile(),
    )
  } catch {
    return []
  }
}

const pathOf = (s: LinkHost, file: ChatFile): string => {
  assert.ok(s.host.layout)
  return chatFilePath(s.host.layout, file)
}

async function leavesNothing(s: LinkHost, link: MintedLink): Promise<void> {
  await until(() => onDisk(s).length === 0)
  assert.deepEqual([await s.messages(link.jid), await rowsOf(s)], [[], []])
}

onEveryEngine('a message with files', (engine) => {
  test('is stored with its files, and shown with them wherever it is read', async (t) => {
    const { s, link } = await open(t, engine)
    const stream = await openStream(t, `${s.url('webd')}${link.chat}events`)
    const sent = form({ content: 'look' }, { name: 'a.png', bytes: PNG, type: 'text/html' }, text('b.txt', 'hello'))
    const { status, body } = await s.to(`POST ${link.chat}`, sent)
    assert.equal(status, 200, JSON.stringify(body))
    const [png, txt] = await rowsOf(s)
    assert.ok(png && txt)
    const files = [
      { id: png.id, name: 'a.png', type: 'image/png', size: PNG.length },
      { id: txt.id, name: 'b.txt', type: 'text/plain', size: 5 },
    ]
    const [row] = await s.messages(link.jid)
    assert.deepEqual(body, {
      user: { id: row?.id, content: 'look', created_at: row?.created_at, files },
      turn_id: row?.id,
      status: 'pending',
    })
    assert.deepEqual(
      [png.message_seq, png.position, txt.position, png.jid, png.folder, png.declared_type, png.extension],
      [row?.seq, 0, 1, link.jid, 'main', 'text/html', 'png'],
    )
    assert.deepEqual(readFileSync(pathOf(s, png)), PNG)
    assert.equal(statSync(pathOf(s, txt)).mode & 0o777, 0o444)
    const [event] = await stream.count(1)
    assert.deepEqual(JSON.parse(event?.data ?? '').files, files)
  })

  test('may have no text, and counts with its files in the storage of chat and folder', async (t) => {
    const { s, link } = await open(t, engine)
    assert.equal((await s.to(`POST ${link.chat}`, form({}, text('a', 'x'.repeat(1000))))).status, 200)
    const [row] = await s.messages(link.jid)
    assert.equal(row?.content.byteLength, 0)
    const expected = 1000 + MESSAGE_OVERHEAD_BYTES
    const stored = () =>
      s.host.engine.read(async (tx) => [
        await storedBytes(tx, 'chat', link.jid),
        await storedBytes(tx, 'folder', 'main'),
      ])
    await until(async () => (await stored())[0] === expected)
    assert.deepEqual(await stored(), [expected, expected])
  })

  test('that is sent again with its key is stored once, whatever its boundary', async (t) => {
    const { s, link } = await open(t, engine)
    const post = (content: string) =>
      s.to(`POST ${link.chat}`, { ...form({ content: 'a' }, text('f', content)), headers: { 'Idempotency-Key': 'k' } })
    const first = await post('1')
    assert.deepEqual((await post('1')).body, first.body)
    const { status, body } = await post('2')
    assert.deepEqual([status, body.detail], [422, 'this Idempotency-Key was used with another body'])
    assert.equal((await rowsOf(s)).length, 1)
    await until(() => onDisk(s).length === 1)
  })

  test('leaves nothing behind if its link is revoked during the upload', async (t) => {
    const { s, link } = await open(t, engine)
    const upload = startUpload(s, link)
    await until(() => onDisk(s).length === 1)
    await s.revoke(link)
    upload.end('x\r\n--b--\r\n')
    assert.equal(await upload.status, 401)
    await leavesNothing(s, link)
  })
})

interface OpenUpload {
  readonly status: Promise<number>
  readonly request: ClientRequest
  write(text: string): void
  end(text: string): void
}

/** An upload whose file has begun. */
function startUpload(s: LinkHost, link: MintedLink, given: Record<string, string> = {}): OpenUpload {
  const headers = { 'Content-Type': 'multipart/form-data; boundary=b', ...given }
  const asking = request(s.url('webd') + link.chat, { method: 'POST', agent: false, headers })
  const status = new Promise<number>((resolve) => {
    asking.on('response', (answer) => resolve(answer.resume().statusCode ?? 0))
    asking.on('error', () => resolve(0))
  })
  asking.write('--b\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\nstart of the file')
  return { status, request: asking, write: (more) => void asking.write(more), end: (last) => void asking.end(last) }
}

test('a form that is cut off leaves nothing', async (t) => {
  const { s, link } = await open(t)
  const upload = startUpload(s, link)
  await until(() => onDisk(s).length === 1)
  upload.request.destroy()
  await leavesNothing(s, link)
})

test('a form that is refused leaves nothing', async (t) => {
  const { s, link } = await open(t, 'sqlite', { ATTACHMENT_MAX: '10', TOKEN_BODY_MAX: '5000' })
  const refusals: [string, number, ReturnType<typeof form>][] = [
    ['the file "b" is larger than 10 bytes', 413, form({ content: 'a' }, text('a', '1'), text('b', '01234567890'))],
    [
      'the message has more than 10 files',
      413,
      form({ content: 'a' }, ...Array.from({ length: 11 }, (_, at) => text(`f${at}`, '1'))),
    ],
    ['the body is larger than 5000 bytes', 413, form({ content: 'a'.repeat(5000) }, text('a', '1'))],
    ['must not be longer', 400, form({ content: 'a', topic: 'x'.repeat(129) }, text('a', '1'))],
    ['content is required', 400, form({ other: 'a' })],
    ['content must not be empty', 400, form({ content: ' ' })],
  ]
  for (const [detail, expected, sent] of refusals) {
    const { status, body } = await s.to(`POST ${link.chat}`, sent)
    assert.equal(status, expected, detail)
    if (detail !== 'must not be longer') assert.equal(body.detail, detail)
  }
  await leavesNothing(s, link)
  const full = form({ content: 'a' }, ...Array.from({ length: 10 }, (_, at) => text(`f${at}`, '0123456789')))
  assert.equal((await s.to(`POST ${link.chat}`, full)).status, 200)
})

test('a message with files counts in the rate of its link when its first file arrives', async (t) => {
  const { s, link } = await open(t, 'sqlite', { WEBHOOK_RATE_WEB: '4' })
  const post = async (topic: string, headers: Record<string, string> = {}) => {
    const sent = { ...form({ content: 'a', topic }, text('a', '1')), headers }
    return (await s.to(`POST ${link.chat}`, sent)).status
  }
  const tooLong = 'x'.repeat(129)
  assert.deepEqual([await post(tooLong), await post(tooLong, { 'Idempotency-Key': 'a' })], [400, 400])
  const cutOff = startUpload(s, link)
  await until(() => onDisk(s).length === 1)
  cutOff.request.destroy()
  assert.deepEqual([await post('b', { 'Idempotency-Key': 'b' }), await post('c')], [200, 429])
  assert.equal((await s.messages(link.jid)).length, 1)
  await until(() => onDisk(s).length === 1)
})

test('a message with files that is sent again counts in the rate once', async (t) => {
  const { s, link } = await open(t, 'sqlite', { WEBHOOK_RATE_WEB: '2' })
  const init = { ...form({ content: 'a' }, text('a', '1')), headers: { 'Idempotency-Key': 'a' } }
  for (let time = 0; time < 4; time++) assert.equal((await s.to(`POST ${link.chat}`, init)).status, 200)
})

test('an upload of a network with many makes room for one of another network', async (t) => {
  const { s, link } = await open(t)
  const from = (address: string) => startUpload(s, link, { 'X-Forwarded-For': address })
  const uploads = Array.from({ length: 8 }, () => startUpload(s, link))
  await until(() => onDisk(s).length === 8)
  const other = from('203.0.113.7')
  assert.equal(await uploads[0]?.status, 0)
  other.end('x\r\n--b--\r\n')
  assert.equal(await other.status, 200)
  for (const { request } of uploads) request.destroy()
})

test('files beyond the quota of the link are refused before they are received', async (t) => {
  const { s, link } = await open(t, 'sqlite', { LINK_QUOTA: '20000' })
  const { status, body } = await s.to(`POST ${link.chat}`, form({}, text('a', 'x'.repeat(30_000))))
  assert.deepEqual([status, body.detail], [507, 'this link accepts no more messages: its storage is full'])
  await leavesNothing(s, link)
  assert.equal((await s.to(`POST ${link.chat}`, form({}, text('a', 'x'.repeat(15_000))))).status, 200)
})

test('a link receives 8 forms with files at a time', async (t) => {
  const { s, link } = await open(t)
  const uploads = Array.from({ length: 8 }, () => startUpload(s, link))
  await until(() => onDisk(s).length === 8)
  const { status, headers, body } = await s.to(`POST ${link.chat}`, form({}, text('a', '1')))
  assert.deepEqual([status, headers.get('retry-after'), body.detail], [429, '5', 'too many files are being received'])
  // Texts need no place.
  assert.equal((await s.to(`POST ${link.chat}`, form({ content: 'a' }))).status, 200)
  uploads[0]?.end('x\r\n--b--\r\n')
  assert.equal(await uploads[0]?.status, 200)
  assert.equal((await s.to(`POST ${link.chat}`, form({}, text('a', '1')))).status, 200)
  for (const { request } of uploads) request.destroy()
})

test('an upload takes a bounded amount of memory', async (t) => {
  const { s, link } = await open(t, 'sqlite', { ATTACHMENT_MAX: '64MiB' })
  const piece = Buffer.alloc(256 * 1024, 'x')
  const [count, hash] = [192, createHash('sha256')]
  for (let at = 0; at < count; at++) hash.update(piece)
  const body = new ReadableStream({
    pull(stream) {
      if (sent === 0) stream.enqueue(Buffer.from('--b\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\n'))
      if (sent++ < count) return stream.enqueue(piece)
      stream.enqueue(Buffer.from('\r\n--b--\r\n'))
      stream.close()
    },
  })
  let sent = 0
  const before = process.memoryUsage().arrayBuffers
  let peak = before
  const timer = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().arrayBuffers)
  }, 1)
  const headers = { 'Content-Type': 'multipart/form-data; boundary=b' }
  const init = { body, headers, duplex: 'half' } as RequestInit
  assert.equal((await s.to(`POST ${link.chat}`, init)).status, 200)
  clearInterval(timer)
  const [row] = await rowsOf(s)
  assert.ok(row)
  assert.equal(
    createHash('sha256')
      .update(readFileSync(pathOf(s, row)))
      .digest('hex'),
    hash.digest('hex'),
  )
  assert.ok(peak - before < 24 * 1024 * 1024, `${peak - before} bytes`)
})

test('a webhook takes no files at its chat URL', async (t) => {
  const { s } = await open(t)
  const { chat, jid } = await s.mintHook()
  const { status, body } = await s.to(`POST ${chat}`, form({ content: 'a' }, text('f', '1')))
  assert.deepEqual([status, body.detail], [415, 'this link does not accept files'])
  assert.deepEqual(await s.messages(jid), [])
})
