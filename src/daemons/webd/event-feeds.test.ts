import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openConversationHost } from '../../../test/support/conversation-host.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { removeTurns } from '../../core/messages/retention.ts'
import { roundFeed } from './event-feeds.ts'

const HOUR_MS = 3_600_000

onEveryEngine('a round', (engine) => {
  test('whose frames were removed with its turn still ends its stream', async (t) => {
    const on = await openConversationHost(t, engine)
    const id = await on.ask()
    const { turn } = await on.mustClaim()
    await on.say(turn, 'an answer')
    await on.end(turn)
    const read = () => on.read((tx) => roundFeed(id).read(tx, 0))
    assert.deepEqual(
      (await read()).events.map(({ seq }) => seq),
      [1, 2],
    )
    on.clock.advance(HOUR_MS)
    await on.write((tx) => removeTurns(tx, { before: on.clock.now(), after: '', limit: 10 }))
    const { events, isMore, isOver } = await read()
    assert.deepEqual([events.map(({ seq }) => seq), isMore, isOver], [[2], false, true])
  })
})
