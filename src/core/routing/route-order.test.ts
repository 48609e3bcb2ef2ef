import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { moveRoute } from './route-order.ts'
import type { Route } from './routes.ts'

const route = (id: number, seq: number, match = `room=${id}`): Route => ({ id, seq, match, target: 'team' })

/** The ids in the order after the move. */
function orderAfter(own: readonly Route[], id: number, to: 'up' | 'down'): number[] {
  const changed = moveRoute(own, id, to) ?? []
  const all = own.map((each) => changed.find((other) => other.id === each.id) ?? each)
  return all.toSorted((a, b) => a.seq - b.seq || a.id - b.id).map((each) => each.id)
}

suite('moving a route', () => {
  test('swaps it with its neighbour, whatever the numbers', () => {
    for (const seqs of [
      [0, 0, 0],
      [0, 1, 2],
      [0, 0, 1],
      [-1, 0, 0],
    ] as const) {
      const own = [route(1, seqs[0]), route(2, seqs[1]), route(3, seqs[2])]
      assert.deepEqual(orderAfter(own, 3, 'up'), [1, 3, 2], `${seqs}`)
      assert.deepEqual(orderAfter(own, 2, 'up'), [2, 1, 3], `${seqs}`)
      assert.deepEqual(orderAfter(own, 1, 'down'), [2, 1, 3], `${seqs}`)
    }
  })

  test('does nothing at the end of the list', () => {
    const own = [route(1, 0), route(2, 0)]
    assert.equal(moveRoute(own, 1, 'up'), undefined)
    assert.equal(moveRoute(own, 2, 'down'), undefined)
  })

  test('refuses routes that are the same', () => {
    const own = [route(1, 0, 'room=x'), route(2, 1, 'room=x')]
    assert.throws(() => moveRoute(own, 2, 'up'), isRefusal('conflict', 'the routes 1 and 2 are the same'))
  })
})
