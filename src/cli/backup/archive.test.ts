import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../../test/support/host.ts'
import { Refusal } from '../../lib/refusal.ts'
import {
  type ArchiveEntry,
  makeArchiveHeader,
  makeDirectoryEntry,
  makeTextEntry,
  packArchive,
  unpackArchive,
} from './archive.ts'

const HEADER = makeArchiveHeader({
  ...{ svc: '1', instance: 'demo', created_at: '2026-01-01T00:00:00.000Z', engine: 'sqlite', has_keys: false },
  ...{ left_out: [], missing_workspaces: [], steps: [], tables: [], counters: {} },
})

async function pack(...entries: ArchiveEntry[]): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of packArchive(HEADER, iterate(entries))) chunks.push(chunk)
  return Buffer.concat(chunks)
}

async function* iterate<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items
}

async function unpack(bytes: Uint8Array): Promise<unknown[]> {
  const entries: unknown[] = []
  for await (const { body, ...head } of unpackArchive(iterate([bytes]))) {
    const chunks: Buffer[] = []
    for await (const chunk of body) chunks.push(chunk)
    entries.push([head, Buffer.concat(chunks).toString('hex')])
  }
  return entries
}

const makeLink = (path: string, to: string): ArchiveEntry => ({
  ...makeTextEntry(path, '', 0),
  kind: 'link',
  mode: 0o777,
  link: to,
})
const LONG_NAME = 'n'.repeat(120)

suite('the archive of a backup', () => {
  test('unpacks to the packed entries', async () => {
    const entries = await unpack(
      await pack(makeDirectoryEntry('d', 7), makeTextEntry(`d/${LONG_NAME}`, 'x', 8), makeLink('d/l', '/etc')),
    )
    assert.deepEqual(entries.slice(1), [
      [{ path: 'd', kind: 'directory', size: 0, mode: 0o700, mtime: 7 }, ''],
      [{ path: `d/${LONG_NAME}`, kind: 'file', size: 1, mode: 0o600, mtime: 8 }, '78'],
      [{ path: 'd/l', kind: 'link', size: 0, mode: 0o777, mtime: 0, link: '/etc' }, ''],
    ])
  })

  test('is refused if any byte is changed', async () => {
    const archive = await pack(
      makeDirectoryEntry('d', 7),
      makeTextEntry(`d/${LONG_NAME}`, 'content', 8),
      makeLink('d/l', 'x'),
      { ...makeTextEntry('d/holes', 'content', 8), realSize: 99 },
    )
    const whole = await unpack(archive)
    await fc.assert(
      fc.asyncProperty(fc.nat(archive.length - 1), fc.integer({ min: 1, max: 255 }), async (at, bits) => {
        const bad = Buffer.from(archive)
        bad[at] = (bad[at] ?? 0) ^ bits
        const read = await unpack(bad).catch((error: unknown) => {
          if (!(error instanceof Refusal)) throw error
          return undefined
        })
        if (read) assert.deepEqual(read, whole)
      }),
      { numRuns: 1000 },
    )
  })

  test('is refused if it ends early at any position', async () => {
    const archive = await pack(makeTextEntry('a', 'content', 8))
    for (let length = 0; length < archive.length; length += 61)
      await assert.rejects(unpack(archive.subarray(0, length)), isRefusal('invalid', 'cut short'))
  })

  test('is refused if it could write outside its root, through a link, or twice', async () => {
    for (const path of ['../x', '/x', 'd/../../x', 'd/./x'])
      await assert.rejects(
        pack(makeDirectoryEntry('d', 0), makeTextEntry(path, '', 0)).then(unpack),
        isRefusal('invalid', 'forbidden path'),
      )
    for (const entries of [
      [makeLink('l', '/etc'), makeTextEntry('l/x', '', 0)],
      [makeTextEntry('f', '', 0), makeTextEntry('f/x', '', 0)],
      [makeTextEntry('nowhere/x', '', 0)],
    ])
      await assert.rejects(pack(...entries).then(unpack), isRefusal('invalid', 'the directory of'))
    await assert.rejects(
      pack(makeTextEntry('a', '1', 0), makeLink('a', 'x')).then(unpack),
      isRefusal('invalid', 'twice'),
    )
  })

  test('is refused without its manifest, or with data after it', async () => {
    const archive = await pack(makeTextEntry('a', 'b', 0))
    const at = archive.indexOf('manifest.jsonl')
    const without = Buffer.concat([archive.subarray(0, at), Buffer.alloc(1024)])
    await assert.rejects(unpack(without), isRefusal('invalid', 'cut short'))
    const doubled = Buffer.concat([archive.subarray(0, -1024), archive.subarray(-1024 - 1024)])
    await assert.rejects(unpack(doubled), isRefusal('invalid', 'damaged'))
  })
})
