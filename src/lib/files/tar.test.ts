import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { Refusal } from '../refusal.ts'
import { readTar, TAR_END, type TarHead, tarHead, tarPadding } from './tar.ts'

interface Item extends TarHead {
  readonly bytes: Buffer
}

function item(path: string, bytes: Uint8Array | string = '', more: Partial<TarHead> = {}): Item {
  const data = Buffer.from(bytes)
  return { path, kind: 'file', size: data.length, mode: 0o644, mtime: 1_700_000_000, bytes: data, ...more }
}

function packed(items: readonly Item[]): Buffer {
  const parts = items.flatMap(({ bytes, ...head }) => [tarHead(head), bytes, tarPadding(bytes.length)])
  return Buffer.concat([...parts, TAR_END])
}

/** In chunks of this size, as from a pipe. */
async function unpacked(archive: Uint8Array, chunk = 1000): Promise<Item[]> {
  const source = (async function* () {
    for (let at = 0; at < archive.length; at += chunk) yield archive.subarray(at, at + chunk)
  })()
  const items: Item[] = []
  for await (const { body, ...head } of readTar(source)) {
    const parts: Buffer[] = []
    for await (const part of body) parts.push(part)
    items.push({ ...head, bytes: Buffer.concat(parts) })
  }
  return items
}

const segment = fc
  .string({ unit: 'grapheme', minLength: 1, maxLength: 120 })
  .filter((text) => !/[/\0]/.test(text) && text !== '.' && text !== '..' && text.isWellFormed())
const path = fc.array(segment, { minLength: 1, maxLength: 4 }).map((segments) => segments.join('/'))
const items = fc.array(
  fc.oneof(
    fc.tuple(path, fc.uint8Array({ maxLength: 1500 })).map(([name, bytes]) => item(name, bytes)),
    fc.tuple(path, fc.nat()).map(([name, realSize]) => item(name, 'x', { realSize })),
    path.map((name) => item(name, '', { kind: 'directory', mode: 0o700 })),
    fc.tuple(path, path).map(([name, link]) => item(name, '', { kind: 'link', mode: 0o777, link })),
  ),
  { maxLength: 5 },
)

suite('tar', () => {
  test('reads back its entries from chunks of any size', async () => {
    await fc.assert(
      fc.asyncProperty(items, fc.integer({ min: 1, max: 3000 }), async (given, chunk) => {
        assert.deepEqual(await unpacked(packed(given), chunk), given)
      }),
      { numRuns: 60 },
    )
  })

  test('writes archives that tar unpacks', (t) => {
    const dir = tempDir(t)
    const long = `${'d'.repeat(90)}/${'é'.repeat(80)}`
    const archive = packed([
      item('d'.repeat(90), '', { kind: 'directory', mode: 0o755 }),
      item(long, 'long'),
      item('short', 'x'.repeat(600), { mode: 0o600 }),
      item('link', '', { kind: 'link', mode: 0o777, link: 'short' }),
    ])
    writeFileSync(join(dir, 'a.tar'), archive)
    execFileSync('tar', ['-xf', 'a.tar'], { cwd: dir })
    assert.deepEqual(readdirSync(dir).sort(), ['a.tar', 'd'.repeat(90), 'link', 'short'])
    assert.equal(readFileSync(join(dir, long), 'utf8'), 'long')
    assert.equal(statSync(join(dir, 'short')).mode & 0o777, 0o600)
    assert.equal(readlinkSync(join(dir, 'link')), 'short')
  })

  test('keeps sizes beyond 8 GiB', async () => {
    const head = tarHead(item('big', '', { size: 2 ** 40 }))
    const first = async (): Promise<TarHead> => {
      for await (const entry of readTar(chunks(head))) return entry
      assert.fail()
    }
    assert.equal((await first()).size, 2 ** 40)
  })

  test('refuses incomplete records of a file with holes', async () => {
    const archive = packed([item('a', 'b', { realSize: 9 })])
    for (const [from, to] of [
      ['major=1', 'major=2'],
      ['minor=0', 'minor=1'],
      ['sparse.realsize', 'sparse.realsizf'],
      ['realsize=9', 'realsize=x'],
    ] as const) {
      const bad = Buffer.from(archive)
      bad.write(to, archive.indexOf(from))
      await assert.rejects(unpacked(bad), isRefusal('invalid', 'damaged'), to)
    }
    await assert.rejects(
      unpacked(packed([item('d', '', { kind: 'directory', realSize: 9 })])),
      isRefusal('invalid', 'holes'),
    )
  })

  test('refuses paths that lead outside, other entry kinds and other dialects', async () => {
    for (const bad of ['../x', '/etc/passwd', 'a/../../b', 'a//b', './a', 'a/.', 'a\0b', ''])
      await assert.rejects(unpacked(packed([item(bad)])), isRefusal('invalid', /forbidden path|damaged/))
    for (const flag of ['1', '3', '4', '6', 'g', 'L', '7', '\0'])
      await assert.rejects(unpacked(withFlag(packed([item('a', 'b')]), flag)), isRefusal('invalid', 'kind'))
    await assert.rejects(unpacked(packed([item('a', '', { mode: 0o4755 })])), isRefusal('invalid', 'mode'))
    await assert.rejects(
      unpacked(Buffer.concat([packed([item('a')]), Buffer.from('x')])),
      isRefusal('invalid', 'data follows its end'),
    )
  })

  test('notices every flipped bit and every cut, or returns the same entries', async () => {
    const given = [item('dir', '', { kind: 'directory', mode: 0o755 }), item('dir/name', 'content')]
    const archive = packed(given)
    await fc.assert(
      fc.asyncProperty(fc.nat(archive.length - 1), fc.integer({ min: 1, max: 255 }), async (at, bits) => {
        const bad = Buffer.from(archive)
        bad[at] = (bad[at] ?? 0) ^ bits
        const read = await unpacked(bad).catch((error: unknown) => {
          if (!(error instanceof Refusal)) throw error
          return 'refused'
        })
        // File contents and pax records have no checksum in tar: the manifest of a backup covers them.
        if (read !== 'refused') assert.deepEqual(heads(read as Item[]), heads(given))
      }),
      { numRuns: 500 },
    )
    for (let length = 0; length < archive.length; length += 97)
      await assert.rejects(unpacked(archive.subarray(0, length)), isRefusal('invalid', 'cut short'))
  })

  test('refuses bytes that are not an archive', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 2000 }), async (bytes) => {
        await assert.rejects(unpacked(bytes), isRefusal('invalid'))
      }),
      { numRuns: 200 },
    )
  })
})

async function* chunks(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
}

function heads(read: readonly Item[]): unknown[] {
  return read.map(({ bytes: _, ...head }) => head)
}

/** The first entry with another type flag and a matching checksum. */
function withFlag(archive: Buffer, flag: string): Buffer {
  archive.write(flag, 156, 'latin1')
  archive.fill(' ', 148, 156)
  const sum = archive.subarray(0, 512).reduce((total, byte) => total + byte, 0)
  archive.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return archive
}
