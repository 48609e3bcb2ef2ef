import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { groupDirs, layout as layoutOf } from '../layout.ts'
import { mustBePicture, readIdentity, readPicture, writePicture } from './identity-files.ts'

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)
const MAX = 256 * 1024

function workspace(t: TestContext) {
  const root = tempDir(t)
  const layout = layoutOf(root)
  const { home } = groupDirs(layout, 'team')
  mkdirSync(home, { recursive: true })
  const put = (name: string, bytes: Uint8Array | string): void => writeFileSync(join(home, name), bytes)
  return { root, layout, home, put }
}

test('the persona is read from the workspace, and without one the settings remain', (t) => {
  const { layout, put } = workspace(t)
  const group = { folder: 'team', name: 'team', config: '{"greeting":"Hi"}' }
  assert.equal(readIdentity(layout, group, 'svc').name, 'team')
  put('PERSONA.md', '---\nname: Ada\ngreeting: no\n---\n')
  const { name, greeting } = readIdentity(layout, group, 'svc')
  assert.deepEqual([name, greeting], ['Ada', 'Hi'])
  assert.equal(readIdentity(undefined, group, 'svc').name, 'team')
  put('PERSONA.md', `---\nname: Ada\n---\n${' '.repeat(65_536)}`)
  assert.equal(readIdentity(layout, group, 'svc').name, 'team', 'too large')
})

test('a picture is an image by its content, of at most 256 KiB, in the workspace', async (t) => {
  const { root, layout, home, put } = workspace(t)
  const read = (path: string) => readPicture(layout, 'team', path)
  put('me.html', PNG)
  assert.deepEqual(await read('me.html'), { type: 'image/png', bytes: PNG })
  put('largest.png', PNG)
  truncateSync(join(home, 'largest.png'), MAX)
  assert.equal((await read('largest.png'))?.bytes.byteLength, MAX)
  truncateSync(join(home, 'largest.png'), MAX + 1)
  put('page.png', '<script>alert(1)</script>')
  put('drawing.svg', '<svg xmlns="http://www.w3.org/2000/svg"/>')
  put('.env', PNG)
  writeFileSync(join(root, 'secret.png'), PNG)
  symlinkSync(join(root, 'secret.png'), join(home, 'link.png'))
  mkdirSync(join(home, 'directory.png'))
  for (const path of ['largest.png', 'page.png', 'drawing.svg', '.env', 'link.png', 'directory.png', 'missing.png'])
    assert.equal(await read(path), undefined, path)
  const sentence =
    /^page\.png is not in the workspace of team, or no picture: a picture must be a PNG, JPEG, GIF, WebP or AVIF image of at most 256 KiB$/
  await assert.rejects(mustBePicture(layout, 'team', 'page.png'), isRefusal('invalid', sentence))
  await mustBePicture(layout, 'team', 'me.html')
})

test('an uploaded picture gets a name of its own and replaces the one before', async (t) => {
  const { root, layout, home } = workspace(t)
  writeFileSync(join(root, 'outside'), 'kept')
  symlinkSync(join(root, 'outside'), join(home, 'picture.png'))
  assert.equal(await writePicture(layout, 'team', PNG), 'picture.png')
  assert.deepEqual(readFileSync(join(home, 'picture.png')), PNG)
  assert.equal(readFileSync(join(root, 'outside'), 'utf8'), 'kept')
  const gif = Buffer.from('R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==', 'base64')
  assert.equal(await writePicture(layout, 'team', gif), 'picture.gif')
  const largest = Buffer.concat([PNG, Buffer.alloc(MAX - PNG.length)])
  assert.equal(await writePicture(layout, 'team', largest), 'picture.png')
  const rule = 'a picture must be a PNG, JPEG, GIF, WebP or AVIF image of at most 256 KiB'
  for (const bytes of [Buffer.concat([largest, Buffer.alloc(1)]), Buffer.from('text'), Buffer.alloc(0)])
    await assert.rejects(writePicture(layout, 'team', bytes), isRefusal('invalid', rule))
  await assert.rejects(writePicture(layout, 'other', PNG), isRefusal('not_found', 'other has no workspace'))
})
