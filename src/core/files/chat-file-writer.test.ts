import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { refuseDisk } from '../../lib/files/atomic-file.ts'
import { type Layout, layout } from '../layout.ts'
import { ChatFileWriter, noSpace, onDisk, UNFINISHED } from './chat-file-writer.ts'
import { chatFilePath } from './chat-files.ts'

const PLACE = { folder: 'main', jid: 'web:main' }
const LABEL = { id: '0190a000-0000-7000-8000-000000000001', name: 'a.txt', declared_type: 'text/html' }

async function open(t: TestContext): Promise<{ places: Layout; writer: ChatFileWriter }> {
  const places = layout(tempDir(t))
  mkdirSync(places.groups)
  return { places, writer: await ChatFileWriter.open(places, LABEL) }
}

const namesIn = ({ files }: Layout): string[] =>
  readdirSync(files, { recursive: true, encoding: 'utf8' }).filter((path) => statSync(join(files, path)).isFile())

suite('a file that arrives', () => {
  test('is complete on the disk, read-only, when it is placed', async (t) => {
    const { places, writer } = await open(t)
    for (const text of ['one ', '', 'two']) await writer.write(Buffer.from(text))
    const stored = await writer.finish()
    assert.deepEqual(stored, { ...LABEL, type: 'text/plain', extension: 'txt', size: 7 })
    assert.deepEqual(namesIn(places), [join(UNFINISHED, LABEL.id)])
    await writer.place(PLACE)
    const path = chatFilePath(places, { ...stored, ...PLACE })
    assert.deepEqual([readFileSync(path, 'utf8'), statSync(path).mode & 0o777], ['one two', 0o444])
    assert.equal(namesIn(places).length, 1)
  })

  test('has its bytes in order, whatever their pieces', async (t) => {
    const { places, writer } = await open(t)
    const pieces = [1, 600_000, 0, 3, 512 * 1024, 70_000].map((length, at) => Buffer.alloc(length, 97 + at))
    for (const piece of pieces) await writer.write(piece)
    assert.equal(writer.size, 1_194_292)
    await writer.finish()
    assert.deepEqual(readFileSync(join(places.files, UNFINISHED, LABEL.id)), Buffer.concat(pieces))
  })

  test('is written at 512 KiB, and not before', async (t) => {
    const { places, writer } = await open(t)
    const path = join(places.files, UNFINISHED, LABEL.id)
    await writer.write(Buffer.alloc(512 * 1024 - 1))
    assert.equal(statSync(path).size, 0)
    await writer.write(Buffer.alloc(1))
    await until(() => statSync(path).size === 512 * 1024)
    await writer.remove()
  })

  test('can be removed before it is finished, before it is placed, and after', async (t) => {
    for (const steps of [0, 1, 2]) {
      const { places, writer } = await open(t)
      await writer.write(Buffer.from('text'))
      if (steps > 0) await writer.finish()
      if (steps > 1) await writer.place(PLACE)
      assert.equal(namesIn(places).length, 1)
      await writer.remove()
      assert.deepEqual(namesIn(places), [])
    }
  })

  test('cannot be placed before it is finished', async (t) => {
    const { writer } = await open(t)
    await assert.rejects(writer.place(PLACE), /not finished/)
    await writer.remove()
  })

  test('is refused by a process without the files of the instance', async (t) => {
    const places = layout(join(tempDir(t), 'nothing'))
    await assert.rejects(ChatFileWriter.open(places, LABEL), isRefusal('unsupported', 'files are not available here'))
  })
})

suite('an error of the disk', () => {
  const failing = (code: string) => onDisk(() => Promise.reject(Object.assign(new Error(`${code}: write`), { code })))

  test('is the same refusal for every way in which there is no space', async () => {
    for (const code of ['ENOSPC', 'EDQUOT', 'EFBIG'])
      await assert.rejects(failing(code), isRefusal('storage_full', noSpace().message))
  })

  test('is that refusal also in a directory', async () => {
    const full = Object.assign(new Error('ENOSPC: mkdir'), { code: 'ENOSPC' })
    const inDirectory = onDisk(async () => refuseDisk(full, 'make', '/data/files'))
    await assert.rejects(inDirectory, isRefusal('storage_full', noSpace().message))
  })

  test('is unavailable otherwise', async () => {
    await assert.rejects(failing('EIO'), isRefusal('unavailable'))
  })

  test('is passed on if it is no error of the disk', async () => {
    await assert.rejects(
      onDisk(() => Promise.reject(new TypeError('a defect'))),
      TypeError,
    )
  })
})
