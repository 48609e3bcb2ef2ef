import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../../test/support/host.ts'
import { Refusal } from '../../lib/refusal.ts'
import {
  type ArchiveEntry,
  directoryEntry,
  makeArchiveHeader,
  packArchive,
  textEntry,
  unpackArchive,
} from './archive.ts'

const HEADER = makeArchiveHeader({
  ...{ svc: '1', instance: 'demo', created_at: '2026-01-01T00:00:00.000Z', engine: 'sqlite', has_keys: false },
  ...{ left_out: [], steps: [], tables: [], counters: {} },
})

async function packed(...parts: ArchiveEntry[]): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of packArchive(HEADER, from(parts))) chunks.push(chunk)
  return Buffer.concat(chunks)
}

async function* from<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items
}

async function unpacked(bytes: Uint8Array): Promise<unknown[]> {
  const entries: unknown[] = []
  for await (const { body, ...head } of unpackArchive(from([bytes]))) {
    const chunks: Buffer[] = []
    for await (const chunk of body) chunks.push(chunk)
    entries.push([head, Buffer.concat(chunks).toString('hex')])
  }
  return entries
}

const link = (path: string, to: string): ArchiveEntry => ({
  ...textEntry(path, '', 0),
  kind: 'link',
  mode: 0o777,
  link: to,
})
const long = 'n'.repeat(120)

suite('the archive of a backup', () => {
  test('gives its entries back as they were', async () => {
    const entries = await unpacked(
      await packed(directoryEntry('d', 7), textEntry(`d/${long}`, 'x', 8), link('d/l', '/etc')),
    )
    assert.deepEqual(entries.slice(1), [
      [{ path: 'd', kind: 'directory', size: 0, mode: 0o700, mtime: 7 }, ''],
      [{ path: `d/${long}`, kind: 'file', size: 1, mode: 0o600, mtime: 8 }, '78'],
      [{ path: 'd/l', kind: 'link', size: 0, mode: 0o777, mtime: 0, link: '/etc' }, ''],
    ])
  })

  test('is refused when any byte is another one', async () => {
    const archive = await packed(directoryEntry('d', 7), textEntry(`d/${long}`, 'content', 8), link('d/l', 'x'))
    const whole = await unpacked(archive)
    await fc.assert(
      fc.asyncProperty(fc.nat(archive.length - 1), fc.integer({ min: 1, max: 255 }), async (at, bits) => {
        const bad = Buffer.from(archive)
        bad[at] = (bad[at] ?? 0) ^ bits
        const read = await unpacked(bad).catch((error: unknown) => {
          if (!(error instanceof Refusal)) throw error
          return undefined
        })
        if (read) assert.deepEqual(read, whole)
      }),
      { numRuns: 1000 },
    )
  })

  test('is refused when it ends early, wherever that is', async () => {
    const archive = await packed(textEntry('a', 'content', 8))
    for (let length = 0; length < archive.length; length += 61)
      await assert.rejects(unpacked(archive.subarray(0, length)), isRefusal('invalid', 'cut short'))
  })

  test('is refused when it could write outside, through a link, or twice', async () => {
    for (const path of ['../x', '/x', 'd/../../x', 'd/./x'])
      await assert.rejects(
        packed(directoryEntry('d', 0), textEntry(path, '', 0)).then(unpacked),
        isRefusal('invalid', 'forbidden path'),
      )
    for (const parts of [
      [link('l', '/etc'), textEntry('l/x', '', 0)],
      [textEntry('f', '', 0), textEntry('f/x', '', 0)],
      [textEntry('nowhere/x', '', 0)],
    ])
      await assert.rejects(packed(...parts).then(unpacked), isRefusal('invalid', 'in no directory'))
    await assert.rejects(packed(textEntry('a', '1', 0), link('a', 'x')).then(unpacked), isRefusal('invalid', 'twice'))
  })

  test('without its manifest, or with more behind it, is refused', async () => {
    const archive = await packed(textEntry('a', 'b', 0))
    const at = archive.indexOf('manifest.jsonl')
    const without = Buffer.concat([archive.subarray(0, at), Buffer.alloc(1024)])
    await assert.rejects(unpacked(without), isRefusal('invalid', 'cut short'))
    const doubled = Buffer.concat([archive.subarray(0, -1024), archive.subarray(-1024 - 1024)])
    await assert.rejects(unpacked(doubled), isRefusal('invalid', 'damaged'))
  })
})
