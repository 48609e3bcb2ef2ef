import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type ConversationHost, openConversationHost } from '../../../test/support/conversation-host.ts'
import { type EngineName, isRefusal, onEveryEngine } from '../../../test/support/host.ts'
import { inbox } from '../messages/inbox.ts'
import { lockMessageOrder } from '../messages/messages.ts'
import { conversations } from './conversations.ts'
import { findRound, readFrames, writeContextOf } from './rounds.ts'
import { stopRound } from './stop-round.ts'
import { retryTurn, type TurnEnd } from './turns.ts'

async function open(t: TestContext, engine: EngineName) {
  const on = await openConversationHost(t, engine)
  const stop = (id: string) =>
    on.write(async (tx) => {
      await lockMessageOrder(tx, on.host.engine.dialect)
      const round = (await findRound(tx, id)) ?? assert.fail('no such round')
      return stopRound(tx, writeContextOf(on.host), round)
    })
  return { ...on, stop }
}

async function outcomeOf(on: ConversationHost, id: string): Promise<readonly unknown[]> {
  const [{ state, reason }, { status, error }] = [await on.state(id), await on.round(id)]
  return [state, reason, status, error]
}

const STOPPED = ['failed', 'it was stopped', 'failed', 'stopped']

onEveryEngine('stopping a round', (engine) => {
  test('cancels a message that waits, and no other', async (t) => {
    const on = await open(t, engine)
    const [first, second] = [await on.ask('one'), await on.ask('two')]
    const keys = await on.stop(first)
    assert.deepEqual(keys, [first, 'web:main'])
    assert.deepEqual(await outcomeOf(on, first), STOPPED)
    const { turn, messages } = await on.mustClaim()
    assert.deepEqual([turn.id, messages.length], [second, 1])
    assert.equal((await on.read((tx) => conversations.find(tx, { folder: 'main', topic: '' })))?.waiting, 0)
    assert.equal(await on.claim(), undefined)
  })

  test('stops the turn that runs for it, and with it every round that this would answer', async (t) => {
    const on = await open(t, engine)
    const [first, second] = [await on.ask('one'), await on.ask('two')]
    const { turn } = await on.mustClaim()
    assert.deepEqual(await on.stop(first), [])
    assert.equal((await on.turn(turn.id)).is_stopping, true)
    await on.end(turn, { outcome: 'failed', reason: 'it was stopped', publicReason: 'stopped', failure: 'stopped' })
    assert.deepEqual([await outcomeOf(on, first), await outcomeOf(on, second)], [STOPPED, STOPPED])
    for (const id of [first, second]) await assert.rejects(on.stop(id), isRefusal('conflict', 'the answer has ended'))
  })

  test('makes a turn that waits for its next try due at once', async (t) => {
    const on = await open(t, engine)
    const id = await on.ask()
    const { turn } = await on.mustClaim()
    await on.write((tx) => retryTurn(tx, turn, on.clock.now() + 60_000, 'later'))
    await on.stop(id)
    assert.equal((await on.mustClaim()).turn.is_stopping, true)
  })

  test('stops the turn that the question was delegated to, also while that still waits', async (t) => {
    const on = await open(t, engine)
    await on.groups('main', 'team')
    for (const isRunning of [true, false]) {
      const id = await on.ask('why?')
      const { turn } = await on.mustClaim()
      const question = await on.delegate(turn)
      await on.end(turn, { outcome: 'silent' })
      assert.equal((await on.state(id)).state, 'delegated')
      const delegate = isRunning ? (await on.mustClaim()).turn : undefined
      await on.stop(id)
      if (delegate) {
        assert.equal((await on.turn(delegate.id)).is_stopping, true)
        await on.end(delegate, { outcome: 'failed', reason: 'it was stopped', publicReason: 'stopped' })
      } else assert.equal((await on.state(question)).state, 'failed')
      assert.deepEqual(await outcomeOf(on, id), STOPPED)
      assert.equal(await on.claim(), undefined)
    }
  })

  test('is refused for now while its message is not routed', async (t) => {
    const on = await open(t, engine)
    const id = await on.ask()
    await on.write((tx) => inbox.remove(tx, { id }))
    await assert.rejects(on.stop(id), isRefusal('unavailable', 'the message is not routed yet'))
  })

  test('keeps what was said so far, marked as partial, unless the turn has sent a message', async (t) => {
    const on = await open(t, engine)
    const end = { outcome: 'failed', failure: 'stopped', publicReason: 'stopped', partial: 'The answ' } as const
    for (const hasSpoken of [false, true]) {
      const id = await on.ask()
      const { turn } = await on.mustClaim()
      if (hasSpoken) await on.say(turn, 'by tool')
      await on.end(turn, end)
      const frames = await on.read((tx) => readFrames(tx, id, 0, 10))
      assert.deepEqual(
        frames.map(({ content, partial }) => [content, partial]),
        hasSpoken ? [['by tool', undefined]] : [['The answ', true]],
      )
    }
  })

  test('tells the next turn that the answer before it was stopped', async (t) => {
    const on = await open(t, engine)
    const noteAfter = async (failure: TurnEnd['failure']): Promise<string | undefined> => {
      await on.ask()
      await on.end((await on.mustClaim()).turn, { outcome: 'failed', failure })
      return (await on.read((tx) => conversations.find(tx, { folder: 'main', topic: '' })))?.note
    }
    assert.equal(await noteAfter('failed'), undefined)
    assert.match((await noteAfter('stopped')) ?? '', /^A person stopped the previous answer/)
  })

  test('never pauses the folder, however often people stop answers', async (t) => {
    const on = await open(t, engine)
    for (let count = 0; count < 4; count++) {
      await on.ask(`${count}`)
      await on.end((await on.mustClaim()).turn, { outcome: 'failed', failure: 'stopped' })
    }
    await on.ask('next')
    assert.equal((await on.mustClaim()).refusal, undefined)
  })
})
