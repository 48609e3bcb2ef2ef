import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { type RouteCandidate, RouteConflictChecker } from './route-conflicts.ts'
import { compileRoutes } from './route-table.ts'
import { isRouteWithin } from './routes.ts'

type TestRoute = Pick<RouteCandidate, 'seq' | 'match'>

/** All routes lead to another folder. */
const outside = (...routes: TestRoute[]): RouteConflictChecker =>
  checkerFor(routes.map((route) => ({ ...route, target: 'other' })))

function checkerFor(routes: readonly (TestRoute & { target: string })[]): RouteConflictChecker {
  return new RouteConflictChecker(
    routes.map((route, at) => ({ id: at + 1, ...route })),
    (target) => !isRouteWithin('team', target),
  )
}

suite('a route takes chats of another route', () => {
  const CASES: Record<string, [existing: string, match: string, isTaken: boolean]> = {
    'the same room': ['room=42', 'room=42', true],
    'another room': ['room=42', 'room=43', false],
    everything: ['room=42', '', true],
    'a glob over the room': ['room=42', 'room=4*', true],
    'a glob that does not match it': ['room=42', 'room=5*', false],
    'one room of a glob': ['room=sales-*', 'room=sales-9', true],
    'one room of a glob on its platform': ['platform=sandbox room=sales-*', 'room=sales-9', true],
    'one room of a glob by its JID': ['room=sales-*', 'chat_jid=sandbox:sales-9', true],
    'one room of a glob on another platform': ['platform=sandbox room=sales-*', 'platform=a room=sales-9', false],
    'a room that a glob does not match': ['room=sales-*', 'room=salesman', false],
    'a glob that overlaps a glob': ['room=sales-*', 'room=*-9', true],
    'a glob that ends as it begins': ['room=sales-*', 'room=*-sales', true],
    'a glob that does not overlap a glob': ['room=sales-*', 'room=office-*', false],
    'one room of a platform': ['platform=telegram', 'chat_jid=telegram:1', true],
    'one room of all chats': ['chat_jid=**', 'chat_jid=telegram:1', true],
    'a JID with any platform': ['room=42', 'chat_jid=*:43', true],
    'only messages of one sender': ['room=42', 'room=42 sender=telegram:1', true],
    'messages of another sender': ['room=42 sender=a:2', 'room=42 sender=a:1', true],
    'a room whose mentions are routed': ['room=42 verb=mention', 'room=42', true],
    'the room by its JID': ['room=42', 'chat_jid=telegram:42', true],
    'another room by its JID': ['room=42', 'chat_jid=telegram:43', false],
    'the room on another platform': ['platform=telegram room=42', 'platform=discord room=42', false],
    'the room on any platform': ['platform=telegram room=42', 'room=42', true],
    'all of the platform': ['chat_jid=telegram:group/42', 'platform=telegram', true],
    'all of another platform': ['chat_jid=telegram:group/42', 'platform=discord', false],
    'a glob for another level': ['room=group/42', 'room=*', false],
    'a glob for its level': ['room=group/42', 'room=group/*', true],
    'the same platform': ['platform=telegram', 'platform=telegram', true],
    'a room of a catch-all route': ['', 'room=42', true],
    'a route that no chat matches': ['room=', 'room=42', false],
    'a route with an invalid JID': ['chat_jid=team', 'room=42', false],
  }
  for (const [name, [existing, match, isTaken]] of Object.entries(CASES))
    test(`${name}: ${isTaken ? 'yes' : 'no'}`, () => {
      assert.equal(outside({ seq: 0, match: existing }).takesOutsideChats({ seq: -1, match }), isTaken)
    })

  test('not if an earlier route takes the whole chat', () => {
    const whole = outside({ seq: 0, match: 'room=42' })
    assert.deepEqual(
      [-1, 0, 1].map((seq) => whole.takesOutsideChats({ seq, match: '' })),
      [true, false, false],
    )
    const mentions = { seq: -1, match: 'room=42 verb=mention' }
    assert.equal(outside(mentions).takesOutsideChats({ seq: 9, match: '' }), true)
    assert.equal(outside(mentions, { seq: 0, match: 'room=42' }).takesOutsideChats({ seq: 9, match: '' }), false)
  })

  test('the lower id comes first among equal seq', () => {
    const whole = outside({ seq: 0, match: 'room=7' }, { seq: 0, match: 'room=42' })
    assert.deepEqual(
      [1, 2, 3, undefined].map((id) => whole.takesOutsideChats({ id, seq: 0, match: 'room=42' })),
      [true, true, false, false],
    )
  })

  test('not from a route that never gets a message of the chat', () => {
    const rest = { seq: 9, match: '', target: 'main' }
    const own = { seq: 0, match: 'room=42', target: 'team' }
    const mentions = { seq: -1, match: 'room=42 verb=mention' }
    assert.equal(checkerFor([own, rest]).takesOutsideChats(mentions), false)
    assert.equal(checkerFor([own, rest]).takesOutsideChats({ seq: -1, match: 'room=43' }), true)
    assert.equal(checkerFor([own, rest]).takesOutsideChats({ seq: -1, match: 'room=4*' }), true)
    assert.equal(checkerFor([rest, { ...own, match: 'room=42 verb=join' }]).takesOutsideChats(mentions), true)
  })

  test('reports a conflict if comparing takes too much work', () => {
    const many = Array.from({ length: 300 }, (_, at) => ({ seq: 0, match: `room=a${at}-${'?'.repeat(100)}*` }))
    const busy = outside(...many)
    const wanted = { seq: -1, match: `room=b-${'?'.repeat(100)}*` }
    const answers = Array.from({ length: 6 }, () => busy.takesOutsideChats(wanted))
    assert.deepEqual([answers[0], answers.at(-1)], [false, true])
  })
})

