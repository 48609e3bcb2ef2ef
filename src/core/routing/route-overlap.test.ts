import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { findRouteOverlaps, type OrderedRoute } from './route-overlap.ts'
import { compileRoutes } from './route-table.ts'

function overlaps(...routes: (readonly [seq: number, match: string, target: string])[]): Record<string, unknown> {
  const rows = routes.map(([seq, match, target], at) => ({ id: at + 1, seq, match, target }))
  const { unmatchable, shadowed, contested } = findRouteOverlaps(rows)
  const ids = (pairs: typeof shadowed) => pairs.map(({ route, before }) => [before.id, route.id])
  return { unmatchable: unmatchable.map(({ id }) => id), shadowed: ids(shadowed), contested: ids(contested) }
}
const found = (more: object) => ({ unmatchable: [], shadowed: [], contested: [], ...more })

test('reports a route as shadowed if an earlier one takes all its messages', () => {
  assert.deepEqual(overlaps([0, 'room=1', 'a'], [1, 'room=1', 'b']), found({ shadowed: [[1, 2]] }))
  assert.deepEqual(overlaps([1, 'room=1', 'a'], [0, '', 'b']), found({ shadowed: [[2, 1]] }))
  assert.deepEqual(overlaps([0, 'platform=x', 'a'], [5, 'chat_jid=x:1', 'b']), found({ shadowed: [[1, 2]] }))
  assert.deepEqual(
    overlaps([0, 'room=1 verb=mention', 'a'], [1, 'room=1 verb=mention sender=x:1', 'b']),
    found({ shadowed: [[1, 2]] }),
  )
})

test('a route for some messages does not shadow a route for others', () => {
  assert.deepEqual(overlaps([-1, 'room=1 verb=mention', 'a'], [0, 'room=1', 'a#observe']), found({}))
  assert.deepEqual(overlaps([0, 'room=1', 'a'], [1, 'room=2', 'b'], [2, '', 'c']), found({}))
  // No glob matches an empty value.
  assert.deepEqual(overlaps([0, 'verb=*', 'a'], [1, 'verb=', 'a']), found({}))
  assert.deepEqual(overlaps([0, 'verb=', 'a'], [1, 'verb=', 'a']), found({ shadowed: [[1, 2]] }))
})

test('two routes with the same seq for the same chat are contested, unless they have the same folder', () => {
  assert.deepEqual(overlaps([0, 'platform=x', 'a'], [0, 'room=1', 'b']), found({ contested: [[1, 2]] }))
  assert.deepEqual(overlaps([0, 'platform=x', 'a'], [1, 'room=1', 'b']), found({}))
  assert.deepEqual(overlaps([0, 'platform=x', 'a#observe'], [0, 'room=1', 'a']), found({}))
  assert.deepEqual(overlaps([0, 'platform=x room=1', 'a'], [0, 'platform=y room=1', 'b']), found({}))
})

test('reports a match that no chat can have', () => {
  assert.deepEqual(overlaps([0, 'room=', 'a'], [0, 'chat_jid=team', 'a']), found({ unmatchable: [1, 2] }))
})

test('a route reported as shadowed or unmatchable never matches a message', () => {
  const glob = fc.constantFrom('1', '2', '*', '1*', 'x', 'y', '')
  const token = fc.tuple(fc.constantFrom('platform', 'room', 'sender', 'verb'), glob).map((pair) => pair.join('='))
  const jid = fc.constantFrom('chat_jid=x:1', 'chat_jid=x:*', 'chat_jid=*:1')
  const match = fc.array(fc.oneof(token, jid), { maxLength: 3 }).map((tokens) => tokens.join(' '))
  const route = fc.record({ seq: fc.integer({ min: 0, max: 2 }), match, target: fc.constantFrom('a', 'b') })
  const message = fc.record({
    jid: fc.constantFrom('x:1', 'x:2', 'y:1', 'y:11'),
    sender: fc.constantFrom('1', 'x', ''),
    verb: fc.constantFrom('1', '2', ''),
  })
  fc.assert(
    fc.property(fc.array(route, { maxLength: 8 }), fc.array(message, { minLength: 1 }), (routes, messages) => {
      const rows: OrderedRoute[] = routes.map((row, at) => ({ id: at + 1, ...row }))
      const { unmatchable, shadowed } = findRouteOverlaps(rows)
      const silent = new Set([...unmatchable, ...shadowed.map((pair) => pair.route)].map(({ id }) => id))
      const table = compileRoutes(rows)
      for (const message of messages) assert.ok(!silent.has(table.match(message)?.route.id ?? 0))
    }),
  )
})
