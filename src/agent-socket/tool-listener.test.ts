import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { testHost } from '../../test/support/host.ts'
import { tempDir } from '../../test/support/temp.ts'
import { createToolList } from '../faces/tool-list.ts'
import type { BoundTurn } from './connection.ts'
import { ToolListener, type ToolListenerOptions } from './tool-listener.ts'

// It names a turn, so that it is compared with that of the socket.
const PING = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping', params: { turn_id: 't2' } })}\n`

const odd = (): never => {
  throw new TypeError('odd turn')
}

async function open(t: TestContext, bound: BoundTurn, more: Partial<ToolListenerOptions> = {}) {
  const { host } = await testHost(t)
  const errors: string[] = []
  const context = {
    host,
    list: createToolList([]),
    onError: (error: unknown, folder: string, what: string) => void errors.push(`${folder} ${what} ${error}`),
  }
  const options = { folder: 'team', onUnexpectedUser: () => assert.fail(), bound }
  const listener = new ToolListener(context, Object.defineProperties(options, Object.getOwnPropertyDescriptors(more)))
  t.after(() => listener.close())
  const path = join(tempDir(t), 's')
  await listener.listen(path)
  /** Sends a line; the answer, or undefined if the connection was closed. */
  const ask = async (): Promise<unknown> => {
    const { promise, resolve } = Promise.withResolvers<unknown>()
    const socket = connect(path)
    t.after(() => socket.destroy())
    socket.on('data', (line) => resolve(JSON.parse(String(line))))
    socket.on('error', () => socket.destroy())
    socket.on('close', () => resolve(undefined))
    socket.write(PING)
    return promise
  }
  return { ask, errors }
}

suite('an exception at a tool socket', () => {
  test('closes the connection and reaches its turn, and other turns go on', async (t) => {
    const faults: unknown[] = []
    const onFault = (error: unknown): void => void faults.push(error)
    const broken = await open(
      t,
      Object.defineProperty({ id: '', fence: 1, reach: 'chat', onFault }, 'id', { get: odd }),
    )
    const other = await open(t, { id: 't2', fence: 1, reach: 'chat', onFault })
    assert.equal(await broken.ask(), undefined)
    assert.deepEqual(faults.map(String), ['TypeError: odd turn'])
    assert.deepEqual(broken.errors, [])
    assert.deepEqual(await other.ask(), { jsonrpc: '2.0', id: 1, result: {} })
  })

  test('while a connection is opened closes it and is reported', async (t) => {
    const bound: BoundTurn = { id: 't1', fence: 1, reach: 'chat' }
    const more = Object.defineProperty({}, 'firstLineTimeoutMs', { get: odd, enumerable: true })
    const { ask, errors } = await open(t, bound, more)
    assert.equal(await ask(), undefined)
    assert.equal(await ask(), undefined)
    assert.deepEqual(errors, Array(2).fill('team connection TypeError: odd turn'))
  })
})
