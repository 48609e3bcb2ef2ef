import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { type ConversationHost, LEASE_MS, openConversationHost } from '../../../test/support/conversation-host.ts'
import { isRefusal, onEveryEngineQuickly, testHost } from '../../../test/support/host.ts'
import { addLink } from '../../../test/support/rows.ts'
import { outbox } from '../delivery/outbox.ts'
import { groups } from '../groups/groups.ts'
import { messages } from '../messages/messages.ts'
import { findLastReplyId, findLiveEngagement } from '../routing/engagements.ts'
import { conversations, folderTurns, sessionLog } from './conversations.ts'
import { costLog, users } from './costs.ts'
import { countBatch, type WaitingMessage } from './message-batch.ts'
import { checkClaimable, claimTurn, listFoldersWithOpenBreaker, renewTurn } from './turn-claim.ts'
import type { TurnRules } from './turn-rules.ts'
import { findTurnOfConnection, releaseTurn, retryTurn, stopTurns, type Turn, turns } from './turns.ts'

const CHAT = { jid: 'sandbox:lobby', hasRound: false, target_folder: undefined }

function renewLease(on: ConversationHost, turn: Turn, limits: Partial<TurnRules> = {}): Promise<Turn | undefined> {
  const options = { now: on.clock.now(), leaseMs: LEASE_MS }
  return on.write((tx) => renewTurn(tx, { ...on.host.rules, ...limits }, options, turn))
}

