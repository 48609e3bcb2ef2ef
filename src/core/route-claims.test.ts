import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { RouteClaims } from './route-claims.ts'
import { concerns } from './routing.ts'

suite('a route takes a chat that another names', () => {
  const CASES: Record<string, [claim: string, match: string, isTaken: boolean]> = {
    'the same room': ['room=42', 'room=42', true],
    'another room': ['room=42', 'room=43', false],
    everything: ['room=42', '', true],
    'a glob over the room': ['room=42', 'room=4*', true],
    'a glob beside it': ['room=42', 'room=5*', false],
    'only what one person says there': ['room=42', 'room=42 sender=telegram:1', true],
    'only mentions, of a room that is observed': ['room=42 verb=mention', 'room=42', true],
    'the room by its JID': ['room=42', 'chat_jid=telegram:42', true],
    'another room by its JID': ['room=42', 'chat_jid=telegram:43', false],
    'the room on another platform': ['platform=telegram room=42', 'platform=discord room=42', false],
    'the room on any platform': ['platform=telegram room=42', 'room=42', true],
    'all of the platform': ['chat_jid=telegram:group/42', 'platform=telegram', true],
    'all of another platform': ['chat_jid=telegram:group/42', 'platform=discord', false],
    'a level of it': ['room=group/42', 'room=*', false],
    'the right level of it': ['room=group/42', 'room=group/*', true],
    'of a route that names no chat': ['platform=telegram', 'platform=telegram', false],
    'of a route that takes the rest': ['', 'room=42', false],
  }
  for (const [name, [claim, match, isTaken]] of Object.entries(CASES))
    test(`${name}: ${isTaken ? 'yes' : 'no'}`, () => {
      assert.equal(new RouteClaims([{ seq: 0, match: claim }]).takes({ seq: -1, match }), isTaken)
    })

  test('and takes nothing behind one that takes all of the chat', () => {
    const whole = new RouteClaims([{ seq: 0, match: 'room=42' }])
    assert.deepEqual(
      [-1, 0, 1].map((seq) => whole.takes({ seq, match: '' })),
      [true, false, false],
    )
    const mentions = { seq: -1, match: 'room=42 verb=mention' }
    assert.equal(new RouteClaims([mentions]).takes({ seq: 9, match: '' }), true)
    assert.equal(new RouteClaims([mentions, { seq: 0, match: 'room=42' }]).takes({ seq: 9, match: '' }), false)
  })

  test('whenever some chat concerns both', () => {
    const room = fc.constantFrom('1', '2', 'group/1')
    const token = fc.oneof(
      fc.tuple(fc.constant('room'), fc.constantFrom('1', '2', '*', 'group/1', 'group/*')),
      fc.tuple(fc.constant('platform'), fc.constantFrom('a', 'b', '*')),
      fc.tuple(fc.constant('chat_jid'), fc.constantFrom('a:1', 'b:group/1', 'a:*', '*', '*:1')),
    )
    const match = fc
      .uniqueArray(token, { maxLength: 3, selector: ([key]) => key })
      .map((tokens) => tokens.map(([key, glob]) => `${key}=${glob}`).join(' '))
    fc.assert(
      fc.property(match, room, fc.constantFrom('a', 'b'), (asked, claimed, platform) => {
        for (const claim of [
          `room=${claimed}`,
          `chat_jid=${platform}:${claimed}`,
          `platform=${platform} room=${claimed}`,
        ])
          if (concerns(claim, `${platform}:${claimed}`) && concerns(asked, `${platform}:${claimed}`))
            assert.ok(new RouteClaims([{ seq: 0, match: claim }]).takes({ seq: -1, match: asked }))
      }),
    )
  })
})
