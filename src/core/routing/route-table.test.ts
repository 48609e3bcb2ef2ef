import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { folderFault } from '../values.ts'
import { compileRoutes, matchesChat, type RoutableMessage, senderSegment } from './route-table.ts'

type RouteTuple = [match: string, target: string, seq?: number]

function tableOf(...tuples: RouteTuple[]) {
  return compileRoutes(tuples.map(([match, target, seq = 0], at) => ({ id: at + 1, seq, match, target })))
}

const message: RoutableMessage = { jid: 'telegram:42', sender: 'telegram:7', verb: 'message' }

const MATCHES: Record<string, [RouteTuple[], Partial<RoutableMessage>, string | undefined]> = {
  'nothing matches without routes': [[], {}, undefined],
  'an empty match matches everything': [[['', 'team']], {}, 'team'],
  'a room is the part after the colon': [[['room=1/2', 'team']], { jid: 'discord:1/2' }, 'team'],
  'an account is a platform of its own': [[['platform=telegram', 'team']], { jid: 'telegram-work:42' }, undefined],
  'a platform with its account is the part before it': [
    [['platform=telegram-work room=user/42', 'team']],
    { jid: 'telegram-work:user/42' },
    'team',
  ],
  'a platform is the part before it': [[['platform=telegram', 'team']], {}, 'team'],
  'chat_jid matches the whole JID': [[['chat_jid=telegram:42', 'team']], {}, 'team'],
  'sender matches the sender': [[['sender=telegram:7', 'team']], {}, 'team'],
  'verb does not match another verb': [[['verb=mention', 'team']], {}, undefined],
  'all conditions must match': [[['room=42 verb=mention', 'team']], {}, undefined],
  'the lower seq is tried first': [
    [
      ['', 'b', 1],
      ['', 'a', -1],
    ],
    {},
    'a',
  ],
  'among equal seq the lower id is tried first': [
    [
      ['', 'a'],
      ['', 'b'],
    ],
    {},
    'a',
  ],
  'a general route before a named one wins': [
    [
      ['room=42', 'b', 1],
      ['platform=tele*', 'a', 0],
    ],
    {},
    'a',
  ],
  'a named route before a general one wins': [
    [
      ['room=42', 'b', 0],
      ['', 'a', 1],
    ],
    {},
    'b',
  ],
  'a route by chat and one by room keep their order': [
    [
      ['chat_jid=telegram:42', 'b', 1],
      ['room=42', 'a', 0],
    ],
    {},
    'a',
  ],
  '* does not match a slash': [[['room=*', 'team']], { jid: 'discord:1/2' }, undefined],
  '* does not match an empty value': [[['sender=*', 'team']], { sender: '' }, undefined],
  '** does not match an empty value': [[['sender=**', 'team']], { sender: '' }, undefined],
  'an empty glob matches an empty value': [[['sender=', 'team']], { sender: '' }, 'team'],
  'an empty glob matches no other value': [[['sender=', 'team']], {}, undefined],
  '? matches one character': [[['room=4?', 'team']], {}, 'team'],
  '[13] does not match another character': [[['room=4[13]', 'team']], {}, undefined],
  'a stored typo matches nothing': [
    [
      ['rooms=42', 'a'],
      ['room', 'b'],
      ['room=[', 'c'],
    ],
    {},
    undefined,
  ],
  'a stored invalid target is skipped': [
    [
      ['', '../x'],
      ['', 'team'],
    ],
    {},
    'team',
  ],
}
for (const [sentence, [tuples, over, target]] of Object.entries(MATCHES)) {
  test(`routing: ${sentence}`, () => {
    assert.equal(tableOf(...tuples).match({ ...message, ...over })?.target.name, target)
  })
}

test('routing: returns fragments, daemons and built-in handlers unchanged', () => {
  assert.deepEqual(tableOf(['', 'team#observe']).match(message)?.target, {
    kind: 'folder',
    name: 'team',
    fragment: 'observe',
  })
  assert.deepEqual(tableOf(['', 'daemon:mail']).match(message)?.target, { kind: 'daemon', name: 'mail' })
  assert.deepEqual(tableOf(['', 'builtin:drop']).match(message)?.target, { kind: 'builtin', name: 'drop' })
  // Only #observe is reserved.
  assert.equal(tableOf(['', 'team#announce']).match(message)?.target.fragment, 'announce')
})

test('routing: replaces {sender} with one segment for the sender', () => {
  const match = tableOf(['', 'team/{sender}']).match(message)
  assert.equal(match?.target.name, 'team/tg-7')
  assert.equal(match?.route.target, 'team/{sender}')
})

