import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Script } from 'node:vm'
import { inflateSync } from 'node:zlib'
import { linkFiles } from './files.ts'
import { drawIcon } from './icon.ts'

const LIMITS = () => ({ bytes: 25, count: 10, totalBytes: 100 })

const bodyOf = async (path: string): Promise<Buffer> => {
  const { body } =
    (await linkFiles('Ada "A" <b>', LIMITS).get(path)?.({ acceptEncoding: undefined, ifNoneMatch: undefined })) ?? {}
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
  const handler = linkFiles('a', LIMITS).get('sw.js') ?? assert.fail()
  const { headers } = await handler({ acceptEncoding: undefined, ifNoneMatch: undefined })
  assert.match(headers['Content-Security-Policy'] ?? '', /default-src 'none'; connect-src 'self'/)
  assert.doesNotThrow(async () => new Script((await bodyOf('sw.js')).toString()))
})