suite('with any routes', () => {
  const token = fc.oneof(
    fc.tuple(fc.constant('room'), fc.constantFrom('1', '12', '1*', '*2', '?', '*', 'g/1', 'g/*', '**', 'g/**', '')),
    fc.tuple(fc.constant('platform'), fc.constantFrom('a', 'b', '*', '[!a]')),
    fc.tuple(fc.constant('chat_jid'), fc.constantFrom('a:1', 'b:g/1', 'a:*', '*', '*:1', 'a:g/**', '**', '?:g/*')),
    fc.tuple(fc.constant('sender'), fc.constantFrom('a:7', 'a:*', '*')),
    fc.tuple(fc.constant('verb'), fc.constantFrom('message', 'mention', 'm*')),
  )
  const match = fc.array(token, { maxLength: 3 }).map((all) => all.map((pair) => pair.join('=')).join(' '))
  const seq = fc.integer({ min: -1, max: 1 })
  const target = fc.constantFrom(
    'team',
    'team/a',
    'team/{sender}',
    'other',
    'teams',
    'main',
    'builtin:drop',
    '{sender}',
  )
  const table = fc.array(fc.record({ seq, match, target }), { maxLength: 6 })
  const inside = fc.constantFrom('team', 'team/a#observe')
  const chats = ['a', 'b'].flatMap((platform) =>
    ['1', '2', '12', '22', 'g/1', 'g/2', 'g/1/x'].map((r) => `${platform}:${r}`),
  )
  const messages = chats.flatMap((jid) =>
    ['a:7', 'b:8', ''].flatMap((sender) => ['message', 'mention', 'join'].map((verb) => ({ jid, sender, verb }))),
  )
  const leadsIn = (
    routes: ReturnType<typeof compileRoutes>,
    message: (typeof messages)[number],
  ): boolean | undefined => {
    const route = routes.match(message)?.route
    return route && isRouteWithin('team', route.target)
  }
  /** Mirrors hasRouteInto: a route into the folder, and no earlier one that takes the whole chat. */
  const isReadable = (routes: ReturnType<typeof compileRoutes>, jid: string): boolean => {
    for (const { match, target } of routes.routesForChat(jid)) {
      if (isRouteWithin('team', target)) return true
      if (!/(^|\s)(sender|verb)=/.test(match)) return false
    }
    return false
  }
  let [taken, accepted] = [0, 0]

  function mustNotTake(before: ReturnType<typeof compileRoutes>, after: ReturnType<typeof compileRoutes>): void {
    for (const message of messages)
      if (leadsIn(before, message) === false) assert.notEqual(leadsIn(after, message), true, JSON.stringify(message))
    for (const jid of chats) {
      const isOutside = before.routesForChat(jid).some((route) => !isRouteWithin('team', route.target))
      if (isOutside && !isReadable(before, jid)) assert.ok(!isReadable(after, jid), jid)
    }
  }

  test('an accepted new route takes no chat from outside routes', () => {
    fc.assert(
      fc.property(table, seq, match, inside, (rows, at, wanted, to) => {
        const all = rows.map((row, index) => ({ id: index + 1, ...row }))
        if (checkerFor(rows).takesOutsideChats({ seq: at, match: wanted })) return void taken++
        accepted++
        const added = { id: all.length + 1, seq: at, match: wanted, target: to }
        mustNotTake(compileRoutes(all), compileRoutes([...all, added]))
      }),
      { numRuns: 1500 },
    )
    assert.ok(taken > 150 && accepted > 150, `${taken} refused, ${accepted} accepted`)
  })

  test('an accepted change of a route takes no chat from outside routes', () => {
    fc.assert(
      fc.property(table, seq, match, fc.nat(5), (rows, at, wanted, which) => {
        const all = rows.map((row, index) => ({ id: index + 1, ...row }))
        const old = all.filter((row) => isRouteWithin('team', row.target))[which]
        if (!old || checkerFor(rows).takesOutsideChats({ id: old.id, seq: at, match: wanted })) return
        const changed = all.map((row) => (row === old ? { ...row, seq: at, match: wanted } : row))
        mustNotTake(compileRoutes(all), compileRoutes(changed))
      }),
      { numRuns: 1500 },
    )
  })

  test('deleting a route or moving it back takes no chat from outside routes', () => {
    fc.assert(
      fc.property(table, fc.nat(5), fc.nat(3), (rows, which, later) => {
        const all = rows.map((row, index) => ({ id: index + 1, ...row }))
        const old = all.filter((row) => isRouteWithin('team', row.target))[which]
        if (!old) return
        const rest = all.filter((row) => row !== old)
        mustNotTake(compileRoutes(all), compileRoutes(rest))
        mustNotTake(compileRoutes(all), compileRoutes([...rest, { ...old, seq: old.seq + later }]))
      }),
      { numRuns: 500 },
    )
  })
})
