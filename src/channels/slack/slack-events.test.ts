import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { emojiNameOf, emojiOf } from './slack-emoji.ts'
import { readEnvelope, type SlackContext, type SlackEvent } from './slack-events.ts'
import { findMentions, quoteText, readSlackText, withoutBroadcasts } from './slack-text.ts'

const CONTEXT: SlackContext = { bot: { team: 'T0TEST', user: 'U0ADA', bot: 'B0ADA', name: 'ada' }, areBotsHeard: true }
const RUNS = { numRuns: runs(500, 20_000) }
const NO_NAMES = { users: new Map<string, string>(), channels: new Map<string, string>() }

const MEMBERS = (
  'event event_id type subtype channel channel_type user bot_id ts thread_ts text blocks attachments files message previous_message ' +
  'edited deleted_ts item reaction event_ts assistant_thread channel_id user_id command trigger_id actions value action_ts container ' +
  'message_ts elements fields id name mode mimetype size url_private title fallback is_share author_name bot_profile user_profile'
).split(' ')
const anyValue = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(
      'message',
      'C0TEAM',
      'U0MIA',
      '1800000000.000001',
      'block_actions',
      'button',
      'rich_text_section',
      42,
      1e300,
      true,
      null,
    ),
    fc.jsonValue({ maxDepth: 1 }),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...MEMBERS), tie('value'), { maxKeys: 8 }),
  ),
})).value

const message = {
  type: 'message',
  channel: 'C0TEAM',
  channel_type: 'channel',
  user: 'U0MIA',
  ts: '1800000000.000001',
  text: 'words',
}
const ENVELOPES: Readonly<Record<string, readonly [type: string, payload: object]>> = {
  message: ['events_api', { event: message }],
  edit: [
    'events_api',
    {
      event: {
        ...message,
        subtype: 'message_changed',
        message: { ...message, text: 'new', edited: { ts: '1.000001' } },
      },
    },
  ],
  deletion: ['events_api', { event: { ...message, subtype: 'message_deleted', deleted_ts: message.ts } }],
  reaction: [
    'events_api',
    {
      event: {
        type: 'reaction_added',
        user: 'U0MIA',
        reaction: '+1',
        item: { type: 'message', channel: 'C0TEAM', ts: message.ts },
      },
    },
  ],
  pane: [
    'events_api',
    { event: { type: 'assistant_thread_started', assistant_thread: { channel_id: 'D0MIA', thread_ts: message.ts } } },
  ],
  command: [
    'slash_commands',
    { channel_id: 'C0TEAM', user_id: 'U0MIA', command: '/svc', text: 'new', trigger_id: '1.2.a' },
  ],
  press: [
    'interactive',
    {
      ...{ type: 'block_actions', user: { id: 'U0MIA' }, channel: { id: 'C0TEAM' }, message: { ts: message.ts } },
      actions: [{ type: 'button', value: 'yes', action_ts: '1800000000.000009' }],
    },
  ],
}

function assertEvents(events: readonly SlackEvent[]): void {
  for (const { channel, key, user, markup, files, position, pane, event } of events) {
    assert.match(channel, /^[CDG][A-Z0-9]+$/)
    assert.equal(typeof key, 'string')
    const { timestamp, reaction_removed, is_group, is_from_me, ...texts } = event
    for (const text of [user, markup, position?.ts, position?.thread, pane, ...Object.values(texts)])
      assert.ok(text === undefined || typeof text === 'string', String(text))
    assert.ok(pane !== undefined || (typeof event.id === 'string' && event.id !== ''))
    assert.ok(timestamp === undefined || Number.isSafeInteger(timestamp))
    assert.ok(files.every(({ id, name, size }) => id && name && (size === undefined || size >= 0)))
    if (markup !== undefined) readSlackText(markup, NO_NAMES)
  }
}

/** The same with one member of another kind, at any depth. */
function withMember(value: unknown, name: string, other: unknown): unknown {
  if (Array.isArray(value)) return value.map((each) => withMember(each, name, other))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key, key === name ? other : withMember(each, name, other)]),
  )
}

suite('an envelope of any shape', () => {
  test('is read without an exception, and each of its events is valid', () => {
    const types = fc.constantFrom('events_api', 'slash_commands', 'interactive', 'hello', 7)
    fc.assert(
      fc.property(types, anyValue, (type, payload) => assertEvents(readEnvelope(CONTEXT, type, payload))),
      RUNS,
    )
    fc.assert(
      fc.property(
        fc.constantFrom(...Object.values(ENVELOPES)),
        fc.constantFrom(...MEMBERS),
        anyValue,
        ([type, payload], name, other) => assertEvents(readEnvelope(CONTEXT, type, withMember(payload, name, other))),
      ),
      RUNS,
    )
  })

  for (const [name, [type, payload]] of Object.entries(ENVELOPES))
    test(`is a ${name} as Slack documents it`, () => {
      const events = readEnvelope(CONTEXT, type, payload)
      assert.equal(events.length, 1)
      assertEvents(events)
    })
})

suite("Slack's markup", () => {
  const NAMES = { users: new Map([['U0MIA', 'Mia']]), channels: new Map([['C0TEAM', 'team']]) }
  const EXAMPLES: Readonly<Record<string, string>> = {
    'hi <@U0MIA>, <@U0XYZ> and <@U0XYZ|noah>': 'hi @Mia, @U0XYZ and @noah',
    '<#C0TEAM> <#C0X|other>': '#team #other',
    '<!here> <!subteam^S1|@staff> <!subteam^S1> <!date^1^{date}|Feb 18>': '@here @staff @subteam Feb 18',
    '<https://a.example|text> <https://a.example> <mailto:a@b.c|a@b.c>':
      '[text](https://a.example) https://a.example a@b.c',
    '1 &lt; 2 &amp;&amp; 3 &gt; 2 &amp;lt;': '1 < 2 && 3 > 2 &lt;',
    'a < b and <': 'a < b and <',
  }
  for (const [text, shown] of Object.entries(EXAMPLES))
    test(`${text} is ${shown}`, () => assert.equal(readSlackText(text, NAMES), shown))

  test('names the people and channels whose names are not in it', () => {
    assert.deepEqual(findMentions('<@U0MIA> <@U0MIA> <#C0TEAM> <#C0X|other> <@bad>'), {
      users: ['U0MIA'],
      channels: ['C0TEAM'],
    })
  })

  test('for Slack notifies not all members of a chat', () => {
    assert.equal(withoutBroadcasts('<!channel> <!-- a comment -->'), '<\u200b!channel> <!-- a comment -->')
  })

  test('is quoted within its limit', () => {
    assert.equal(quoteText('a\nb', 100), '> a\n> b')
    assert.equal(quoteText('\n'.repeat(5000), 100).length, 100)
  })
})

suite('names of reactions', () => {
  test('are emoji where they are common, also with a skin tone, and names where they are not', () => {
    assert.deepEqual(['+1', 'thumbsup', '+1::skin-tone-3', 'party_parrot'].map(emojiOf), [
      '👍',
      '👍',
      '👍',
      'party_parrot',
    ])
    assert.deepEqual(['👍', '👍🏽', '❤', '❤️', ':tada:', 'party_parrot', 'no name', '🫥'].map(emojiNameOf), [
      ...['+1', '+1', 'heart', 'heart', 'tada', 'party_parrot', undefined, undefined],
    ])
  })
})
