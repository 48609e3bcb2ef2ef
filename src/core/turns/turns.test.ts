import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { LEASE_MS, openConversationHost } from '../../../test/support/conversation-host.ts'
import { isRefusal, onEveryEngineQuickly, testHost } from '../../../test/support/host.ts'
import { addLink } from '../../../test/support/rows.ts'
import { outbox } from '../delivery/outbox.ts'
import { groups } from '../groups/groups.ts'
import { messages } from '../messages/messages.ts'
import { findLiveEngagement, findLastReplyId } from '../routing/engagements.ts'
import { conversations, folderTurns, sessionLog } from './conversations.ts'
import { costLog, users } from './costs.ts'
import { countBatch, type WaitingMessage } from './message-batch.ts'
import { checkClaimable, claimTurn, foldersWithOpenBreaker } from './turn-claim.ts'
import { findTurnOfConnection, releaseTurn, renewTurn, retryTurn, stopTurns, turns } from './turns.ts'

const CHAT = { jid: 'sandbox:lobby', hasRound: false, target_folder: undefined }

onEveryEngineQuickly('turns', (engine) => {
  test('messages of one visitor that wait in one topic are one turn, and each of their rounds shows its frames and its end', async (t) => {
    const on = await openConversationHost(t, engine)
    const ids = [await on.ask('one'), await on.ask('two')]
    const stranger = await on.ask('three', { sender: 'anon:2' })
    const other = await on.ask('elsewhere', { topic: 'bills' })
    const { turn, messages: asked } = await on.mustClaim()
    assert.deepEqual([turn.id, turn.message_count], [ids[1], 2])
    assert.deepEqual(
      asked.map(({ message }) => Buffer.from(message.content).toString()),
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

  test('T2: one turn at a time in a conversation, two in a folder, and as many as the instance takes', async (t) => {
    const on = await openConversationHost(t, engine)
    for (const folder of ['a', 'b', 'c']) {
      for (const topic of ['x', 'y', 'z']) await on.ask('hi', { folder, topic })
    }
    await on.ask('again', { folder: 'a', topic: 'x', jid: 'web:a/other' })
    const running = []
    for (let n = 0; n < 4; n++) running.push(await on.mustClaim())
    assert.equal(await on.claim(), undefined, 'the instance takes four')
    const folders = Map.groupBy(running, ({ turn }) => turn.folder)
    assert.deepEqual([...folders.values()].map((of) => of.length).sort(), [1, 1, 2])
    const full = [...folders].find(([, of]) => of.length === 2)?.[0] ?? ''
    const more = await on.mustClaim({ turnsMax: 5 })
    assert.notEqual(more.turn.folder, full)
    const places = [...running, more].map(({ turn }) => `${turn.folder} ${turn.topic}`)
    assert.equal(new Set(places).size, places.length)
  })

  test('folders take turns: one with a thousand topics does not keep another waiting', async (t) => {
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

  test('of many who claim at once each turn goes to one', async (t) => {
    const on = await openConversationHost(t, engine)
    for (let n = 0; n < 8; n++) await on.ask('hi', { folder: `f${n}` })
    const claimed = await Promise.all(Array.from({ length: 8 }, () => on.claim({ turnsMax: 6 })))
    const ids = claimed.flatMap((each) => (each ? [each.turn.id] : []))
    assert.equal(ids.length, 6)
    assert.equal(new Set(ids).size, 6)
  })

  test('P9: a lease that ran out is somebody else’s, and whoever had it can end nothing', async (t) => {
    const on = await openConversationHost(t, engine)
    const id = await on.ask()
    const old = await on.mustClaim()
    await on.say(old.turn, 'one')
    on.clock.advance(LEASE_MS - 1)
    assert.equal(await on.claim(), undefined)
    on.clock.advance(1)
    const now = await on.mustClaim()
    assert.deepEqual([now.turn.id, now.turn.fence, now.turn.replies], [id, 2, 1])
    assert.deepEqual([now.turn.attempts, now.turn.deaths], [1, 1], 'the agent was asked once')
    assert.deepEqual(
      now.messages.map(({ row }) => row.id),
      [id],
    )
    assert.equal(await on.end(old.turn), false)
    await assert.rejects(on.submit('main', { turn_id: id, fence: 1, result: 'late' }), isRefusal('conflict'))
    await assert.rejects(
      on.read((tx) => findTurnOfConnection(tx, 'main', { id, fence: 1 })),
      isRefusal('conflict', 'somebody else'),
    )
    assert.equal((await on.read((tx) => findTurnOfConnection(tx, 'main', { id, fence: 2 })))?.id, id)
    assert.equal(await on.end(now.turn), true)
    assert.equal((await on.round(id)).status, 'success')
  })

  test('P28: a turn whose process died is taken up a lease later, although the clock was set back by ten minutes', async (t) => {
    const on = await openConversationHost(t, engine)
    const lookFor = () => on.read((tx) => checkClaimable(tx, { now: on.clock.now(), leaseMs: LEASE_MS }))
    await on.ask()
    await on.mustClaim()
    on.clock.advance(-600_000)
    assert.ok((await lookFor()).hasClaimable, 'a lease that ends too late is put right')
    assert.equal(await on.claim(), undefined)
    assert.ok(!(await lookFor()).hasClaimable)
    on.clock.advance(LEASE_MS - 1)
    assert.equal(await on.claim(), undefined)
    on.clock.advance(1)
    const { turn } = await on.mustClaim()
    assert.equal(turn.fence, 2)
    await on.write((tx) => retryTurn(tx, turn, on.clock.now() + 4000, 'no'))
    on.clock.advance(-600_000)
    assert.equal((await on.mustClaim()).turn.fence, 3, 'nor does a turn wait longer to be tried again')
  })

  test('P28: the process that runs a turn does not take it for lost when the clock was set forward', async (t) => {
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

  test('after each death of its process a turn waits for longer', async (t) => {
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

  test('a turn is taken up only where the workspace of its folder is', async (t) => {
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
    assert.equal(await claim(), undefined, 'nor is one that was begun elsewhere')
    for (const folder of ['here', 'a', 'b', 'c']) here.add(folder)
    assert.ok((await on.read((tx) => checkClaimable(tx, lease()))).hasClaimable)
    assert.equal((await claim())?.turn.folder, 'here')
    assert.equal((await claim())?.turn.folder, 'a')
  })

  test('a lease is renewed as long as it is held, and not after', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.ask()
    const { turn } = await on.mustClaim()
    const renew = () => on.write((tx) => renewTurn(tx, turn, on.clock.now() + LEASE_MS))
    on.clock.advance(LEASE_MS - 1)
    assert.ok(await renew())
    on.clock.advance(LEASE_MS - 1)
    assert.equal(await on.claim(), undefined)
    on.clock.advance(1)
    await on.mustClaim()
    assert.equal(await renew(), undefined)
  })

  test('what is given back can be taken at once, and the try does not count', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.ask()
    const { turn } = await on.mustClaim()
    await on.write((tx) => releaseTurn(tx, turn))
    const again = await on.mustClaim()
    assert.deepEqual([again.turn.attempts, again.turn.fence], [1, 2])
    await on.write((tx) => releaseTurn(tx, turn))
    assert.equal(await on.claim(), undefined)
  })

  test('a turn that is tried again waits its time, and what comes after it in the conversation waits for it', async (t) => {
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

  test('a turn of a folder is named by its connection, or is the only one', async (t) => {
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

  test('P10: a turn is submitted once, however often and at once it is said', async (t) => {
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

  test('what a run returns is said where it has said nothing itself, and not in an isolated one', async (t) => {
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
    await on.submit('main', { turn_id: isolated, result: 'nobody hears' })
    assert.equal((await on.turn(isolated)).replies, 0)
  })

  test('L14: a message that ends is one thing: answered, silent, failed, refused or observed, and so is its round', async (t) => {
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

  test('a failure is told in the chat of a platform, and at a link in the round', async (t) => {
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

  test('A7: what was delegated is answered in the chat that it came from, and its round waits for that', async (t) => {
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

  test('what was delegated while it already runs elsewhere is adopted by that turn', async (t) => {
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

  test('an answer belongs to the folder that was asked, also when the chat has become another’s meanwhile', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main', 'team', 'other')
    await on.ask('why?', { folder: 'team', jid: 'web:team/x' })
    const { turn } = await on.mustClaim()
    await addLink(on, 'web:team/x', { target_folder: 'other' })
    const { seq } = await on.say(turn, 'because')
    const folderOf = async (of: number) => (await on.read((tx) => messages.find(tx, { seq: of })))?.target_folder
    assert.equal(await folderOf(seq), 'team')
    // Said on one's own, it is for those who have the chat now.
    const own = await on.say(turn, 'hello', { turn_id: undefined })
    assert.equal(await folderOf(own.seq), 'other')
  })

  test('a folder whose agent fails three times in a row is left alone for a minute, and what waits there stays', async (t) => {
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
    const lookFor = () => on.read((tx) => checkClaimable(tx, { now: on.clock.now(), leaseMs: LEASE_MS }))
    for (const ms of [0, 59_999]) {
      on.clock.advance(ms)
      assert.equal(await on.claim(), undefined)
      assert.deepEqual(await lookFor(), { hasClaimable: false, hasOpenBreaker: true })
    }
    assert.deepEqual(await on.read((tx) => foldersWithOpenBreaker(tx, on.clock.now())), ['main'])
    on.clock.advance(1)
    assert.deepEqual(await lookFor(), { hasClaimable: true, hasOpenBreaker: false })
    assert.equal((await on.mustClaim()).turn.id, turn.id)
    const again = await on.mustClaim()
    assert.equal(again.refusal, undefined)
    await on.end(again.turn)
    assert.equal((await on.read((tx) => folderTurns.find(tx, { folder: 'main' })))?.failures, 0)
  })

  test('a chat stays with the folder that is asked there, from the start of the turn on; not for a schedule', async (t) => {
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

  test('whoever answers as a guest leaves the chat to whose it is', async (t) => {
    const on = await openConversationHost(t, engine)
    const envelope = { verb: 'delegate', depth: 1, return_jid: 'sandbox:lobby', as_folder: 'team' }
    await on.ask('please', { folder: 'team', jid: 'team', sender: 'delegate', hasRound: false, envelope })
    const { turn } = await on.mustClaim()
    assert.deepEqual([turn.jid, turn.is_guest], ['sandbox:lobby', true])
    await on.submit('team', { turn_id: turn.id, result: 'here' })
    assert.equal(await on.read((tx) => findLiveEngagement(tx, 'sandbox:lobby', '', on.clock.now())), undefined)
    assert.equal((await on.read((tx) => outbox.list(tx)))[0]?.jid, 'sandbox:lobby')
  })

  test('80 percent of a budget are told in the chat once, and a person who waits for money keeps nobody else waiting', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.groups('main')
    await on.write(async (tx) => {
      await groups.update(tx, { folder: 'main' }, { cost_cap_cents_per_day: 10 })
      await users.insert(tx, { sub: 'github:1', cost_cap_cents_per_day: 100 })
    })
    for (const cents of [8, 1]) {
      const id = await on.ask(`${cents}`)
      const { turn } = await on.mustClaim()
      const models = [{ model: 'm', input_tokens: 0, output_tokens: 0, cost_cents: cents }]
      await on.submit('main', { turn_id: id, result: 'done', models })
      await on.end(turn)
    }
    const said = await on.read((tx) => messages.list(tx, { direction: 'out' }, [['seq', 'asc']]))
    assert.deepEqual(
      said.map(({ content }) => Buffer.from(content).toString().slice(0, 30)),
      ['done', "Today's budget is nearly spent", 'done'],
    )
    await on.write((tx) => groups.update(tx, { folder: 'main' }, { cost_cap_cents_per_day: undefined }))
    for (const topic of ['a', 'b']) await on.ask('mine', { topic, sender: 'github:1' })
    const other = await on.ask('theirs', { topic: 'c', sender: 'github:2' })
    assert.equal((await on.mustClaim()).turn.sender, 'github:1')
    assert.equal((await on.mustClaim()).turn.id, other)
  })

  test('whoever is asked to stop is told so when it renews', async (t) => {
    const on = await openConversationHost(t, engine)
    await on.ask()
    const { turn } = await on.mustClaim()
    assert.equal(await on.write((tx) => stopTurns(tx, { folder: 'main', jid: 'web:else' })), 0)
    assert.equal(await on.write((tx) => stopTurns(tx, { folder: 'main', jid: 'web:main' })), 1)
    assert.equal((await on.write((tx) => renewTurn(tx, turn, on.clock.now() + 1)))?.is_stopping, true)
  })

  test('no message is ever in two turns or in none, whatever happens in between', async (t) => {
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
        const place = `r${run++}`
        const asked: string[] = []
        let held: { id: string; fence: number }[] = []
        const claim = async () => {
          const claimed = await on.claim({ turnsMax: 1000, turnsPerFolder: 1000 })
          if (claimed) held.push(claimed.turn)
          return claimed !== undefined
        }
        for (const each of steps) {
          const one = 'at' in each ? held[each.at % Math.max(held.length, 1)] : undefined
          if (each.do === 'ask')
            asked.push(await on.ask('?', { folder: `${place}-${each.folder}`, topic: `${each.topic}` }))
          else if (each.do === 'claim') await claim()
          else if (each.do === 'die') {
            on.clock.advance(LEASE_MS)
          } else if (one && each.do === 'end') {
            await on.end(one)
            held = held.filter((other) => other !== one)
          } else if (one) {
            await on.write((tx) => retryTurn(tx, one, on.clock.now(), 'again'))
            held = held.filter((other) => other !== one)
          }
          const open = await on.read((tx) => turns.list(tx, { state: 'running' }))
          const places = open.map(({ folder, topic }) => `${folder} ${topic}`)
          assert.equal(new Set(places).size, places.length, 'two turns in one conversation')
        }
        // A turn whose process died often waits longest.
        on.clock.advance(LEASE_MS + 1000 * steps.length ** 2)
        while (await claim()) for (const turn of held.splice(0)) await on.end(turn)
        for (const id of asked) assert.equal((await on.state(id)).state, 'answered')
      }),
      { numRuns: engine === 'sqlite' ? 30 : 5 },
    )
  })
})

suite('grouping', () => {
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
    ['nothing is no turn', [], 0],
    ['what one person says in a row is one turn', [row({}), row({}), row({ sender: 'sandbox:2' }), row({})], 2],
    ['at a link, too', [row({ jid: 'web:a' }), row({ jid: 'web:a' }), row({ jid: 'web:a', sender: 'x' })], 2],
    ['what is asked of the root is a turn of its own', [row({ verb: 'root' }), row({})], 1],
    ['a message for the root does not join a turn before it', [row({}), row({ verb: 'root' })], 1],
    ['messages of different reach are different turns', [row({ reach: 'all' }), row({ reach: 'chat' })], 1],
    ['messages of one reach share a turn', [row({ reach: 'chat' }), row({ reach: 'chat' })], 2],
    ['another chat is another turn', [row({}), row({ jid: 'sandbox:b' })], 1],
    ['another topic of the chat is another turn', [row({}), row({ chat_topic: 'b' })], 1],
    ['what a schedule asks is a turn of its own', [row({}, { envelope: envelope({ task_id: 't' }) }), row({})], 1],
    ['and nothing is put before it', [row({}), row({}, { envelope: envelope({ from_turn: 't' }) })], 1],
    ['so much content is enough', [row({}, { bytes: 200_000 }), row({}, { bytes: 100_000 })], 1],
    ['one that is larger than that is a turn all the same', [row({}, { bytes: 900_000 }), row({})], 1],
    ['a hundred messages are enough', Array.from({ length: 150 }, () => row({})), 100],
  ]
  for (const [title, waiting, count] of cases) test(title, () => assert.equal(countBatch(waiting), count))
})
