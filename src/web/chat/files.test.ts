import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Script } from 'node:vm'
import { inflateSync } from 'node:zlib'
import { AgentLinkFiles, commonLinkFiles } from './files.ts'
import { drawIcon } from './icon.ts'

const LIMITS = { bytes: 25, count: 10, totalBytes: 100 }
const ADA = { name: 'Ada "A" <b>', tint: '#4f5bd5' }
const REQUEST = { acceptEncoding: undefined, ifNoneMatch: undefined }

const bodyOf = async (path: string): Promise<Buffer> => {
  const handler = commonLinkFiles().get(path) ?? new AgentLinkFiles().get(path, ADA, LIMITS)
  const { body } = (await handler?.(REQUEST)) ?? {}
  return Buffer.from(body ?? assert.fail(path))
}

test('the manifest names the agent, stays on its link, and has icons of the sizes that it says', async () => {
  const manifest = JSON.parse((await bodyOf('manifest.webmanifest')).toString())
  assert.deepEqual([manifest.name, manifest.start_url, manifest.scope], ['Ada "A" <b>', './', './'])
  for (const { src, sizes, type } of manifest.icons) {
    const icon = await bodyOf(src)
    if (type === 'image/svg+xml') assert.match(icon.toString(), /^<svg xmlns/)
    else assert.deepEqual(`${icon.readUInt32BE(16)}x${icon.readUInt32BE(20)}`, sizes)
    assert.ok(icon.length < 12_000, `${src}: ${icon.length}`)
  }
})

test('icons show the bubble: opaque inside, and outside transparent or the colour', () => {
  for (const isMaskable of [false, true]) {
    const size = 64
    const png = drawIcon({ size, isMaskable })
    const chunks = new Map<string, Buffer>()
    for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at))
      chunks.set(png.toString('latin1', at + 4, at + 8), png.subarray(at + 8, at + 8 + png.readUInt32BE(at)))
    const rows = inflateSync(chunks.get('IDAT') ?? assert.fail())
    const coverage = (x: number, y: number): number => rows[y * (size + 1) + 1 + x] ?? -1
    assert.deepEqual([coverage(32, 28), coverage(0, 0), coverage(63, 63)], [255, 0, 0])
    assert.equal(chunks.has('tRNS'), !isMaskable)
    assert.deepEqual([...(chunks.get('PLTE')?.subarray(0, 3) ?? [])], [0x4f, 0x5b, 0xd5])
  }
})

test('the service worker is valid JavaScript and may reach only its own server', async () => {
  const handler = commonLinkFiles().get('sw.js') ?? assert.fail()
  const { headers } = await handler(REQUEST)
  assert.match(headers['Content-Security-Policy'] ?? '', /default-src 'none'; connect-src 'self'/)
  assert.doesNotThrow(async () => new Script((await bodyOf('sw.js')).toString()))
})

test('files of an agent are built once, and again after a change of the agent or of the limits', async () => {
  const files = new AgentLinkFiles()
  const widget = files.get('widget.js', ADA, LIMITS)
  assert.equal(files.get('widget.js', { ...ADA }, { ...LIMITS }), widget)
  assert.notEqual(files.get('widget.js', { ...ADA, greeting: 'Hi' }, LIMITS), widget)
  assert.notEqual(files.get('widget.js', ADA, { ...LIMITS, bytes: 26 }), widget)
  const { headers } = (await widget?.(REQUEST)) ?? assert.fail()
  assert.equal(headers['Content-Type'], 'text/javascript; charset=utf-8')
  assert.equal(headers['Cross-Origin-Resource-Policy'], 'cross-origin')
  for (const path of ['chat.js', 'toString', '']) assert.equal(files.get(path, ADA, LIMITS), undefined)
})

test('files are kept for the last 200 agents', () => {
  const files = new AgentLinkFiles()
  const get = (at: number) => files.get('manifest.webmanifest', { ...ADA, name: `${at}` }, LIMITS)
  const [first, second] = [get(0), get(1)]
  for (let at = 2; at < 200; at++) get(at)
  assert.equal(get(0), first)
  get(200)
  assert.equal(get(0), first, 'used after the second')
  assert.notEqual(get(1), second)
})

test('the chat of a widget is a file for each language, which the button names', async () => {
  const [english, german] = [(await bodyOf('chat.js')).toString(), (await bodyOf('chat.de.js')).toString()]
  assert.ok(english.includes('Write a message') && !english.includes('Nachricht …'))
  assert.ok(german.includes('Nachricht …') && !german.includes('Write a message'))
  const widget = (await bodyOf('widget.js')).toString()
  assert.ok(widget.includes('"close":"Close"') && widget.includes('"close":"Schließen"'))
  for (const path of ['chat.en.js', 'chat.fr.js', 'chat.js.js']) assert.equal(commonLinkFiles().get(path), undefined)
})
