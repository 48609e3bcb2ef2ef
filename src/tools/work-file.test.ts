// The work file, including symbolic links and other files in its place.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { agents } from '../../test/support/agents.ts'
import { audit } from '../registry/audit.ts'

test('replaces and reads the whole work file', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a'])
  const team = await here.open('team')
  assert.deepEqual(await team.call('get_work'), { content: '', exists: false })
  assert.equal(await team.call('set_work', { content: 'one ä\n' }), 'ok')
  // The audit row has only the size of the file.
  const [row] = await here.host.engine.read((tx) => audit.list(tx, { action: 'tools.set_work' }))
  assert.equal(row?.params_summary, '{"bytes":7}')
  assert.deepEqual(await team.call('get_work'), { content: 'one ä\n', exists: true })
  assert.equal(await team.call('set_work', { content: '' }), 'ok')
  assert.deepEqual(await team.call('get_work'), { content: '', exists: true })
  const path = join(here.root, 'groups/team/work.md')
  assert.equal(statSync(path).mode & 0o777, 0o644)
  // Each folder has its own.
  assert.deepEqual(await (await here.open('team/a')).call('get_work'), { content: '', exists: false })
  // A missing workspace is created.
  rmSync(join(here.root, 'groups/team/a'), { recursive: true })
  assert.deepEqual(await (await here.open('team/a')).call('get_work'), { content: '', exists: false })
  await (await here.open('team/a')).call('set_work', { content: 'two' })
  assert.equal(readFileSync(join(here.root, 'groups/team/a/work.md'), 'utf8'), 'two')
})

test('does not follow symbolic links', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a', 'other'])
  const [home, secret] = [join(here.root, 'groups/team'), join(here.root, 'groups/other/work.md')]
  writeFileSync(secret, 'secret')
  symlinkSync(secret, join(home, 'work.md'))
  const team = await here.open('team')
  assert.equal(await team.refusal('get_work'), 'cannot read /home/node/work.md: it is a symbolic link')
  await team.call('set_work', { content: 'mine' })
  assert.deepEqual(
    [await team.call('get_work'), readFileSync(secret, 'utf8')],
    [{ content: 'mine', exists: true }, 'secret'],
  )

  // The workspace of a child is inside its parent's, which may replace it.
  renameSync(join(home, 'a'), join(home, 'b'))
  symlinkSync(join(here.root, 'groups/other'), join(home, 'a'))
  const child = await here.open('team/a')
  assert.equal(await child.refusal('get_work'), 'the workspace of team/a is a symbolic link or not a directory')
  assert.equal(
    await child.refusal('set_work', { content: 'x' }),
    'the workspace of team/a is a symbolic link or not a directory',
  )
  assert.equal(readFileSync(secret, 'utf8'), 'secret')
})

test('refuses a large file or anything but a regular file', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team'])
  const team = await here.open('team')
  const path = join(here.root, 'groups/team/work.md')
  mkdirSync(path)
  assert.equal(await team.refusal('get_work'), 'cannot read /home/node/work.md: it is not a regular file')
  assert.match(await team.refusal('set_work', { content: 'x' }), /^cannot write \/home\/node\/work\.md: /)
  rmSync(path, { recursive: true })
  writeFileSync(path, 'x'.repeat(256 * 1024 + 1))
  assert.equal(await team.refusal('get_work'), 'cannot read /home/node/work.md: it is larger than 262144 bytes')
  for (const [content, expected] of [
    ['x'.repeat(256 * 1024 + 1), 'content must be at most 262144 bytes'],
    ['ä'.repeat(256 * 512 + 1), 'content must be at most 262144 bytes'],
    ['a\u0000b', 'content must not contain a NUL character'],
    [7, 'content must be text'],
    [undefined, 'content is required'],
  ] as const) {
    const text = await team.refusal('set_work', content === undefined ? {} : { content })
    if (typeof expected === 'string') assert.equal(text, expected)
    else assert.match(text, expected)
  }
  await team.call('set_work', { content: 'x'.repeat(256 * 1024) })
})
