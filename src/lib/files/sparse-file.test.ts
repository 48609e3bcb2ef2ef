import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, ftruncateSync, openSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { type Extent, findExtents, formatExtents, readSparse } from './sparse-file.ts'
import { TAR_END, tarHead, tarPadding } from './tar.ts'

const MIB = 1024 * 1024

function sparseFile(t: TestContext, size: number, parts: readonly (readonly [number, string])[]): number {
  const fd = openSync(join(tempDir(t), 'f'), 'wx+')
  t.after(() => closeSync(fd))
  ftruncateSync(fd, size)
  for (const [offset, text] of parts) writeSync(fd, text, offset)
  return fd
}

async function* chunks(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function read(stored: Buffer, realSize: number, chunk = 1000): Promise<Buffer> {
  const file = Buffer.alloc(realSize)
  for await (const { offset, bytes } of readSparse(chunks(stored, chunk), realSize)) bytes.copy(file, offset)
  return file
}

suite('files with holes', () => {
  test('have extents around their data, and none if no hole is large', (t) => {
    const size = 64 * MIB
    assert.deepEqual(findExtents(sparseFile(t, size, []), size), [])
    const [found, ...others] = findExtents(sparseFile(t, size, [[32 * MIB, 'x']]), size) ?? assert.fail('no extents')
    assert.deepEqual(others, [])
    assert.ok(found && found.offset <= 32 * MIB && found.offset + found.length > 32 * MIB && found.length < MIB)
    const end = sparseFile(t, size, [
      [0, 'x'],
      [size - 1, 'y'],
    ])
    const extents = findExtents(end, size) ?? assert.fail('no extents')
    assert.equal(extents.length, 2)
    assert.equal((extents[1]?.offset ?? 0) + (extents[1]?.length ?? 0), size)
    // Holes of half a mebibyte between data are not worth a list.
    const dense = Array.from({ length: 8 }, (_, at): [number, string] => [at * (MIB / 2), 'x'])
    assert.equal(findExtents(sparseFile(t, 4 * MIB, dense), 4 * MIB), undefined)
    assert.equal(findExtents(-1, size), undefined)
  })

  test('find the data of a terabyte at once', (t) => {
    const size = 2 ** 40
    const extents = findExtents(sparseFile(t, size, [[size / 2, 'x']]), size)
    assert.equal(extents?.length, 1)
  })

  test('are read back from chunks of any size', async () => {
    const piece = fc.record({ gap: fc.nat(2000), length: fc.integer({ min: 1, max: 2000 }) })
    await fc.assert(
      fc.asyncProperty(
        fc.array(piece),
        fc.nat(3000),
        fc.integer({ min: 1, max: 1500 }),
        async (pieces, rest, chunk) => {
          let end = 0
          const extents = pieces.map(({ gap, length }): Extent => {
            const offset = end + gap
            end = offset + length
            return { offset, length }
          })
          const whole = Buffer.alloc(end + rest)
          for (const { offset, length } of extents) whole.fill('x', offset, offset + length)
          const data = extents.map(({ length }) => Buffer.alloc(length, 'x'))
          const stored = Buffer.concat([formatExtents(extents, whole.length), ...data])
          assert.deepEqual(await read(stored, whole.length, chunk), whole)
        },
      ),
      { numRuns: 60 },
    )
  })

  test('are refused if the list is not exactly that of the data', async () => {
    const list = (text: string): Buffer => Buffer.from(text.padEnd(512, '\0'))
    const bad: [Buffer, number][] = [
      [Buffer.alloc(0), 10],
      [list('1\n0\n'), 10],
      [list('1\n0\n4\n'), 10],
      [Buffer.concat([list('1\n0\n4\n'), Buffer.from('abc')]), 10],
      [Buffer.concat([list('1\n0\n4\n'), Buffer.from('abcde')]), 10],
      [Buffer.concat([list('1\n7\n4\n'), Buffer.from('abcd')]), 10],
      [Buffer.concat([list('2\n4\n2\n5\n2\n'), Buffer.from('abcd')]), 10],
      [Buffer.concat([list('2\n4\n2\n0\n2\n'), Buffer.from('abcd')]), 10],
      [list('-1\n'), 10],
      [list('a\n'), 10],
      [list('\n0\n'), 10],
      [list(`${2 ** 22 + 1}\n`), 10],
      [list(`1\n0\n${'9'.repeat(17)}\n`), 10],
      [Buffer.from('0\nx'.padEnd(512, '\0')), 10],
    ]
    for (const [stored, size] of bad)
      for (const chunk of [1, 512, 10_000])
        await assert.rejects(read(stored, size, chunk), isRefusal('invalid', 'holes'), stored.toString('latin1', 0, 30))
    assert.deepEqual(await read(list('0\n'), 3), Buffer.alloc(3))
    assert.deepEqual(
      await read(Buffer.concat([list('1\n6\n4\n'), Buffer.from('abcd')]), 10),
      Buffer.from(`${'\0'.repeat(6)}abcd`),
    )
  })

  test('are unpacked by tar with their holes', (t) => {
    const dir = tempDir(t)
    const size = 8 * MIB
    const extents = [{ offset: 2 * MIB, length: 3 }]
    const stored = Buffer.concat([formatExtents(extents, size), Buffer.from('abc')])
    const head = tarHead({ path: 'f', kind: 'file', size: stored.length, realSize: size, mode: 0o644, mtime: 0 })
    writeFileSync(join(dir, 'a.tar'), Buffer.concat([head, stored, tarPadding(stored.length), TAR_END]))
    execFileSync('tar', ['-xf', 'a.tar'], { cwd: dir })
    const expected = Buffer.alloc(size)
    expected.write('abc', 2 * MIB)
    assert.ok(readFileSync(join(dir, 'f')).equals(expected))
    assert.ok(statSync(join(dir, 'f')).blocks * 512 < MIB)
  })
})
