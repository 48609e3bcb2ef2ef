import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { defaultRoutesFor, isRouteWithin, parseRouteTarget, routeMatchFault } from './routes.ts'

const MATCHES: Record<string, [string, RegExp | undefined]> = {
  'an empty match is valid': ['', undefined],
  'one condition is valid': ['room=42', undefined],
  'several conditions are valid': ['platform=discord room=1/2 verb=mention', undefined],
  'an empty glob is valid': ['sender=', undefined],
  'a token without = is rejected': ['room', /not key=glob/],
  'a token without a key is rejected': ['=42', /not key=glob/],
  'an unknown key is rejected': ['rooms=42', /unknown key "rooms"/],
  'an Object.prototype member is an unknown key': ['constructor=1', /unknown key/],
  'a malformed glob is rejected': ['room=[', /malformed/],
  'a match that is too long is rejected': [`room=${'x'.repeat(1025)}`, /longer/],
}
for (const [sentence, [match, fault]] of Object.entries(MATCHES)) {
  test(`route matches: ${sentence}`, () => {
    if (fault) assert.match(routeMatchFault(match) ?? '', fault)
    else assert.equal(routeMatchFault(match), undefined)
  })
}

const TARGETS: Record<string, [string, object | undefined]> = {
  'a bare path is a folder': ['team/a', { kind: 'folder', name: 'team/a' }],
  'folder: is optional': ['folder:team', { kind: 'folder', name: 'team' }],
  'the part after # is the fragment': ['team#observe', { kind: 'folder', name: 'team', fragment: 'observe' }],
  '{sender} may be a segment': ['team/{sender}', { kind: 'folder', name: 'team/{sender}' }],
  'a daemon has a name': ['daemon:mail', { kind: 'daemon', name: 'mail' }],
  'built-in handlers are drop and echo': ['builtin:drop', { kind: 'builtin', name: 'drop' }],
  'no other built-in handler exists': ['builtin:../x', undefined],
  'a path with .. is rejected': ['team/../main', undefined],
  'an empty fragment is rejected': ['team#', undefined],
  'two fragments are rejected': ['team#a#b', undefined],
  'an empty target is rejected': ['', undefined],
  'a daemon without a name is rejected': ['daemon:', undefined],
}
for (const [sentence, [target, parts]] of Object.entries(TARGETS)) {
  test(`route targets: ${sentence}`, () => assert.deepEqual(parseRouteTarget(target), parts))
}

test('a folder contains routes to itself and its subfolders with any fragment, but no daemons', () => {
  assert.ok(isRouteWithin('team', 'team'))
  assert.ok(isRouteWithin('team', 'team#observe'))
  assert.ok(isRouteWithin('team', 'folder:team/a/{sender}'))
  assert.ok(!isRouteWithin('team', 'team2'))
  assert.ok(!isRouteWithin('team', 'daemon:team'))
})

test('routes a chat by its room; a guild channel starts turns on mentions and is otherwise observed', () => {
  assert.deepEqual(defaultRoutesFor('telegram:42', 'team'), [{ seq: 0, match: 'room=42', target: 'team' }])
  assert.deepEqual(defaultRoutesFor('discord:dm/7', 'team'), [{ seq: 0, match: 'room=dm/7', target: 'team' }])
  assert.deepEqual(defaultRoutesFor('discord:1/2', 'team'), [
    { seq: -1, match: 'room=1/2 verb=mention', target: 'team' },
    { seq: 0, match: 'room=1/2', target: 'team#observe' },
  ])
})

test('parses any match and target without throwing', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('a', '=', ' ', '[', ']', '*', '#', ':', '/', '{', '}', '\\', '\n') }),
      (text) => {
        routeMatchFault(text)
        parseRouteTarget(text)
      },
    ),
  )
})
