import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import type { Update } from 'grammy/types'
import { runs } from '../../../test/support/part.ts'
import { type EventContext, joinAlbums, readUpdate, startOfLastAlbum } from './telegram-events.ts'

const CONTEXT: EventContext = { account: 'telegram', bot: { id: 1, username: 'the_bot' }, areBotsHeard: true }
const RUNS = { numRuns: runs(500, 20_000) }
const read = (update: unknown) => readUpdate(CONTEXT, update as Update)

const MEMBERS = (
  'message edited_message channel_post message_reaction update_id chat id type from sender_chat text caption entities offset ' +
  'length user photo file_id document audio voice video sticker poll options location venue contact dice new_chat_members ' +
  'reply_to_message forward_origin sender_user message_id date media_group_id old_reaction new_reaction title first_name is_bot'
).split(' ')
const anyValue = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom('private', 'group', 'mention', 'user', 'emoji', 'text', 42, -7, 1e300, true, null),
    fc.jsonValue({ maxDepth: 1 }),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...MEMBERS), tie('value'), { maxKeys: 8 }),
  ),
})).value

const person = { id: 42, is_bot: false, first_name: 'Mia' }
const chat = { id: -7, type: 'group', title: 'The team' }
const message = { message_id: 3, date: 1_800_000_000, chat, from: person, text: 'words' }

function assertEvents(events: ReturnType<typeof read>): void {
  for (const { event, files } of events) {
    assert.match(event.chat_jid, /^telegram:(user|group)\/-?\d+$/)
    for (const text of [
      event.content,
      event.sender,
      event.sender_name,
      event.topic,
      event.chat_name,
      event.reply_to_text,
    ])
      assert.ok(text === undefined || typeof text === 'string')
    assert.equal(typeof event.id, 'string')
    assert.ok(files.every(({ id, name }) => typeof id === 'string' && typeof name === 'string'))
  }
  joinAlbums(events, 100)
}

suite('an update of any shape', () => {
  test('is read without an exception, and each of its events has a chat', () => {
    fc.assert(
      fc.property(anyValue, (update) => assertEvents(read(update))),
      RUNS,
    )
    // Nearly right, with one member of another kind.
    const kinds = fc.constantFrom('message', 'edited_message', 'channel_post', 'message_reaction')
    fc.assert(
      fc.property(kinds, fc.constantFrom(...MEMBERS), anyValue, (kind, member, value) =>
        assertEvents(read({ update_id: 5, [kind]: { ...message, [member]: value } })),
      ),
      RUNS,
    )
  })

  test('is reported if it cannot be read', () => {
    const errors: unknown[] = []
    const update = { update_id: 1, message: { ...message, entities: 5 } } as unknown as Update
    assert.deepEqual(readUpdate({ ...CONTEXT, onUnreadable: (error) => void errors.push(error) }, update), [])
    assert.equal(errors.length, 1)
  })

  test('with numbers that are no ids is no event', () => {
    for (const odd of [{ chat: { ...chat, id: 1e300 } }, { message_id: 1.5 }, { message_id: undefined }, { chat: {} }])
      assert.deepEqual(read({ update_id: 1, message: { ...message, ...odd } }), [], JSON.stringify(odd))
    const [{ event } = assert.fail()] = read({ update_id: 1, message })
    assert.deepEqual([event.chat_jid, event.id, event.content], ['telegram:group/-7', '3', 'words'])
  })
})

suite('the last album of some updates', () => {
  const updates = (...albums: [chat: number, album?: string][]): Update[] =>
    albums.map(([id, album], at) => ({
      update_id: at,
      message: { ...message, chat: { ...chat, id }, ...(album === undefined ? {} : { media_group_id: album }) },
    })) as unknown as Update[]

  test('starts at its first picture, also between messages of other chats', () => {
    assert.equal(startOfLastAlbum([]), undefined)
    assert.equal(startOfLastAlbum(updates([1], [2])), undefined)
    assert.equal(startOfLastAlbum(updates([1, 'a'], [1])), undefined)
    assert.equal(startOfLastAlbum(updates([1], [1, 'a'], [1, 'a'])), 1)
    assert.equal(startOfLastAlbum(updates([1, 'a'], [2], [1, 'a'], [2])), 0)
    assert.equal(startOfLastAlbum(updates([1, 'a'], [1, 'b'])), 1)
  })
})
