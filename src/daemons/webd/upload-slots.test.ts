import assert from 'node:assert/strict'
import { statfsSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { UploadSlots } from './upload-slots.ts'

const FULL = isRefusal('rate_limited', 'too many files are being received')

function setUp() {
  const slots = new UploadSlots()
  const aborted: string[] = []
  const add = (name: string, link: string, network: string, left = 0) => {
    const upload = { link, network, left, abort: () => void aborted.push(name) }
    slots.add(upload)
    return upload
  }
  return { slots, aborted, add }
}

suite('places for uploads', () => {
  test('are eight for a link', () => {
    const { slots, add } = setUp()
    const uploads = Array.from({ length: 8 }, (_, at) => add(`${at}`, 'one', `network ${at}`))
    assert.throws(() => add('more', 'one', 'another'), FULL)
    add('other link', 'two', 'another')
    slots.remove(uploads[3] ?? assert.fail())
    add('again', 'one', 'another')
  })

  test('are 32 in all', () => {
    const { add } = setUp()
    for (let at = 0; at < 32; at++) add(`${at}`, `link ${at % 8}`, `network ${at}`)
    assert.throws(() => add('more', 'one more', 'another'), FULL)
  })

  test('of a link go from a network with many uploads to one with fewer, the oldest first', () => {
    const { aborted, add } = setUp()
    for (let at = 0; at < 8; at++) add(`${at}`, 'one', 'many')
    add('few', 'one', 'few')
    add('few too', 'one', 'few')
    assert.deepEqual(aborted, ['0', '1'])
    assert.throws(() => add('8', 'one', 'many'), FULL)
  })

  test('of all links go to another network, too', () => {
    const { aborted, add } = setUp()
    for (let at = 0; at < 32; at++) add(`${at}`, `link ${at % 8}`, 'many')
    add('few', 'another link', 'few')
    assert.deepEqual(aborted, ['0'])
  })

  test('are refused if the files that are to come would fill the disk', async (t) => {
    const { slots, add } = setUp()
    const root = tempDir(t)
    const layout = { root, files: join(root, 'missing') }
    const { bavail, bsize } = statfsSync(root)
    const free = bavail * bsize
    await slots.mustHaveRoomOnDisk(layout)
    const [one, other] = [add('one', 'one', 'a', free / 2), add('other', 'two', 'b', free / 2)]
    await assert.rejects(slots.mustHaveRoomOnDisk(layout), isRefusal('storage_full'))
    slots.remove(one)
    await slots.mustHaveRoomOnDisk(layout)
    other.left = free
    await assert.rejects(slots.mustHaveRoomOnDisk(layout), isRefusal('storage_full'))
  })
})
