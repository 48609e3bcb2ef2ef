import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type OrderedRoute, routeOverlaps } from './route-overlap.ts'
import { compileRoutes } from './route-table.ts'

function overlaps(...routes: (readonly [seq: number, match: string, target: string])[]): Record<string, unknown> {
  const rows = routes.map(([seq, match, target], at) => ({ id: at + 1, seq, match, target }))
  const { unmatchable, shadowed, contested } = routeOverlaps(rows)
  const ids = (pairs: typeof shadowed) => pairs.map(({ route, before }) => [before.id, route.id])
  return { unmatchable: unmatchable.map(({ id }) => id), shadowed: ids(shadowed), contested: ids(contested) }
}
const found = (more: object) => ({ unmatchable: [], shadowed: [], contested: [], ...more })

test('a route behind one that takes all of its messages never matches', () => {
  assert.deepEqual(overlaps([0, 'room=1', 'a'], [1, 'room=1', 'b']), found({ shadowed: [[1, 2]] }))
  assert.deepEqual(overlaps([1, 'room=1', 'a'], [0, '', 'b']), found({ shadowed: [[2, 1]] }))
  assert.deepEqual(overlaps([0, 'platform=x', 'a'], [5, 'chat_jid=x:1', 'b']), found({ shadowed: [[1, 2]] }))
  assert.deepEqual(
    overlaps([0, 'room=1 verb=mention', 'a'], [1, 'room=1 verb=mention sender=x:1', 'b']),
    found({ shadowed: [[1, 2]] }),
  )
})

test('a route for a part of the messages shadows nothing else', () => {
  assert.deepEqual(overlaps([-1, 'room=1 verb=mention', 'a'], [0, 'room=1', 'a#observe']), found({}))
  assert.deepEqual(overlaps([0, 'room=1', 'a'], [1, 'room=2', 'b'], [2, '', 'c']), found({}))
})

test('two routes of the same seq that may match the same chat are contested, unless they lead to one folder', () => {
  assert.deepEqual(overlaps([0, 'platform=x', 'a'], [0, 'room=1', 'b']), found({ contested: [[1, 2]] }))
  assert.deepEqual(overlaps([0, 'platform=x', 'a'], [1, 'room=1', 'b']), found({}))
  assert.deepEqual(overlaps([0, 'platform=x', 'a#observe'], [0, 'room=1', 'a']), found({}))
  assert.deepEqual(overlaps([0, 'platform=x room=1', 'a'], [0, 'platform=y room=1', 'b']), found({}))
})

test('a match that no chat has is named', () => {
  assert.deepEqual(overlaps([0, 'room=', 'a'], [0, 'chat_jid=team', 'a']), found({ unmatchable: [1, 2] }))
})

test('no message is ever routed by a route that is called shadowed or unmatchable', () => {
  const glob = fc.constantFrom('1', '2', '*', '1*', 'x', 'y', '')
  const token = fc.tuple(fc.constantFrom('platform', 'room', 'sender', 'verb'), glob).map((pair) => pair.join('='))
  const jid = fc.constantFrom('chat_jid=x:1', 'chat_jid=x:*', 'chat_jid=*:1')
  const match = fc.array(fc.oneof(token, jid), { maxLength: 3 }).map((tokens) => tokens.join(' '))
  const route = fc.record({ seq: fc.integer({ min: 0, max: 2 }), match, target: fc.constantFrom('a', 'b') })
  const said = fc.record({
    jid: fc.constantFrom('x:1', 'x:2', 'y:1', 'y:11'),
    sender: fc.constantFrom('1', 'x', ''),
    verb: fc.constantFrom('1', '2', ''),
  })
  fc.assert(
    fc.property(fc.array(route, { maxLength: 8 }), fc.array(said, { minLength: 1 }), (routes, messages) => {
      const rows: OrderedRoute[] = routes.map((row, at) => ({ id: at + 1, ...row }))
      const { unmatchable, shadowed } = routeOverlaps(rows)
      const silent = new Set([...unmatchable, ...shadowed.map((pair) => pair.route)].map(({ id }) => id))
      const table = compileRoutes(rows)
      for (const message of messages) assert.ok(!silent.has(table.match(message)?.route.id ?? 0))
    }),
  )
})
