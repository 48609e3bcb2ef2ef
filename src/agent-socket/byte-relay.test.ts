import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../test/support/host.ts'
import { runs } from '../../test/support/part.ts'
import { processesWith } from '../../test/support/processes.ts'
import { tempDir } from '../../test/support/temp.ts'
import { until } from '../../test/support/until.ts'
import { ByteRelay } from './byte-relay.ts'

async function openRelay(t: TestContext, onConnection: (socket: Socket) => void) {
  const directory = tempDir(t)
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined)
    onConnection(socket)
  })
  t.after(() => server.close())
  server.listen(join(directory, 'own'))
  await once(server, 'listening')
  const relay = await ByteRelay.open(directory, 'shown', 'own')
  t.after(() => relay.close())
  const open = async (): Promise<Socket> => {
    const socket = connect({ path: join(directory, 'shown'), allowHalfOpen: true })
    socket.on('error', () => undefined)
    t.after(() => socket.destroy())
    await once(socket, 'connect')
    return socket
  }
  return { directory, relay, open }
}

suite('a relay', () => {
  test('carries bytes unchanged in both directions, and the end of each', async (t) => {
    const { open } = await openRelay(t, (socket) => void socket.pipe(socket))
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ minLength: 1 }), { maxLength: 20 }), async (chunks) => {
        const socket = await open()
        for (const chunk of chunks) socket.write(chunk)
        socket.end()
        assert.deepEqual(await buffer(socket), Buffer.concat(chunks))
      }),
      { numRuns: runs(10, 50) },
    )
  })

  test('waits for a slow reader and loses nothing', async (t) => {
    const size = 8 * 1024 * 1024
    const { open } = await openRelay(t, (socket) => void socket.resume().end(Buffer.alloc(size, 'o')))
    const socket = await open()
    // Both directions are full before either is read.
    socket.end(Buffer.alloc(size, 'i'))
    await once(socket, 'finish')
    const read = await buffer(socket)
    assert.equal(read.length, size)
    assert.ok(read.equals(Buffer.alloc(size, 'o')))
  })

  test('ends a connection whose other side has closed it', async (t) => {
    const { open, directory } = await openRelay(t, (socket) => socket.destroy())
    for (let at = 0; at < 40; at++) {
      const socket = await open()
      assert.equal((await buffer(socket)).length, 0)
      socket.destroy()
    }
    // Only the one that accepts connections is left.
    await until(() => processesWith(directory).length === 1)
  })

  test('ends with all of its processes', async (t) => {
    const { relay, directory, open } = await openRelay(t, (socket) => socket.resume())
    const sockets = [await open(), await open()]
    await until(() => processesWith(directory).length === 5)
    relay.close()
    await Promise.all(sockets.map((socket) => buffer(socket.resume()).catch(() => undefined)))
    await until(() => processesWith(directory).length === 0)
  })

  test('is refused if its socket cannot be made', async (t) => {
    const directory = join(tempDir(t), 'missing')
    await assert.rejects(
      ByteRelay.open(directory, 'shown', 'own'),
      isRefusal('unavailable', /could not be started: .*No such file/),
    )
    assert.ok(!existsSync(directory))
  })
})
