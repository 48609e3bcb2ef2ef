import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { folderFault } from '../values.ts'
import { compileRoutes, matchesChat, type RouteInput, senderSegment } from './route-table.ts'

type Written = [match: string, target: string, seq?: number]

function tableOf(...written: Written[]) {
  return compileRoutes(written.map(([match, target, seq = 0], at) => ({ id: at + 1, seq, match, target })))
}

const said: RouteInput = { jid: 'telegram:42', sender: 'telegram:7', verb: 'message' }

const MATCHES: Record<string, [Written[], Partial<RouteInput>, string | undefined]> = {
  'without a route there is none': [[], {}, undefined],
  'an empty match is for everything': [[['', 'team']], {}, 'team'],
  'a room is all behind the colon': [[['room=1/2', 'team']], { jid: 'discord:1/2' }, 'team'],
  'a platform is all before it': [[['platform=telegram', 'team']], {}, 'team'],
  'a chat may be named whole': [[['chat_jid=telegram:42', 'team']], {}, 'team'],
  'a sender may be asked for': [[['sender=telegram:7', 'team']], {}, 'team'],
  'a verb may be asked for': [[['verb=mention', 'team']], {}, undefined],
  'all pairs must hold': [[['room=42 verb=mention', 'team']], {}, undefined],
  'the lower number is tried first': [
    [
      ['', 'b', 1],
      ['', 'a', -1],
    ],
    {},
    'a',
  ],
  'of one number, the older is tried first': [
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
  'a star stays within a segment': [[['room=*', 'team']], { jid: 'discord:1/2' }, undefined],
  'a star needs something': [[['sender=*', 'team']], { sender: '' }, undefined],
  'two stars need something too': [[['sender=**', 'team']], { sender: '' }, undefined],
  'a key without a value asks for nothing': [[['sender=', 'team']], { sender: '' }, 'team'],
  'a key without a value refuses something': [[['sender=', 'team']], {}, undefined],
  'one letter may be any': [[['room=4?', 'team']], {}, 'team'],
  'a letter may be one of some': [[['room=4[13]', 'team']], {}, undefined],
  'a stored typo is no catch-all': [
    [
      ['rooms=42', 'a'],
      ['room', 'b'],
      ['room=[', 'c'],
    ],
    {},
    undefined,
  ],
  'a stored target that is none is passed over': [
    [
      ['', '../x'],
      ['', 'team'],
    ],
    {},
    'team',
  ],
}
for (const [sentence, [written, over, target]] of Object.entries(MATCHES)) {
  test(`routing: ${sentence}`, () => {
    assert.equal(tableOf(...written).match({ ...said, ...over })?.target.name, target)
  })
}

test('routing: fragments, daemons and built-in handlers come out as they are', () => {
  assert.deepEqual(tableOf(['', 'team#observe']).match(said)?.target, {
    kind: 'folder',
    name: 'team',
    fragment: 'observe',
  })
  assert.deepEqual(tableOf(['', 'daemon:mail']).match(said)?.target, { kind: 'daemon', name: 'mail' })
  assert.deepEqual(tableOf(['', 'builtin:drop']).match(said)?.target, { kind: 'builtin', name: 'drop' })
  // Only #observe is a reserved word.
  assert.equal(tableOf(['', 'team#announce']).match(said)?.target.fragment, 'announce')
})

test('routing: {sender} is one segment that names the person', () => {
  const match = tableOf(['', 'team/{sender}']).match(said)
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
  'any other platform, by two letters': ['mastodon:joe', 'mastodon:1', 'ma-joe'],
  'a platform of one letter': ['x:joe', 'x:1', 'x-joe'],
  'a bare id, by the platform of its chat': ['7', 'telegram:42', 'tg-7'],
  'nothing at all': ['', 'main', /^id-[0-9a-f]{12}$/],
}
for (const [sentence, [sender, jid, segment]] of Object.entries(SENDERS)) {
  test(`routing: a sender of ${sentence}`, () => {
    if (typeof segment === 'string') assert.equal(senderSegment(sender, jid), segment)
    else assert.match(senderSegment(sender, jid), segment)
  })
}

test('routing: any sender is a valid segment, and two senders of a platform never share one', () => {
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

test('routing: looking up by room and trying one by one find the same route', () => {
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
  const written = fc.tuple(fc.array(token, { maxLength: 3 }), fc.integer({ min: -2, max: 2 }))
  const speech = fc.record({
    jid: fc.constantFrom('a:1', 'a:2', 'b:1'),
    sender: fc.constantFrom('s', 't'),
    verb: fc.constantFrom('message', 'mention'),
  })
  fc.assert(
    fc.property(fc.array(written, { maxLength: 12 }), speech, (rows, asked) => {
      const routes = rows.map(([tokens, seq], at) => ({ id: at, seq, match: tokens.join(' '), target: `f${at}` }))
      const alone = routes
        .toSorted((a, b) => a.seq - b.seq || a.id - b.id)
        .find((route) => compileRoutes([route]).match(asked) !== undefined)
      assert.equal(compileRoutes(routes).match(asked)?.target.name, alone?.target)
    }),
  )
})

test('routing: a route is about a chat whoever speaks there', () => {
  assert.ok(matchesChat('room=42 sender=x verb=mention', 'telegram:42'))
  assert.ok(!matchesChat('room=43 sender=x', 'telegram:42'))
  assert.ok(!matchesChat('rooms=42', 'telegram:42'))
})

test('routing: of the routes into a folder, the first that has a window says it', () => {
  const table = compileRoutes([
    { id: 1, seq: 2, match: '', target: 'team#observe', observe_window_messages: 9, observe_window_chars: 90 },
    { id: 2, seq: 1, match: '', target: 'team#observe', observe_window_messages: 5 },
    { id: 3, seq: 0, match: '', target: 'team', observe_window_messages: 0 },
    { id: 4, seq: 0, match: '', target: 'other', observe_window_messages: 1 },
  ])
  assert.deepEqual(table.observeWindowsOf('team'), { messages: 5, chars: 90 })
  assert.deepEqual(table.observeWindowsOf('nobody'), {})
})
