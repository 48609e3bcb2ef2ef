import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, utimesSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { LiveDirectory, listenIn, liveDirectories, removeDeadDirectories } from './live-directory.ts'

suite('a directory of a process', () => {
  test('is live until it is closed, and then removed', async (t) => {
    const parent = join(tempDir(t), 'cells')
    assert.deepEqual(await liveDirectories(parent), new Set())
    const [one, two] = [await LiveDirectory.open(parent), await LiveDirectory.open(parent)]
    assert.deepEqual(await liveDirectories(parent), new Set([one.id, two.id]))
    one.close()
    assert.ok(!existsSync(one.path))
    assert.deepEqual(await liveDirectories(parent), new Set([two.id]))
    two.close()
  })

  test('is removed if its process is dead, and others stay', async (t) => {
    const parent = tempDir(t)
    const live = await LiveDirectory.open(parent)
    t.after(() => live.close())
    for (const name of ['0123456789ab', '.new-0123456789ab', '.new-fedcba987654', 'other'])
      mkdirSync(join(parent, name, 'below'), { recursive: true })
    const anHourAgo = Date.now() / 1000 - 3600
    utimesSync(join(parent, '.new-fedcba987654'), anHourAgo, anHourAgo)
    removeDeadDirectories(parent, await liveDirectories(parent))
    assert.deepEqual(readdirSync(parent).sort(), ['.new-0123456789ab', live.id, 'other'].sort())
  })

  test('has sockets although its path is longer than a socket path may be', async (t) => {
    const parent = join(tempDir(t), 'x'.repeat(120))
    const live = await LiveDirectory.open(parent)
    t.after(() => live.close())
    assert.deepEqual(await liveDirectories(parent), new Set([live.id]))
    const { promise, resolve } = Promise.withResolvers<void>()
    const server = await listenIn(live.path, 'socket', (socket) => {
      socket.destroy()
      resolve()
    })
    t.after(() => void server.close())
    const { chdir, cwd } = process
    const before = cwd()
    chdir(live.path)
    const client = connect('socket').on('error', () => undefined)
    chdir(before)
    await promise
    client.destroy()
  })
})
