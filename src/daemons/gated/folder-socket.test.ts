// Only the owner of a socket may connect.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { suite, test } from 'node:test'
import { promisify } from 'node:util'
import { type GatedHost, openGatedHost, openRpcConnection } from '../../../test/support/gated-host.ts'
import { testHost } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { groupDirs, layout } from '../../core/layout.ts'
import { createToolList } from '../../faces/tool-list.ts'
import { FolderSocket, type FolderSocketOptions } from './folder-socket.ts'

const NOBODY = 65_534

/** What a process of this user gets from a socket: the first line, `closed`, or why it could not connect. */
async function asUser(uid: number, path: string): Promise<string> {
  const script = `
    process.setgroups([]); process.setgid(${uid}); process.setuid(${uid})
    const socket = require('node:net').connect(process.argv[1])
    let result = ''
    socket.on('error', (error) => { result ||= error.code })
    socket.on('data', (data) => { result += data; socket.destroy() })
    socket.on('close', () => console.log(result || 'closed'))
    socket.write(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }) + '\\n')`
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script, path])
  return stdout.trim()
}

const PONG = '{"result":{},"jsonrpc":"2.0","id":1}'

/** Opens the permissions for all users. */
function openUp(s: GatedHost, folder: string): void {
  const root = s.host.layout?.root ?? ''
  for (const place of [root, join(root, 'ipc'), dirname(s.path(folder))]) chmodSync(place, 0o755)
}

suite('another user', needs('root'), () => {
  test('cannot connect, because of the permissions of the directory and the socket', async (t) => {
    const s = await openGatedHost(t)
    chmodSync(s.host.layout?.root ?? '', 0o755)
    assert.equal(await asUser(NOBODY, s.path('main')), 'EACCES')
    openUp(s, 'main')
    assert.equal(await asUser(NOBODY, s.path('main')), 'EACCES')
    assert.equal(await asUser(0, s.path('main')), PONG)
  })

  test('is recognized by its uid even where the permissions allow it, and gets no response', async (t) => {
    const s = await openGatedHost(t)
    openUp(s, 'main')
    chmodSync(s.path('main'), 0o666)
    assert.match(await asUser(NOBODY, s.path('main')), /^(closed|EPIPE|ECONNRESET)$/)
    await until(() => s.logged().some(({ uid, folder }) => uid === NOBODY && folder === 'main'))
  })
})

suite('a silent connection', () => {
  test('is closed after a while, and one that has sent a line stays open', async (t) => {
    const { host } = await testHost(t)
    const place = layout(tempDir(t))
    const options: FolderSocketOptions = {
      host,
      layout: place,
      list: createToolList([]),
      onError: assert.fail,
      onUnexpectedUser: assert.fail,
      // Long enough to send a line on a busy machine.
      silenceMs: 1500,
    }
    const socket = await FolderSocket.open('main', options)
    t.after(() => socket.close())
    const { socket: path } = groupDirs(place, 'main')
    const talking = await openRpcConnection(t, path)
    talking.send({ jsonrpc: '2.0', id: 1, method: 'ping' })
    assert.equal((await talking.next())?.id, 1)
    const half = await openRpcConnection(t, path)
    half.send('{"jsonrpc"')
    const silent = connect(path).resume()
    await Promise.all([once(silent, 'close'), half.closed])
    talking.send({ jsonrpc: '2.0', id: 2, method: 'ping' })
    assert.equal((await talking.next())?.id, 2)
  })
})