onEveryEngineQuickly('turns', (engine) => {
  test('waiting messages of one visitor in one topic form one turn, and each of their rounds shows its frames and end', async (t) => {
    const on = await openConversationHost(t, engine)
    const ids = [await on.ask('one'), await on.ask('two')]
    const stranger = await on.ask('three', { sender: 'anon:2' })
    const other = await on.ask('elsewhere', { topic: 'bills' })
    const { turn, messages: claimed } = await on.mustClaim()
    assert.deepEqual([turn.id, turn.message_count], [ids[1], 2])
    assert.deepEqual(
      claimed.map(({ message }) => Buffer.from(message.content).toString()),
      ['one', 'two'],
    )
    await on.say(turn, 'hm', { kind: 'status' })
    await on.say(turn, 'yes')
    await on.end(turn)
    for (const id of ids) {
      assert.deepEqual(await on.frames(id), ['hm', 'yes'])
      assert.deepEqual([(await on.round(id)).status, (await on.state(id)).state], ['success', 'answered'])
    }
    assert.deepEqual([(await on.round(stranger)).status, (await on.state(stranger)).state], ['pending', 'waiting'])
    assert.deepEqual([(await on.round(other)).status, (await on.state(other)).state], ['pending', 'waiting'])
  })

  test('limits concurrent turns to one per conversation, two per folder and four per instance', async (t) => {
    const on = await openConversationHost(t, engine)
    for (const folder of ['a', 'b', 'c']) {
      for (const topic of ['x', 'y', 'z']) await on.ask('hi', { folder, topic })
    }
    await on.ask('again', { folder: 'a', topic: 'x', jid: 'web:a/other' })
    const running = []
    for (let n = 0; n < 4; n++) running.push(await on.mustClaim())
    assert.equal(await on.claim(), undefined, 'the instance runs four turns')
    const folders = Map.groupBy(running, ({ turn }) => turn.folder)
    assert.deepEqual([...folders.values()].map((of) => of.length).sort(), [1, 1, 2])
    const full = [...folders].find(([, of]) => of.length === 2)?.[0] ?? ''
    const more = await on.mustClaim({ turnsMax: 5 })
    assert.notEqual(more.turn.folder, full)
    const keys = [...running, more].map(({ turn }) => `${turn.folder} ${turn.topic}`)
    assert.equal(new Set(keys).size, keys.length)
  })

  test('serves folders in turn: a busy folder does not delay another', async (t) => {
    const on = await openConversationHost(t, engine)
    for (let n = 0; n < 6; n++) await on.ask('hi', { folder: 'busy', topic: `t${n}` })
    await on.ask('hi', { folder: 'quiet' })
    const order: string[] = []
    for (let claimed = await on.claim({ turnsMax: 1 }); claimed; claimed = await on.claim({ turnsMax: 1 })) {
      order.push(claimed.turn.folder)
      await on.end(claimed.turn)
    }
    assert.equal(order.length, 7)
    assert.ok(order.indexOf('quiet') <= 1, order.join(' '))
  })

  test('concurrent claims get different turns', async (t) => {
    const on = await openConversationHost(t, engine)
    for (let n = 0; n < 8; n++) await on.ask('hi', { folder: `f${n}` })
    const claimed = await Promise.all(Array.from({ length: 8 }, () => on.claim({ turnsMax: 6 })))
    const ids = claimed.flatMap((each) => (each ? [each.turn.id] : []))
    assert.equal(ids.length, 6)
    assert.equal(new Set(ids).size, 6)
  })

  test('an expired turn can be claimed again, and its previous process can no longer end it', async (t) => {
    const on = await openConversationHost(t, engine)
    const id = await on.ask()
    const old = await on.mustClaim()
    await on.say(old.turn, 'one')
    on.clock.advance(LEASE_MS - 1)
    assert.equal(await on.claim(), undefined)
    on.clock.advance(1)
    const now = await on.mustClaim()
    assert.deepEqual([now.turn.id, now.turn.fence, now.turn.replies], [id, 2, 1])
    assert.deepEqual([now.turn.attempts, now.turn.deaths], [1, 1], 'a death does not count as an attempt')
    assert.deepEqual(
      now.messages.map(({ row }) => row.id),
      [id],
    )
    assert.equal(await on.end(old.turn), false)
    await assert.rejects(on.submit('main', { turn_id: id, fence: 1, result: 'late' }), isRefusal('conflict'))
    await assert.rejects(
      on.read((tx) => findTurnOfConnection(tx, 'main', { id, fence: 1 })),
      isRefusal('conflict', 'another process'),
    )
    assert.equal((await on.read((tx) => findTurnOfConnection(tx, 'main', { id, fence: 2 })))?.id, id)
    assert.equal(await on.end(now.turn), true)
    assert.equal((await on.round(id)).status, 'success')
  })

  test('reclaims the turn of a dead process after one lease, even if the clock was set back', async (t) => {
    const on = await openConversationHost(t, engine)
    const check = () => on.read((tx) => checkClaimable(tx, { now: on.clock.now(), leaseMs: LEASE_MS }))
    await on.ask()
    await on.mustClaim()
    on.clock.advance(-600_000)
    assert.ok((await check()).hasClaimable, 'a lease that ends too late must be corrected')
    assert.equal(await on.claim(), undefined)
    assert.ok(!(await check()).hasClaimable)
    on.clock.advance(LEASE_MS - 1)
    assert.equal(await on.claim(), undefined)
    on.clock.advance(1)
    const { turn } = await on.mustClaim()
    assert.equal(turn.fence, 2)
    await on.write((tx) => retryTurn(tx, turn, on.clock.now() + 4000, 'no'))
    on.clock.advance(-600_000)
    assert.equal((await on.mustClaim()).turn.fence, 3, 'a retry does not wait longer either')
  })

  test('a process does not reclaim its own turn when the clock was set forward', async (t) => {
    const on = await openConversationHost(t, engine)
    const id = await on.ask()
    await on.mustClaim()
    on.clock.advance(600_000)
    const claimWith = (own: readonly string[]) =>
      on.write((tx) =>
        claimTurn(tx, on.host.rules, { now: on.clock.now(), leaseMs: LEASE_MS, ownTurnIds: new Set(own) }),
      )
    assert.equal(await claimWith([id]), undefined)
    assert.equal((await claimWith([]))?.turn.id, id)
  })

  test('the pause before reclaiming a turn grows with each death', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.ask()
    await on.mustClaim()
    for (const deaths of [1, 2, 3]) {
      const pauseMs = 1000 * (deaths - 1) ** 2
      on.clock.advance(LEASE_MS + pauseMs - 1)
      assert.equal(await on.claim(), undefined)
      on.clock.advance(1)
      const { turn } = await on.mustClaim()
      assert.deepEqual([turn.deaths, turn.attempts], [deaths, 1])
    }
  })

  test('claims a turn only if the workspace of its folder is available', async (t) => {
    const on = await openConversationHost(t, engine)
    const here = new Set(['here'])
    const absent = new Set<string>()
    const workspaces = {
      has: (folder: string) => {
        if (!here.has(folder)) absent.add(folder)
        return here.has(folder)
      },
      missing: () => [...absent].filter((folder) => !here.has(folder)),
    }
    const lease = () => ({ now: on.clock.now(), leaseMs: LEASE_MS, workspaces })
    const claim = () => on.write((tx) => claimTurn(tx, on.host.rules, lease()))
    for (const folder of ['a', 'b', 'here', 'c']) await on.ask('x', { folder })
    const { turn } = (await claim()) ?? assert.fail('nothing to claim')
    assert.equal(turn.folder, 'here')
    assert.equal(await claim(), undefined)
    assert.deepEqual([...absent].sort(), ['a', 'b', 'c'])
    assert.ok(!(await on.read((tx) => checkClaimable(tx, lease()))).hasClaimable)
    await on.write((tx) => releaseTurn(tx, turn))
    here.clear()
    assert.equal(await claim(), undefined, 'a released turn is not claimed either')
    for (const folder of ['here', 'a', 'b', 'c']) here.add(folder)
    assert.ok((await on.read((tx) => checkClaimable(tx, lease()))).hasClaimable)
    assert.equal((await claim())?.turn.folder, 'here')
    assert.equal((await claim())?.turn.folder, 'a')
  })

  test('renews a lease until it is lost', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.ask()
    const { turn } = await on.mustClaim()
    const renew = () => renewLease(on, turn)
    on.clock.advance(LEASE_MS - 1)
    assert.ok(await renew())
    on.clock.advance(LEASE_MS - 1)
    assert.equal(await on.claim(), undefined)
    on.clock.advance(1)
    await on.mustClaim()
    assert.equal(await renew(), undefined)
  })

  test('does not renew an expired lease if newer turns use up the limits', async (t) => {
    for (const limits of [{ turnsMax: 1 }, { turnsPerFolder: 1 }]) {
      const on = await openConversationHost(t, engine)
      await on.ask('first', { topic: 'a' })
      const { turn } = await on.mustClaim()
      // A turn that has lost its process before is claimed again only after a pause.
      await on.write((tx) => turns.update(tx, { id: turn.id }, { deaths: 1 }))
      on.clock.advance(LEASE_MS)
      await on.ask('second', { topic: 'b' })
      const { turn: newer } = await on.mustClaim(limits)
      assert.notEqual(newer.id, turn.id)
      assert.equal(await renewLease(on, turn, limits), undefined)
      assert.ok(await renewLease(on, turn, { turnsMax: 2, turnsPerFolder: 2 }))
    }
  })

  test('counts own turns whose leases look expired, and renews them', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.ask('first', { topic: 'a' })
    const { turn } = await on.mustClaim()
    on.clock.advance(10 * LEASE_MS)
    await on.ask('second', { topic: 'b' })
    const options = { now: on.clock.now(), leaseMs: LEASE_MS, ownTurnIds: new Set([turn.id]) }
    const rules = { ...on.host.rules, turnsMax: 1 }
    assert.equal(await on.write((tx) => claimTurn(tx, rules, options)), undefined)
    assert.ok(await on.write((tx) => renewTurn(tx, rules, options, turn)))
  })

  test('a released turn can be claimed immediately, and the attempt does not count', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.ask()
    const { turn } = await on.mustClaim()
    await on.write((tx) => releaseTurn(tx, turn))
    const again = await on.mustClaim()
    assert.deepEqual([again.turn.attempts, again.turn.fence], [1, 2])
    await on.write((tx) => releaseTurn(tx, turn))
    assert.equal(await on.claim(), undefined)
  })

  test('a retry waits for its time, and later messages of the conversation wait for the retry', async (t) => {
    const on = await openConversationHost(t, engine)
    const first = await on.ask('first')
    const { turn } = await on.mustClaim()
    const later = await on.ask('later')
    await on.write((tx) => retryTurn(tx, turn, on.clock.now() + 5000, 'no luck'))
    assert.equal(await on.claim(), undefined)
    on.clock.advance(5000)
    const again = await on.mustClaim()
    assert.deepEqual([again.turn.id, again.turn.attempts, again.messages.length], [first, 2, 1])
    await on.end(again.turn)
    assert.equal((await on.mustClaim()).turn.id, later)
  })

  test('a connection belongs to the turn it names, or to the only running turn', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.ask('a', { topic: 'a' })
    const { turn } = await on.mustClaim()
    assert.equal((await on.read((tx) => findTurnOfConnection(tx, 'main')))?.id, turn.id)
    assert.equal(await on.read((tx) => findTurnOfConnection(tx, 'other')), undefined)
    await assert.rejects(
      on.read((tx) => findTurnOfConnection(tx, 'other', { id: turn.id })),
      isRefusal('conflict'),
    )
    await on.ask('b', { topic: 'b' })
    await on.mustClaim()
    assert.equal(await on.read((tx) => findTurnOfConnection(tx, 'main')), undefined)
  })

  test('records only the first of several concurrent submissions', async (t) => {
    const on = await openConversationHost(t, engine)
    const id = await on.ask()
    await on.mustClaim()
    const models = [{ model: 'm', input_tokens: 1, output_tokens: 2, cost_cents: 3 }]
    const submission = { turn_id: id, session_id: 's1', result: 'done', models }
    await Promise.all(Array.from({ length: 5 }, () => on.submit('main', submission)))
    await on.submit('main', { ...submission, session_id: 's2', result: 'other' })
    assert.deepEqual(await on.frames(id), ['done'])
    assert.equal((await on.read((tx) => conversations.find(tx, { folder: 'main', topic: '' })))?.session_id, 's1')
    assert.deepEqual(
      (await on.read((tx) => costLog.list(tx))).map(({ turn_id, cost_cents, chat_jid }) => [
        turn_id,
        cost_cents,
        chat_jid,
      ]),
      [[id, 3, 'web:main']],
    )
    await assert.rejects(on.submit('main', { turn_id: 'none' }), isRefusal('not_found'))
    await assert.rejects(on.submit('other', { turn_id: id }), isRefusal('not_found'))
  })

  test('sends the result of a run only if the turn sent nothing and is not isolated', async (t) => {
    const on = await openConversationHost(t, engine)
    const [said, isolated] = [
      await on.ask('a', { topic: 'a' }),
      await on.ask('b', {
        topic: 'b',
        hasRound: false,
        envelope: { task_id: 'task-1', is_isolated: true, as_folder: 'main' },
      }),
    ]
    const [first, second] = [await on.mustClaim(), await on.mustClaim()]
    await on.say(first.turn, 'hm', { kind: 'status' })
    await on.say(first.turn, 'mine')
    await on.submit('main', { turn_id: said, result: 'not twice' })
    assert.deepEqual(await on.frames(said), ['hm', 'mine'])
    assert.deepEqual([second.turn.is_isolated, second.turn.is_timed, second.turn.task_id], [true, true, 'task-1'])
    await on.submit('main', { turn_id: isolated, result: 'not sent' })
    assert.equal((await on.turn(isolated)).replies, 0)
  })

  test('every message ends with one outcome, and so does its round', async (t) => {
    const on = await openConversationHost(t, engine)
    const ends = {
      answered: 'success',
      silent: 'success',
      observed: 'success',
      failed: 'failed',
      refused: 'failed',
    } as const
    for (const [outcome, status] of Object.entries(ends)) {
      const id = await on.ask('?', { topic: outcome })
      const { turn } = await on.mustClaim()
      await on.end(turn, { outcome: outcome as keyof typeof ends, reason: 'because' })
      const round = await on.round(id)
      assert.deepEqual(
        [round.status, round.error, (await on.state(id)).state],
        [status, status === 'failed' ? 'the agent could not answer; try again later' : undefined, outcome],
      )
      assert.equal((await on.state(id)).reason, 'because')
    }
    const log = await on.read((tx) => sessionLog.list(tx))
    assert.deepEqual(
      log.map(({ result, error }) => [result, error]),
      Object.entries(ends).map(([outcome, status]) => [outcome, status === 'failed' ? 'because' : undefined]),
    )
  })

  test('reports a failure in a platform chat, or in the round of a link', async (t) => {
    const on = await openConversationHost(t, engine)
    const id = await on.ask('link')
    await on.end((await on.mustClaim()).turn, { outcome: 'failed', reason: 'no', notice: 'No.' })
    assert.deepEqual(await on.frames(id), [])
    await on.ask('hook', { jid: 'hook:main/ci', hasRound: false })
    await on.end((await on.mustClaim()).turn, { outcome: 'failed', reason: 'no', notice: 'No hook.' })
    await on.ask('room', CHAT)
    await on.end((await on.mustClaim()).turn, { outcome: 'failed', reason: 'no', notice: 'No room.' })
    assert.deepEqual(
      (await on.read((tx) => outbox.list(tx, {}, [['message_seq', 'asc']]))).map(({ jid, state }) => [jid, state]),
      [
        ['hook:main/ci', 'sent'],
        ['sandbox:lobby', 'pending'],
      ],
    )
  })

  test('a delegated question is answered in its original chat, and its round waits for the answer', async (t) => {
    const on = await openConversationHost(t, engine)
    const question = await on.ask('ask the team')
    const parent = await on.mustClaim()
    const delegated = await on.delegate(parent.turn)
    await on.end(parent.turn, { outcome: 'silent' })
    assert.deepEqual([(await on.state(question)).state, (await on.round(question)).status], ['delegated', 'pending'])
    const child = await on.mustClaim()
    assert.deepEqual([child.turn.id, child.turn.jid, child.turn.depth], [delegated, 'web:main', 1])
    assert.equal(child.messages.length, 1)
    await on.say(child.turn, 'the answer')
    await on.end(child.turn)
    assert.deepEqual(await on.frames(question), ['the answer'])
    assert.deepEqual([(await on.state(question)).state, (await on.round(question)).status], ['answered', 'success'])
  })

  test('a running delegate turn takes over the rounds of the turn that delegated', async (t) => {
    const on = await openConversationHost(t, engine)
    const question = await on.ask('ask the team')
    const parent = await on.mustClaim()
    await on.delegate(parent.turn)
    const child = await on.mustClaim()
    await on.end(parent.turn, { outcome: 'silent' })
    await on.say(child.turn, 'the answer')
    await on.end(child.turn)
    assert.deepEqual(await on.frames(question), ['the answer'])
    assert.equal((await on.round(question)).status, 'success')
  })

  test('an answer belongs to the folder of its turn, even if the link now leads to another', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main', 'team', 'other')
    await on.ask('why?', { folder: 'team', jid: 'web:team/x' })
    const { turn } = await on.mustClaim()
    await addLink(on, 'web:team/x', { target_folder: 'other' })
    const { seq } = await on.say(turn, 'because')
    const folderOf = async (of: number) => (await on.read((tx) => messages.find(tx, { seq: of })))?.target_folder
    assert.equal(await folderOf(seq), 'team')
    // A message outside the turn belongs to the folder that the link leads to now.
    const own = await on.say(turn, 'hello', { turn_id: undefined })
    assert.equal(await folderOf(own.seq), 'other')
  })

  test('a folder pauses for a minute after three failures in a row and keeps its waiting messages', async (t) => {
    const on = await openConversationHost(t, engine)
    const fail = async () => on.end((await on.mustClaim()).turn, { outcome: 'failed', reason: 'no' })
    for (let n = 0; n < 2; n++) {
      await on.ask(`${n}`)
      await fail()
    }
    await on.ask('retrying', { topic: 'a' })
    const { turn } = await on.mustClaim()
    await on.ask('2')
    await fail()
    await on.write((tx) => retryTurn(tx, turn, on.clock.now(), 'no'))
    await on.ask('3')
    const check = () => on.read((tx) => checkClaimable(tx, { now: on.clock.now(), leaseMs: LEASE_MS }))
    for (const ms of [0, 59_999]) {
      on.clock.advance(ms)
      assert.equal(await on.claim(), undefined)
      assert.deepEqual(await check(), { hasClaimable: false, hasOpenBreaker: true })
    }
    assert.deepEqual(await on.read((tx) => listFoldersWithOpenBreaker(tx, on.clock.now())), ['main'])
    on.clock.advance(1)
    assert.deepEqual(await check(), { hasClaimable: true, hasOpenBreaker: false })
    assert.equal((await on.mustClaim()).turn.id, turn.id)
    const again = await on.mustClaim()
    assert.equal(again.refusal, undefined)
    await on.end(again.turn)
    assert.equal((await on.read((tx) => folderTurns.find(tx, { folder: 'main' })))?.failures, 0)
  })

  test('a turn engages the chat from its start, unless it belongs to a task', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.ask('hi', { ...CHAT, envelope: { platform_id: 'p1' } })
    const { turn } = await on.mustClaim()
    const engaged = (jid: string) => on.read((tx) => findLiveEngagement(tx, jid, '', on.clock.now()))
    assert.equal(await engaged('sandbox:lobby'), 'main')
    assert.equal(await on.read((tx) => findLastReplyId(tx, 'sandbox:lobby', '')), 'p1')
    await on.end(turn)
    on.clock.advance(30 * 60_000)
    assert.equal(await engaged('sandbox:lobby'), undefined)
    await on.ask('tick', { ...CHAT, jid: 'sandbox:other', sender: 'timed', envelope: { task_id: 't1' } })
    await on.mustClaim()
    assert.equal(await engaged('sandbox:other'), undefined)
  })

  test('a delegated turn does not engage the chat that it replies to', async (t) => {
    const on = await openConversationHost(t, engine)
    const envelope = { verb: 'delegate', depth: 1, return_jid: 'sandbox:lobby', as_folder: 'team' }
    await on.ask('please', { folder: 'team', jid: 'team', sender: 'delegate', hasRound: false, envelope })
    const { turn } = await on.mustClaim()
    assert.deepEqual([turn.jid, turn.is_guest], ['sandbox:lobby', true])
    await on.submit('team', { turn_id: turn.id, result: 'here' })
    assert.equal(await on.read((tx) => findLiveEngagement(tx, 'sandbox:lobby', '', on.clock.now())), undefined)
    assert.equal((await on.read((tx) => outbox.list(tx)))[0]?.jid, 'sandbox:lobby')
  })

  test('warns once at 80 percent of a budget, and a person whose budget is reserved does not delay others', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    await on.write(async (tx) => {
      await groups.update(tx, { folder: 'main' }, { cost_cap_cents_per_day: 10 })
      await users.insert(tx, { sub: 'github:1', cost_cap_cents_per_day: 1 })
    })
    // The first is a visitor's, who is told nothing about the budget.
    for (const [cents, asking] of [
      [8, {}],
      [1, { jid: 'sandbox:lobby', hasRound: false }],
      [1, { jid: 'sandbox:lobby', hasRound: false }],
    ] as const) {
      const id = await on.ask(`${cents}`, asking)
      const { turn } = await on.mustClaim()
      const models = [{ model: 'm', input_tokens: 0, output_tokens: 0, cost_cents: cents }]
      await on.submit('main', { turn_id: id, result: 'done', models })
      await on.end(turn)
    }
    const sent = await on.read((tx) => messages.list(tx, { direction: 'out' }, [['seq', 'asc']]))
    assert.deepEqual(
      sent.map(({ content }) => Buffer.from(content).toString()),
      ['done', 'done', "Today's budget is nearly spent; it starts again at 2026-01-02 00:00 UTC.", 'done'],
    )
    await on.write((tx) => groups.update(tx, { folder: 'main' }, { cost_cap_cents_per_day: undefined }))
    for (const topic of ['a', 'b']) await on.ask('mine', { topic, sender: 'github:1' })
    const other = await on.ask('theirs', { topic: 'c', sender: 'github:2' })
    assert.equal((await on.mustClaim()).turn.sender, 'github:1')
    assert.equal((await on.mustClaim()).turn.id, other)
  })

  test('reports a stop request when the lease is renewed', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.ask()
    const { turn } = await on.mustClaim()
    assert.equal(await on.write((tx) => stopTurns(tx, { folder: 'main', jid: 'web:else' })), 0)
    assert.equal(await on.write((tx) => stopTurns(tx, { folder: 'main', jid: 'web:main' })), 1)
    assert.equal((await renewLease(on, turn))?.is_stopping, true)
  })

  test('every message is in exactly one turn, whatever happens in between', async (t) => {
    const shared = await testHost(t, engine)
    let run = 0
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.record({ do: fc.constant('ask' as const), topic: fc.nat(2), folder: fc.nat(1) }) },
      { weight: 4, arbitrary: fc.record({ do: fc.constant('claim' as const) }) },
      { weight: 2, arbitrary: fc.record({ do: fc.constant('end' as const), at: fc.nat(3) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('retry' as const), at: fc.nat(3) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('die' as const) }) },
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const on = await openConversationHost(t, engine, shared)
        const prefix = `r${run++}`
        const ids: string[] = []
        let running: { id: string; fence: number }[] = []
        const claim = async () => {
          const claimed = await on.claim({ turnsMax: 1000, turnsPerFolder: 1000 })
          if (claimed) running.push(claimed.turn)
          return claimed !== undefined
        }
        for (const each of steps) {
          const one = 'at' in each ? running[each.at % Math.max(running.length, 1)] : undefined
          if (each.do === 'ask')
            ids.push(await on.ask('?', { folder: `${prefix}-${each.folder}`, topic: `${each.topic}` }))
          else if (each.do === 'claim') await claim()
          else if (each.do === 'die') {
            on.clock.advance(LEASE_MS)
          } else if (one && each.do === 'end') {
            await on.end(one)
            running = running.filter((other) => other !== one)
          } else if (one) {
            await on.write((tx) => retryTurn(tx, one, on.clock.now(), 'again'))
            running = running.filter((other) => other !== one)
          }
          const open = await on.read((tx) => turns.list(tx, { state: 'running' }))
          const keys = open.map(({ folder, topic }) => `${folder} ${topic}`)
          assert.equal(new Set(keys).size, keys.length, 'two turns in one conversation')
        }
        // Longer than the pause after the most deaths.
        on.clock.advance(LEASE_MS + 1000 * steps.length ** 2)
        while (await claim()) for (const turn of running.splice(0)) await on.end(turn)
        for (const id of ids) assert.equal((await on.state(id)).state, 'answered')
      }),
      { numRuns: engine === 'sqlite' ? 30 : 5 },
    )
  })
})

