import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { Directory } from '../../lib/files/directory.ts'
import { openMountPlan } from './mount-plan.ts'

const opener = (path: string) => async () => (await Directory.open(path)) ?? assert.fail(`there is no ${path}`)

const viewOf = (writable?: readonly string[]) => ({ isVisitor: writable === undefined, writable: new Set(writable) })

async function plan(home: string, chat?: string, writable?: readonly string[], files?: string) {
  const resources = {
    ...(files && { files: { visiblePath: '/home/files', open: opener(files) } }),
    ...{ folder: 'team', home, socket: '', openHome: opener(home) },
    ...(chat && { chat: { path: chat, open: opener(chat), children: new Set(['child']), ...viewOf(writable) } }),
  }
  const opened = await openMountPlan(resources)
  await opened.close()
  return opened
}

suite('the mounts of a run', () => {
  test('are its workspace, with the identity of the open directory', async (t) => {
    const home = tempDir(t)
    const { dev, ino } = statSync(home)
    const { mounts, kind } = await plan(home)
    assert.deepEqual([kind, mounts.length], ['own', 1])
    const { source, target, isReadOnly, identity } = mounts[0] ?? assert.fail()
    assert.deepEqual([source, target, isReadOnly, identity], [home, '/home/node', false, `${dev}:${ino}`])
  })

  test('have the same key only while they are the same', async (t) => {
    const home = join(tempDir(t), 'home')
    mkdirSync(home)
    const { key } = await plan(home)
    assert.equal((await plan(home)).key, key)
    renameSync(home, `${home}-before`)
    mkdirSync(home)
    assert.notEqual((await plan(home)).key, key)
  })

  test("of visitors have another key when a file changes, and not those of another chat's", async (t) => {
    const [home, chat] = [tempDir(t), tempDir(t)]
    mkdirSync(join(home, 'facts'))
    mkdirSync(join(home, 'child'))
    writeFileSync(join(home, 'PERSONA.md'), 'one')
    chmodSync(join(home, 'PERSONA.md'), 0o644)
    const { key, mounts, entries } = await plan(home, chat)
    assert.deepEqual(
      mounts.map(({ target, isReadOnly }) => [target, isReadOnly]),
      [
        ['/home/chat', false],
        ['/home/node/facts', true],
      ],
    )
    assert.deepEqual(
      entries.map(({ path, kind }) => [path, kind]),
      [
        ['PERSONA.md', 'copy'],
        ['facts', 'mount'],
      ],
    )
    assert.equal((await plan(home, chat)).key, key)
    assert.notEqual((await plan(home, tempDir(t))).key, key)
    assert.notEqual((await plan(home)).key, key)
    writeFileSync(join(home, 'PERSONA.md'), 'other')
    assert.notEqual((await plan(home, chat)).key, key)
  })

  test('of reach work have writable directories and a key of their own', async (t) => {
    const [home, chat] = [tempDir(t), tempDir(t)]
    for (const name of ['data', 'facts']) mkdirSync(join(home, name))
    const work = await plan(home, chat, ['data'])
    const isReadOnly = Object.fromEntries(work.mounts.map((mount) => [mount.target, mount.isReadOnly]))
    assert.deepEqual(isReadOnly, { '/home/chat': false, '/home/node/data': false, '/home/node/facts': true })
    assert.notEqual((await plan(home, chat, [])).key, work.key)
    assert.notEqual((await plan(home, chat)).key, work.key)
  })

  test('have the files of the chat read-only, and another key for those of another chat', async (t) => {
    const [home, chat, files] = [tempDir(t), tempDir(t), tempDir(t)]
    const { dev, ino } = statSync(files)
    for (const own of [undefined, chat]) {
      const { mounts, key } = await plan(home, own, undefined, files)
      const [mount = assert.fail()] = mounts.filter(({ target }) => target === '/home/files')
      assert.deepEqual([mount.source, mount.isReadOnly, mount.identity], [files, true, `${dev}:${ino}`])
      assert.equal((await plan(home, own, undefined, files)).key, key)
      assert.notEqual((await plan(home, own)).key, key)
      assert.notEqual((await plan(home, own, undefined, tempDir(t))).key, key)
    }
  })

  test('are refused if the workspace was removed meanwhile', async (t) => {
    const home = join(tempDir(t), 'home')
    mkdirSync(home)
    const openHome = async () => {
      const directory = await opener(home)()
      rmSync(home, { recursive: true })
      return directory
    }
    await assert.rejects(
      openMountPlan({ folder: 'team', home, socket: '', openHome }),
      isRefusal('conflict', 'the workspace of team was removed'),
    )
  })
})
