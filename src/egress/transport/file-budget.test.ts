import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectPeer } from '../../../test/support/raw-socket.ts'
import { until } from '../../../test/support/until.ts'
import { FileBudget } from './file-budget.ts'
import { openNodeTransport } from './node-transport.ts'
import { NO_OWNER } from './socket-defaults.ts'
import type { TcpConnection } from './transport.ts'

test('connections may use the whole budget and pipes three quarters', () => {
  const budget = new FileBudget(8)
  budget.take(4)
  assert.deepEqual([budget.hasRoom, budget.hasRoomForPipe], [true, true])
  budget.take(1)
  assert.deepEqual([budget.hasRoom, budget.hasRoomForPipe], [true, false])
  budget.take(2)
  assert.equal(budget.hasRoom, true)
  budget.take(1)
  assert.equal(budget.hasRoom, false)
  budget.give(1)
  assert.equal(budget.hasRoom, true)
})

test('a budget without a limit always has room', () => {
  const budget = new FileBudget()
  budget.take(1_000_000)
  assert.deepEqual([budget.hasRoom, budget.hasRoomForPipe], [true, true])
})

test('on Node’s sockets, connections above the budget fail or are closed, and released descriptors are reused', async (t) => {
  const transport = openNodeTransport(2)
  const accepted: TcpConnection[] = []
  const bound = await transport.listen({ host: '127.0.0.1', port: 0 }, (connection) => accepted.push(connection))
  t.after(() => bound.close())
  const told: string[] = []
  const dial = (name: string): TcpConnection =>
    transport.connect(bound, {
      ...NO_OWNER,
      connected: () => void told.push(`${name} connected`),
      closed: (error) => void told.push(`${name} closed ${error}`),
    })
  const first = dial('first')
  await until(() => accepted.length === 1 && told.length === 1)
  dial('second')
  await until(() => told.includes('second closed EMFILE'))
  const stranger = await connectPeer(t, bound.port)
  await stranger.over()
  assert.equal(accepted.length, 1)
  accepted[0]?.close()
  await until(() => told.includes('first closed undefined') || first.hasEnded)
  first.close()
  // Descriptors are released when the sockets have closed.
  await new Promise((go) => setImmediate(go))
  const third = dial('third')
  await until(() => told.includes('third connected'))
  third.close()
})
