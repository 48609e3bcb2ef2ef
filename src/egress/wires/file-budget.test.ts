import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectPeer } from '../../../test/support/raw-socket.ts'
import { until } from '../../../test/support/until.ts'
import type { Wire } from '../wire.ts'
import { FileBudget } from './file-budget.ts'
import { openNetWires } from './net.ts'
import { NOBODY } from './wiring.ts'

test('connections have all of the budget, and pipes three quarters', () => {
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

test('without a number there is always room', () => {
  const budget = new FileBudget()
  budget.take(1_000_000)
  assert.deepEqual([budget.hasRoom, budget.hasRoomForPipe], [true, true])
})

test('on Node’s sockets, what would go beyond the budget fails or is closed, and what was given back is used again', async (t) => {
  const wires = openNetWires(2)
  const accepted: Wire[] = []
  const bound = await wires.listen({ host: '127.0.0.1', port: 0 }, (wire) => accepted.push(wire))
  t.after(() => bound.close())
  const told: string[] = []
  const dial = (name: string): Wire =>
    wires.connect(bound, {
      ...NOBODY,
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
  // Places are given back when the sockets have closed.
  await new Promise((go) => setImmediate(go))
  const third = dial('third')
  await until(() => told.includes('third connected'))
  third.close()
})