suite('batching messages', () => {
  const row = (of: Partial<WaitingMessage['row']>, rest: Partial<WaitingMessage> = {}): WaitingMessage => ({
    row: {
      message_seq: 1,
      id: 'm',
      jid: 'sandbox:a',
      topic: '',
      chat_topic: '',
      sender: 'sandbox:1',
      verb: 'message',
      state: 'waiting',
      updated_at: '2026-01-01T00:00:00.000Z',
      ...of,
    },
    envelope: undefined,
    bytes: 10,
    ...rest,
  })
  const envelope = (of: object): NonNullable<WaitingMessage['envelope']> => ({
    message_seq: 1,
    jid: 'x:y',
    verb: 'message',
    depth: 0,
    ...of,
  })
  const cases: [string, WaitingMessage[], number][] = [
    ['no messages form no turn', [], 0],
    ['consecutive messages of one sender form one turn', [row({}), row({}), row({ sender: 'sandbox:2' }), row({})], 2],
    ['also at a link', [row({ jid: 'web:a' }), row({ jid: 'web:a' }), row({ jid: 'web:a', sender: 'x' })], 2],
    ['a message for the root gets its own turn', [row({ verb: 'root' }), row({})], 1],
    ['a message for the root does not join the turn before it', [row({}), row({ verb: 'root' })], 1],
    ['messages of different reach form different turns', [row({ reach: 'all' }), row({ reach: 'chat' })], 1],
    ['messages of the same reach share a turn', [row({ reach: 'chat' }), row({ reach: 'chat' })], 2],
    ['messages of different chats form different turns', [row({}), row({ jid: 'sandbox:b' })], 1],
    ['messages of different topics form different turns', [row({}), row({ chat_topic: 'b' })], 1],
    ['a task message gets its own turn', [row({}, { envelope: envelope({ task_id: 't' }) }), row({})], 1],
    [
      'a message of another agent does not join the turn before it',
      [row({}), row({}, { envelope: envelope({ from_turn: 't' }) })],
      1,
    ],
    ['limits the content of a turn', [row({}, { bytes: 200_000 }), row({}, { bytes: 100_000 })], 1],
    ['a message above the limit forms a turn alone', [row({}, { bytes: 900_000 }), row({})], 1],
    ['limits a turn to a hundred messages', Array.from({ length: 150 }, () => row({})), 100],
  ]
  for (const [title, waiting, count] of cases) test(title, () => assert.equal(countBatch(waiting), count))
})
