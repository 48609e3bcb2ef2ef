import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { describeRoutes } from './route-descriptions.ts'
import { compileRoutes } from './route-table.ts'

const route = (id: number, match: string, target = 'team', seq = 0) => ({ id, seq, match, target })

test('describes which messages a route takes and what happens to them', () => {
  const all = [
    route(1, 'room=1 verb=mention', 'folder:team', -1),
    route(2, 'room=1', 'team#observe'),
    route(3, 'platform=mail sender=*@x', 'team#mail'),
    route(4, 'platform=spam', 'builtin:drop'),
    route(5, 'platform=mail', 'daemon:maild'),
    route(6, '', 'main', 9),
  ]
  assert.deepEqual(
    describeRoutes(all, all).map(({ mode, fires_turn, triggers_on, explain }) => [
      mode,
      fires_turn,
      triggers_on,
      explain,
    ]),
    [
      ['trigger', true, 'mention of room=1', 'Mention of room=1 starts a turn of team.'],
      [
        'observe',
        false,
        'every message of room=1',
        'Every message of room=1 is shown to team as context, without starting a turn.',
      ],
      [
        'trigger',
        true,
        'every message of platform=mail and sender=*@x',
        'Every message of platform=mail and sender=*@x starts a turn of team in the topic mail.',
      ],
      ['builtin', false, 'every message of platform=spam', 'Every message of platform=spam is dropped.'],
      ['daemon', false, 'every message of platform=mail', 'Every message of platform=mail goes to the daemon maild.'],
      ['trigger', true, 'every message of any chat', 'Every message of any chat starts a turn of main.'],
    ],
  )
})

test('marks a route as shadowed if an earlier one takes all its messages', () => {
  const shadows = (...matches: string[]) => {
    const all = matches.map((match, at) => route(at + 1, match))
    return describeRoutes(all, all).map(({ shadowed_by }) => shadowed_by)
  }
  assert.deepEqual(shadows('', 'room=1'), [undefined, 1])
  assert.deepEqual(shadows('room=1', 'room=1 verb=mention', 'room=2'), [undefined, 1, undefined])
  assert.deepEqual(shadows('room=1 verb=mention', 'room=1'), [undefined, undefined])
  assert.deepEqual(shadows('room=a/**', 'room=a/b', 'room=ab'), [undefined, 1, undefined])
  assert.deepEqual(shadows('room=*', 'room=a', 'room=a/b', 'room=', 'sender=a'), [
    undefined,
    1,
    undefined,
    undefined,
    undefined,
  ])
  // `seq` takes precedence over the id.
  const all = [route(1, 'room=1', 'team', 5), route(2, '', 'team', 4), route(3, 'room=1', 'team', 3)]
  assert.deepEqual(
    describeRoutes(all, all).map(({ shadowed_by }) => shadowed_by),
    [3, undefined, undefined],
  )
})

test('a route marked as shadowed never takes a message', () => {
  const glob = fc.constantFrom('a', 'b', 'a/b', '*', 'a/*', '**', '', 'a*', 'a/**')
  const key = fc.constantFrom('room', 'verb', 'sender', 'platform')
  const match = fc
    .array(fc.tuple(key, glob), { maxLength: 3 })
    .map((pairs) => pairs.map((pair) => pair.join('=')).join(' '))
  const value = fc.constantFrom('a', 'b', 'a/b', 'ab', 'a/b/c', 'c')
  const table = fc.array(fc.tuple(match, fc.integer({ min: 0, max: 2 })), { maxLength: 8 })
  fc.assert(
    fc.property(table, value, value, value, (rows, room, sender, verb) => {
      const all = rows.map(([match, seq], at) => route(at + 1, match, 'team', seq))
      const taken = compileRoutes(all).match({ jid: `a:${room}`, sender, verb })
      const noted = describeRoutes(all, all).find(({ id }) => id === taken?.route.id)
      assert.equal(noted?.shadowed_by, undefined)
    }),
  )
})
