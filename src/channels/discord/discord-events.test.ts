import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { type DispatchReading, READ_DISPATCHES, readDispatch } from './discord-events.ts'
import { payloadOf } from './payload.ts'

const CONTEXT: DispatchReading = {
  bot: { id: '123456789012345678', name: 'Ada' },
  areBotsHeard: true,
  place: { jid: 'discord:200000000000000002/300000000000000003', isGroup: true },
  names: { role: () => undefined, channel: () => undefined },
}
const RUNS = { numRuns: runs(500, 20_000) }
const read = (type: string, data: unknown, context = CONTEXT) =>
  readDispatch(context, { type, data: payloadOf(data), key: 'session-1' })

const MEMBERS = (
  'id channel_id author content timestamp edited_timestamp type mentions mention_roles attachments embeds poll question answers ' +
  'sticker_items message_reference referenced_message message_snapshots message message_id user_id emoji name member nick user ' +
  'username global_name bot webhook_id data options value custom_id ids url filename size content_type poll_media text title'
).split(' ')
const anyValue = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom(
      '420000000000000042',
      '<@420000000000000042>',
      '<t:99999999999>',
      0,
      1,
      2,
      3,
      7,
      19,
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
  ...{ id: '1180000000000000000', type: 0, content: 'words', timestamp: '2023-12-01T00:00:00.000000+00:00' },
  ...{ author: { id: '420000000000000042', username: 'mia' }, mentions: [], attachments: [], embeds: [] },
}

function assertEvents(events: ReturnType<typeof read>): void {
  for (const { event, files } of events) {
    const { chat_jid, id, timestamp, is_group, reaction_removed, attachments, is_from_me, ...texts } = event
    assert.equal(chat_jid, CONTEXT.place.jid)
    assert.ok(typeof id === 'string' && id !== '')
    assert.ok(timestamp === undefined || Number.isSafeInteger(timestamp))
    for (const text of Object.values(texts)) assert.ok(text === undefined || typeof text === 'string')
    for (const { url, name, size } of files)
      assert.ok(typeof url === 'string' && typeof name === 'string' && (size === undefined || Number.isFinite(size)))
  }
}

suite('an event of any shape', () => {
  test('is read without an exception, and each of its events has an id', () => {
    const types = fc.constantFrom(...READ_DISPATCHES)
    fc.assert(
      fc.property(types, anyValue, (type, data) => assertEvents(read(type, data))),
      RUNS,
    )
    // Nearly right, with one member of another kind.
    fc.assert(
      fc.property(types, fc.constantFrom(...MEMBERS), anyValue, (type, member, value) =>
        assertEvents(read(type, { ...message, [member]: value })),
      ),
      RUNS,
    )
  })

  test('with ids that are none is no event', () => {
    for (const odd of [{ id: 5 }, { id: 'x' }, { author: undefined }, { author: { id: '1' } }, { type: 6 }])
      assert.deepEqual(read('MESSAGE_CREATE', { ...message, ...odd }), [], JSON.stringify(odd))
    const [{ event } = assert.fail()] = read('MESSAGE_CREATE', message)
    assert.deepEqual([event.id, event.content, event.sender], [message.id, 'words', 'discord:user/420000000000000042'])
  })

  test('of the bot itself is none, also where bots are heard', () => {
    const own = { ...message, author: { id: CONTEXT.bot.id, bot: true } }
    for (const type of ['MESSAGE_CREATE', 'MESSAGE_UPDATE'])
      assert.deepEqual(read(type, { ...own, edited_timestamp: message.timestamp }), [])
    const reaction = { message_id: message.id, user_id: CONTEXT.bot.id, emoji: { name: '👍' } }
    assert.deepEqual(read('MESSAGE_REACTION_ADD', reaction), [])
  })

  test('of a webhook is one of a bot', () => {
    const ofWebhook = { ...message, webhook_id: '700000000000000007' }
    assert.deepEqual(read('MESSAGE_CREATE', ofWebhook, { ...CONTEXT, areBotsHeard: false }), [])
    assert.equal(read('MESSAGE_CREATE', ofWebhook).length, 1)
  })
})
