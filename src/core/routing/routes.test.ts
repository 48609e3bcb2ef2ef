import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { defaultRoutesFor, isWithin, matchFault, parseRouteTarget } from './routes.ts'

const MATCHES: Record<string, [string, RegExp | undefined]> = {
  'an empty match is for everything': ['', undefined],
  'one key is enough': ['room=42', undefined],
  'several keys may stand together': ['platform=discord room=1/2 verb=mention', undefined],
  'a key may ask for nothing': ['sender=', undefined],
  'a token without = is no catch-all': ['room', /not key=glob/],
  'a token that starts with = has no key': ['=42', /not key=glob/],
  'an unknown key is refused': ['rooms=42', /unknown key "rooms"/],
  'a key of every object is unknown too': ['constructor=1', /unknown key/],
  'a malformed glob is refused': ['room=[', /malformed/],
  'a match has a length': [`room=${'x'.repeat(1025)}`, /longer/],
}
for (const [sentence, [match, fault]] of Object.entries(MATCHES)) {
  test(`route matches: ${sentence}`, () => {
    if (fault) assert.match(matchFault(match) ?? '', fault)
    else assert.equal(matchFault(match), undefined)
  })
}

const TARGETS: Record<string, [string, object | undefined]> = {
  'a bare path is a folder': ['team/a', { kind: 'folder', name: 'team/a' }],
  'a folder may be said': ['folder:team', { kind: 'folder', name: 'team' }],
  'what follows # is kept': ['team#observe', { kind: 'folder', name: 'team', fragment: 'observe' }],
  'a sender may stand in a path': ['team/{sender}', { kind: 'folder', name: 'team/{sender}' }],
  'a daemon has a name': ['daemon:mail', { kind: 'daemon', name: 'mail' }],
  'built-in handlers are drop and echo': ['builtin:drop', { kind: 'builtin', name: 'drop' }],
  'no other built-in handler exists': ['builtin:../x', undefined],
  'a path that climbs is no target': ['team/../main', undefined],
  'an empty fragment is no topic': ['team#', undefined],
  'two fragments are none': ['team#a#b', undefined],
  'an empty target is none': ['', undefined],
  'a daemon without a name is none': ['daemon:', undefined],
}
for (const [sentence, [target, parts]] of Object.entries(TARGETS)) {
  test(`route targets: ${sentence}`, () => assert.deepEqual(parseRouteTarget(target), parts))
}

test('a folder holds the routes to itself and below, whatever their fragment, and no daemon', () => {
  assert.ok(isWithin('team', 'team'))
  assert.ok(isWithin('team', 'team#observe'))
  assert.ok(isWithin('team', 'folder:team/a/{sender}'))
  assert.ok(!isWithin('team', 'team2'))
  assert.ok(!isWithin('team', 'daemon:team'))
})

test('an ordinary chat is routed by its room, a guild channel by mentions and is else observed', () => {
  assert.deepEqual(defaultRoutesFor('telegram:42', 'team'), [{ seq: 0, match: 'room=42', target: 'team' }])
  assert.deepEqual(defaultRoutesFor('discord:dm/7', 'team'), [{ seq: 0, match: 'room=dm/7', target: 'team' }])
  assert.deepEqual(defaultRoutesFor('discord:1/2', 'team'), [
    { seq: -1, match: 'room=1/2 verb=mention', target: 'team' },
    { seq: 0, match: 'room=1/2', target: 'team#observe' },
  ])
})

test('matches and targets are read without a throw, whatever they are', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('a', '=', ' ', '[', ']', '*', '#', ':', '/', '{', '}', '\\', '\n') }),
      (text) => {
        matchFault(text)
        parseRouteTarget(text)
      },
    ),
  )
})
