import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openConversationHost } from '../../test/support/conversation-host.ts'
import { isRefusal, onEveryEngine } from '../../test/support/host.ts'
import { run } from '../../test/support/sql.ts'
import { claimOutbox, outbox } from '../core/delivery/outbox.ts'
import { messageRetries } from '../core/messages/message-retries.ts'
import { costLog } from '../core/turns/costs.ts'
import { inboxResource } from './inbox.ts'

const { retry, retry_all } = inboxResource.verbs

onEveryEngine('retries of messages', (engine) => {
  test('a failed message gets a turn of its own again, and its round ends with the answer', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    const id = await on.ask('how much?')
    const first = (await on.mustClaim()).turn
    await on.say(first, 'let me see', { kind: 'status' })
    await on.end(first, { outcome: 'failed', reason: 'the model is asleep' })
    assert.equal((await on.round(id)).status, 'failed')

    assert.deepEqual(await on.cli.call(retry, { id }), { id, kind: 'message', state: 'waiting', folder: 'main' })
    assert.equal((await on.round(id)).status, 'pending')
    assert.equal((await on.state(id)).reason, undefined)
    const second = (await on.mustClaim()).turn
    assert.notEqual(second.id, first.id)
    await on.submit('main', {
      turn_id: second.id,
      result: 'three',
      models: [{ model: 'm', input_tokens: 1, output_tokens: 1, cost_cents: 3 }],
    })
    await on.end(second)
    assert.deepEqual([(await on.state(id)).state, (await on.round(id)).status], ['answered', 'success'])
    // A client that has seen the first frame reads on after it.
    assert.deepEqual(await on.frames(id), ['let me see', 'three'])
    assert.equal((await on.turn(first.id)).outcome, 'failed')
    assert.deepEqual(
      (await on.read((tx) => costLog.list(tx))).map(({ turn_id }) => turn_id),
      [second.id],
    )
    const kept = await on.read((tx) => messageRetries.list(tx))
    assert.deepEqual(
      kept.map(({ number, state, reason, turn_id, retried_by }) => [number, state, reason, turn_id, retried_by]),
      [[1, 'failed', 'the model is asleep', first.id, 'cli']],
    )
  })

  test('a message that is retried twice at once runs once', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    const id = await on.ask('why?')
    await on.end((await on.mustClaim()).turn, { outcome: 'failed', reason: 'it broke' })
    const both = await Promise.allSettled([on.cli.call(retry, { id }), on.cli.call(retry, { id })])
    assert.deepEqual(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
    const refused = both.find((each) => each.status === 'rejected')
    isRefusal('conflict', `message ${id} is waiting`)(refused?.reason)
    const { turn } = await on.mustClaim()
    assert.equal(turn.message_count, 1)
    await on.end(turn)
    assert.equal(await on.claim(), undefined)
    await assert.rejects(on.cli.call(retry, { id }), isRefusal('conflict', `message ${id} is answered`))
  })

  test('a retried message comes before later ones of its conversation, and none runs beside it', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    const old = await on.ask('old', { sender: 'anon:1' })
    await on.end((await on.mustClaim()).turn, { outcome: 'failed', reason: 'it broke' })
    const later = await on.ask('later', { sender: 'anon:2' })
    await on.cli.call(retry, { id: old })
    const first = await on.mustClaim()
    assert.deepEqual(
      first.messages.map(({ row }) => row.id),
      [old],
    )
    assert.equal(await on.claim(), undefined)
    await on.end(first.turn)
    assert.equal((await on.mustClaim()).turn.id, later)
  })

  test('messages of one turn are retried together, each round with its own frames', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    const ids = [await on.ask('one'), await on.ask('two')]
    const failed = (await on.mustClaim()).turn
    await on.say(failed, 'hm', { kind: 'status' })
    await on.end(failed, { outcome: 'refused', reason: 'over budget' })
    const [one = '', two = ''] = ids
    await on.cli.call(retry, { id: one })
    const again = (await on.mustClaim()).turn
    await on.say(again, 'answer to one')
    await on.end(again)
    await on.cli.call(retry, { id: two })
    const last = (await on.mustClaim()).turn
    await on.say(last, 'answer to two')
    await on.end(last)
    assert.deepEqual(await on.frames(one), ['hm', 'answer to one'])
    assert.deepEqual(await on.frames(two), ['hm', 'answer to two'])
  })

  test('a second retry of the last message of a turn gets a third turn', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    const id = await on.ask('why?')
    const turnIds: string[] = []
    for (let attempt = 0; attempt < 3; attempt++) {
      if (attempt > 0) await on.cli.call(retry, { id })
      const { turn } = await on.mustClaim()
      turnIds.push(turn.id)
      await on.end(turn, { outcome: 'failed', reason: 'it broke' })
    }
    assert.deepEqual(turnIds, [id, `${id}.1`, `${id}.2`])
  })

  test('refuses messages that are not failures, of missing folders, and unknown ids, and changes nothing', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    const id = await on.ask('why?')
    await assert.rejects(on.cli.call(retry, { id }), isRefusal('conflict', `message ${id} is waiting`))
    await on.end((await on.mustClaim()).turn, { outcome: 'failed', reason: 'it broke' })
    await on.write((tx) => run(tx, `update inbox set folder = 'gone' where id = $1`, [id]))
    await assert.rejects(
      on.cli.call(retry, { id }),
      isRefusal('conflict', `the folder gone of message ${id} does not exist`),
    )
    await assert.rejects(on.cli.call(retry, { id: 'none' }), isRefusal('not_found', 'no routed message with id none'))
    assert.equal((await on.state(id)).state, 'failed')
    assert.deepEqual(await on.read((tx) => messageRetries.list(tx)), [])
  })

  test('retries several at once and reports those that cannot be retried', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    const failed = await on.ask('one', { sender: 'anon:1' })
    await on.end((await on.mustClaim()).turn, { outcome: 'failed', reason: 'it broke' })
    const waiting = await on.ask('two', { sender: 'anon:2' })
    const reply = await on.cli.call(retry_all, { ids: [failed, waiting, 'none', failed] })
    assert.equal(reply.retried, 1)
    assert.deepEqual(
      reply.results.map(({ error }) => error),
      [undefined, `message ${waiting} is waiting`, 'there is no routed message with id none'],
    )
    assert.equal((await on.state(failed)).state, 'waiting')
  })

  test('delivers a message again whose delivery failed, but none with files', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    await on.ask('hi', { jid: 'telegram:1' })
    const { turn } = await on.mustClaim()
    const { id, seq } = await on.say(turn, 'hello')
    const file = await on.say(turn, 'see', { action: 'send_file', payload: { path: 'a' } })
    await assert.rejects(on.cli.call(retry, { id }), isRefusal('conflict', `message ${id} is pending`))
    await on.write((tx) => run(tx, `update outbox set state = 'failed', error = 'blocked'`))
    assert.deepEqual(await on.cli.call(retry, { id }), { id, kind: 'delivery', state: 'pending', folder: 'main' })
    await assert.rejects(on.cli.call(retry, { id }), isRefusal('conflict', `message ${id} is pending`))
    await assert.rejects(on.cli.call(retry, { id: file.id }), isRefusal('conflict', 'the files of message'))
    const claimed = await on.write((tx) => claimOutbox(tx, { now: on.clock.now(), forMs: 1000, limit: 9 }))
    assert.deepEqual(
      claimed.map(({ message_seq, isUnclear }) => [message_seq, isUnclear]),
      [[seq, false]],
    )
    assert.equal((await on.read((tx) => outbox.find(tx, { id })))?.state, 'sending')
  })
})
