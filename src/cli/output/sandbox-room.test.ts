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

onEveryEngine('following a room', (engine) => {
  test('shows replies of the agent until the message reaches its final state', async (t) => {
    const { host, clock } = await testHost(t, engine)
    const context = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
    const jid = 'sandbox:lobby'
    const room: string[] = []
    const stop = new AbortController()
    const following = followRoom(host, jid, 0, { signal: stop.signal, show: ({ content }) => room.push(content) })
    const posted = await host.engine.transaction((tx) =>
      postInRoom(tx, context, { room: 'lobby', person: 'mia', content: 'what is new?' }),
    )
    const shown: string[] = []
    let idle = 0
    const end = followAnswer(host, posted, {
      signal: stop.signal,
      show: ({ content }) => shown.push(content),
      onIdle: () => idle++,
    })
    await until(() => idle === 1)
    const setState = (state: InboxState) =>
      host.engine.transaction(async (tx) => {
        const row = {
          topic: '',
          chat_topic: '',
          sender: 'sandbox:mia',
          verb: 'message',
          updated_at: timestamp(clock.now()),
        }
        const where = { id: posted.messageId, jid, folder: 'team', message_seq: posted.entry.seq }
        await inbox.upsert(tx, { ...row, ...where, state })
      })
    await setState('running')
    for (const content of ['looking', 'nothing much']) {
      const out = { jid, topic: '', folder: 'team', content, leaseMs: 60_000 }
      const recorded = await host.engine.transaction((tx) => recordOutbound(tx, context, DEFAULT_TURN_RULES, out))
      assert.equal((await deliver(host, recorded)).state, 'sent')
    }
    await setState('answered')
    assert.equal((await end)?.state, 'answered')
    assert.deepEqual(shown, ['looking', 'nothing much'])
    await until(() => room.length === 3)
    assert.deepEqual(room, ['what is new?', 'looking', 'nothing much'])
    stop.abort()
    await following
    assert.equal(idle, 1)
  })
})

test('reports once that the router has not taken the message, even if the store is slow', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const { host } = await testHost(t)
  const context = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
  const posted = await host.engine.transaction((tx) =>
    postInRoom(tx, context, { room: 'lobby', person: 'mia', content: 'anybody?' }),
  )
  const firstRead = Promise.withResolvers<void>()
  let [reads, idle] = [0, 0]
  const engine = overrideEngine(host.engine, {
    read: (work) => (reads++ === 0 ? firstRead.promise : Promise.resolve()).then(() => host.engine.read(work)),
  })
  const stop = new AbortController()
  const options = { signal: stop.signal, show: () => assert.fail(), onIdle: () => idle++ }
  const end = followAnswer({ ...host, engine }, posted, options)
  await until(() => reads === 1)
  // More ticks than needed while the first read is pending.
  t.mock.timers.tick(3500)
  firstRead.resolve()
  await until(() => idle === 1)
  t.mock.timers.tick(500)
  await until(() => reads === 3)
  stop.abort()
  assert.deepEqual([await end, idle], [undefined, 1])
})