const SENDERS: Record<string, [sender: string, jid: string, segment: string | RegExp]> = {
  telegram: ['telegram:7', 'telegram:42', 'tg-7'],
  whatsapp: ['whatsapp:4930', 'whatsapp:1', 'wa-4930'],
  discord: ['discord:99', 'discord:1/2', 'dc-99'],
  slack: ['slack:U1', 'slack:C1', 'sl-U1'],
  email: ['email:a@b.example', 'email:x', /^em-a-b\.example-[0-9a-f]{12}$/],
  web: ['web:x', 'web:team', 'web-x'],
  'any other platform, abbreviated to two letters': ['mastodon:joe', 'mastodon:1', 'ma-joe'],
  'a platform of one letter': ['x:joe', 'x:1', 'x-joe'],
  'a person of the platform in a chat of an account': ['telegram:7', 'telegram-work:42', 'tg-7'],
  'a person of an account, who may be another one': ['telegram-work:7', 'telegram-work:42', /^tg-7-[0-9a-f]{12}$/],
  'a bare id in a chat of an account': ['7', 'telegram-work:42', /^tg-7-[0-9a-f]{12}$/],
  'a bare id, with the platform of its chat': ['7', 'telegram:42', 'tg-7'],
  'an empty id': ['', 'main', /^id-[0-9a-f]{12}$/],
}
for (const [sentence, [sender, jid, segment]] of Object.entries(SENDERS)) {
  test(`routing: the segment of a sender: ${sentence}`, () => {
    if (typeof segment === 'string') assert.equal(senderSegment(sender, jid), segment)
    else assert.match(senderSegment(sender, jid), segment)
  })
}

test('routing: every sender has a valid segment of its own', () => {
  const id = fc.oneof(fc.string(), fc.stringMatching(/^[a-b+@. -]{1,4}$/), fc.string({ minLength: 60, maxLength: 300 }))
  fc.assert(
    fc.property(id, id, (one, other) => {
      const [left, right] = [one, other].map((each) => senderSegment(`telegram:${each}`, 'telegram:1'))
      assert.equal(folderFault(left ?? ''), undefined)
      assert.equal(left === right, one === other)
    }),
  )
  assert.equal(folderFault(senderSegment('telegram:../../main', 'telegram:1')), undefined)
})

test('routing: looking routes up by room finds the same route as trying each', () => {
  const token = fc.constantFrom(
    'room=1',
    'room=*',
    'room=2',
    'chat_jid=a:1',
    'platform=a',
    'sender=s',
    'verb=mention',
    'verb=*',
  )
  const tuple = fc.tuple(fc.array(token, { maxLength: 3 }), fc.integer({ min: -2, max: 2 }))
  const anyMessage = fc.record({
    jid: fc.constantFrom('a:1', 'a:2', 'b:1'),
    sender: fc.constantFrom('s', 't'),
    verb: fc.constantFrom('message', 'mention'),
  })
  fc.assert(
    fc.property(fc.array(tuple, { maxLength: 12 }), anyMessage, (rows, message) => {
      const routes = rows.map(([tokens, seq], at) => ({ id: at, seq, match: tokens.join(' '), target: `f${at}` }))
      const expected = routes
        .toSorted((a, b) => a.seq - b.seq || a.id - b.id)
        .find((route) => compileRoutes([route]).match(message) !== undefined)
      assert.equal(compileRoutes(routes).match(message)?.target.name, expected?.target)
    }),
  )
})

test('routing: matchesChat ignores sender and verb', () => {
  assert.ok(matchesChat('room=42 sender=x verb=mention', 'telegram:42'))
  assert.ok(!matchesChat('room=43 sender=x', 'telegram:42'))
  assert.ok(!matchesChat('rooms=42', 'telegram:42'))
})

test('routing: the first route to a folder that sets a window decides', () => {
  const table = compileRoutes([
    { id: 1, seq: 2, match: '', target: 'team#observe', observe_window_messages: 9, observe_window_chars: 90 },
    { id: 2, seq: 1, match: '', target: 'team#observe', observe_window_messages: 5 },
    { id: 3, seq: 0, match: '', target: 'team', observe_window_messages: 0 },
    { id: 4, seq: 0, match: '', target: 'other', observe_window_messages: 1 },
  ])
  assert.deepEqual(table.observeWindowsOf('team'), { messages: 5, chars: 90 })
  assert.deepEqual(table.observeWindowsOf('missing'), {})
})
