import assert from 'node:assert/strict'
import { test } from 'node:test'
import { overrideEngine } from '../../../test/support/engine-override.ts'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { until } from '../../../test/support/until.ts'
import { deliver } from '../../core/delivery/delivery.ts'
import { recordOutbound } from '../../core/delivery/outbox.ts'
import { postInRoom } from '../../core/delivery/sandbox-rooms.ts'
import { type InboxState, inbox } from '../../core/messages/inbox.ts'
import { DEFAULT_TURN_RULES } from '../../core/turns/turn-rules.ts'
import { timestamp } from '../../lib/clock.ts'
import { followAnswer, followRoom } from './sandbox-room.ts'

onEveryEngine('a room that is followed', (engine) => {
  test('shows what the agent says, until the question has come to its end', async (t) => {
    const { host, clock } = await testHost(t, engine)
    const speaking = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
    const jid = 'sandbox:lobby'
    const room: string[] = []
    const stop = new AbortController()
    const following = followRoom(host, jid, 0, { signal: stop.signal, show: ({ content }) => room.push(content) })
    const said = await host.engine.transaction((tx) =>
      postInRoom(tx, speaking, { room: 'lobby', person: 'mia', content: 'what is new?' }),
    )
    const shown: string[] = []
    let idle = 0
    const end = followAnswer(host, said, {
      signal: stop.signal,
      show: ({ content }) => shown.push(content),
      onIdle: () => idle++,
    })
    await until(() => idle === 1)
    const become = (state: InboxState) =>
      host.engine.transaction(async (tx) => {
        const row = {
          topic: '',
          chat_topic: '',
          sender: 'sandbox:mia',
          verb: 'message',
          updated_at: timestamp(clock.now()),
        }
        const where = { id: said.messageId, jid, folder: 'team', message_seq: said.entry.seq }
        await inbox.upsert(tx, { ...row, ...where, state })
      })
    await become('running')
    for (const content of ['looking', 'nothing much']) {
      const out = { jid, topic: '', folder: 'team', content, leaseMs: 60_000 }
      const recorded = await host.engine.transaction((tx) => recordOutbound(tx, speaking, DEFAULT_TURN_RULES, out))
      assert.equal((await deliver(host, recorded)).state, 'sent')
    }
    await become('answered')
    assert.equal((await end)?.state, 'answered')
    assert.deepEqual(shown, ['looking', 'nothing much'])
    await until(() => room.length === 3)
    assert.deepEqual(room, ['what is new?', 'looking', 'nothing much'])
    stop.abort()
    await following
    assert.equal(idle, 1)
  })
})

test('that nobody has taken it up is told once, however slowly the store answers', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const { host } = await testHost(t)
  const speaking = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
  const said = await host.engine.transaction((tx) =>
    postInRoom(tx, speaking, { room: 'lobby', person: 'mia', content: 'anybody?' }),
  )
  const held = Promise.withResolvers<void>()
  let [reads, idle] = [0, 0]
  const engine = overrideEngine(host.engine, {
    read: (work) => (reads++ === 0 ? held.promise : Promise.resolve()).then(() => host.engine.read(work)),
  })
  const stop = new AbortController()
  const following = { signal: stop.signal, show: () => assert.fail(), onIdle: () => idle++ }
  const end = followAnswer({ ...host, engine }, said, following)
  await until(() => reads === 1)
  // More looks than it takes, while the first one has not come back.
  t.mock.timers.tick(3500)
  held.resolve()
  await until(() => idle === 1)
  t.mock.timers.tick(500)
  await until(() => reads === 3)
  stop.abort()
  assert.deepEqual([await end, idle], [undefined, 1])
})
