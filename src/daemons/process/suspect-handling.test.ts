import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openConversationHost } from '../../../test/support/conversation-host.ts'
import { EVERY_CAPABILITY, fakeAdapter } from '../../../test/support/fake-adapter.ts'
import { type EngineName, onEveryEngine } from '../../../test/support/host.ts'
import { addLink, postOf } from '../../../test/support/rows.ts'
import { run } from '../../../test/support/sql.ts'
import { until } from '../../../test/support/until.ts'
import { registerChannel } from '../../core/delivery/channel-registrations.ts'
import { DELIVERY_LEASE_MS } from '../../core/delivery/delivery.ts'
import { claimOutbox, claimSuspect, outbox, recordOutbound } from '../../core/delivery/outbox.ts'
import { noteDueSuspect } from '../../core/delivery/suspect-deliveries.ts'
import { inbox } from '../../core/messages/inbox.ts'
import { createLinkPostHandler } from '../../core/messages/link-inbound.ts'
import { noteNextSuspect, releaseSuspects, type SuspectWork, suspects } from '../../core/processes/suspects.ts'
import { scheduledTasks, taskRunLogs } from '../../core/schedule/tasks.ts'
import { readAttention } from '../../core/turns/attention.ts'
import { rounds } from '../../core/turns/rounds.ts'
import { DEFAULT_TURN_RULES } from '../../core/turns/turn-rules.ts'
import { timestamp } from '../../lib/clock.ts'
import { openLog } from '../../lib/log/log.ts'
import { processIdentity } from '../../lib/process-identity.ts'
import { OutboxWorker } from '../routd/outbox-worker.ts'
import { Router } from '../routd/router.ts'
import { Scheduler } from '../timed/scheduler.ts'
import { enterProcess } from './process-entry.ts'
import { SuspectHandling } from './suspect-handling.ts'

const OWN = processIdentity()
const DAEMONS = ['routd', 'timed']
const REASON = 'the process that ran it ended twice'
const linkPostHandler = createLinkPostHandler()

async function open(t: TestContext, engine: EngineName) {
  const on = await openConversationHost(t, engine)
  const { host, clock, read, write } = on
  await on.groups('main')
  await write((tx) => run(tx, 'delete from scheduled_tasks'))
  const link = await addLink(on, 'web:main')
  let starts = 0
  const enter = (daemons: readonly string[] = DAEMONS, own = OWN) => enterProcess(host, daemons, own)
  /** A process with this work that has ended unexpectedly. */
  const ended = (daemons?: readonly string[]) => enter(daemons, { ...OWN, start: String(++starts) })
  return {
    ...on,
    enter,
    ended,
    post: async (content: string): Promise<string> => {
      const post = postOf(on, link, { content: Buffer.from(content), hasRound: true })
      await write((tx) => linkPostHandler.run(tx, host.engine.dialect, [post]))
      await write((tx) => linkPostHandler.runDeferred(tx, host.engine.dialect))
      return post.id
    },
    addTask: async (id: string, cron?: string): Promise<string> => {
      const now = timestamp(clock.now())
      const row = { id, owner: 'main', chat_jid: 'main', context_mode: 'group', prompt: id, status: 'active' } as const
      await write((tx) => scheduledTasks.insert(tx, { ...row, next_run: now, created_at: now, cron }))
      return id
    },
    listed: async (work: SuspectWork) =>
      (await read((tx) => suspects.list(tx, { work }, [['position', 'asc']]))).map(({ id }) => id),
    /** A process that dies while it handles the next suspect. */
    dieAt: async (work: SuspectWork, count = 1): Promise<string | undefined> => {
      const { id } = await ended()
      let noted = await write((tx) => noteNextSuspect(tx, work, id))
      for (let done = 1; done < count; done++) noted = await write((tx) => noteNextSuspect(tx, work, id, noted))
      return noted?.id
    },
    /** The workers of a process that has just started. */
    start: async (stopping = new AbortController().signal) => {
      const { id } = await enter()
      const handling = new SuspectHandling({ host, process: id, stopping })
      const log = await openLog({ to: { write: () => {} } })
      const workers = [
        new OutboxWorker({ host, log, suspects: handling }),
        new Router({ host, assistantName: 'svc', suspects: handling }),
        new Scheduler({ host, log, suspects: handling }),
      ]
      t.after(() => Promise.all(workers.map((worker) => worker.close())))
      return handling
    },
  }
}

onEveryEngine('rows of a process that ended unexpectedly', (engine) => {
  test('messages that were not routed and tasks that are due become suspects, in their order', async (t) => {
    const on = await open(t, engine)
    const routed = await on.post('routed')
    await on.write((tx) => run(tx, 'update routing set last_seq = (select max(seq) from messages)'))
    const ids = [await on.post('one'), await on.post('two')]
    await on.addTask('due')
    on.clock.advance(10_000)
    await on.write((tx) => scheduledTasks.update(tx, { id: 'due' }, { next_run: timestamp(on.clock.now()) }))
    await on.addTask('later')
    await on.write((tx) => scheduledTasks.update(tx, { id: 'later' }, { next_run: timestamp(on.clock.now() + 1) }))
    await on.ended()
    await on.enter()
    assert.deepEqual(await on.listed('routing'), ids)
    assert.ok(!ids.includes(routed))
    assert.deepEqual(await on.listed('task'), ['due'])
  })

  test('only the work of its daemons is suspect, and none after a stop as intended', async (t) => {
    const on = await open(t, engine)
    const id = await on.post('one')
    await on.addTask('due')
    const stopped = await on.ended()
    await stopped.leave()
    await on.ended(['runed'])
    await on.enter()
    assert.deepEqual([await on.listed('routing'), await on.listed('task')], [[], []])
    await on.ended(['timed'])
    await on.enter()
    assert.deepEqual([await on.listed('routing'), await on.listed('task')], [[], ['due']])
    await on.ended(['routd'])
    await on.enter()
    assert.deepEqual([await on.listed('routing'), await on.listed('task')], [[id], ['due']])
  })

  test('innocent messages are routed, also after a start in between that was stopped', async (t) => {
    const on = await open(t, engine)
    const ids = [await on.post('one'), await on.post('two')]
    await on.ended()
    const stopped = await on.enter()
    await on.write((tx) => noteNextSuspect(tx, 'routing', stopped.id))
    await stopped.leave()
    const handling = await on.start()
    assert.deepEqual(await on.listed('routing'), ids)
    await handling.start()
    for (const id of ids) assert.equal((await on.state(id)).state, 'waiting')
    assert.deepEqual(await on.listed('routing'), [])
    assert.equal((await on.mustClaim()).turn.message_count, 2)
  })

  test('the message that was being routed at the second end is set aside, and its neighbours are routed', async (t) => {
    const on = await open(t, engine)
    const [first, bad, last] = [await on.post('one'), await on.post('two'), await on.post('three')]
    await on.ended()
    await on.enter()
    assert.equal(await on.dieAt('routing', 2), bad)
    await (await on.start()).start()
    const { state, reason, folder, reach } = await on.state(bad)
    assert.deepEqual([state, reason, folder, reach], ['failed', REASON, 'main', 'chat'])
    const round = await on.read((tx) => rounds.find(tx, { id: bad }))
    assert.deepEqual([round?.status, round?.error], ['failed', 'the agent could not answer; try again later'])
    for (const id of [first, last]) assert.equal((await on.state(id)).state, 'waiting')
    const { failed_messages } = await on.read((tx) => readAttention(tx, {}, on.clock.now()))
    assert.deepEqual(
      failed_messages.map(({ id, reason: shown }) => [id, shown]),
      [[bad, REASON]],
    )
  })

  test('a post at a hook that is set aside keeps the reach of hooks', async (t) => {
    const on = await open(t, engine)
    const hook = postOf(on, await addLink(on, 'hook:main/ci'), { content: Buffer.from('built'), sender: 'ci' })
    await on.write((tx) => linkPostHandler.run(tx, on.host.engine.dialect, [hook]))
    await on.write((tx) => linkPostHandler.runDeferred(tx, on.host.engine.dialect))
    await on.ended()
    await on.enter()
    assert.equal(await on.dieAt('routing'), hook.id)
    await on.enter()
    const { state, reach, topic } = await on.state(hook.id)
    assert.deepEqual([state, reach, topic], ['failed', 'work', ''])
  })

  test('a message that was routed before the second end is not set aside', async (t) => {
    const on = await open(t, engine)
    const id = await on.post('one')
    await (await on.start()).start()
    await until(async () => (await on.read((tx) => inbox.list(tx))).length === 1)
    const { id: process } = await on.ended()
    await on.write((tx) => suspects.insert(tx, { work: 'routing', id, position: 1, process }))
    await on.enter()
    assert.equal((await on.state(id)).state, 'waiting')
    assert.deepEqual(await on.listed('routing'), [])
  })

  test('the task that was being fired at the second end is paused, and others are fired once', async (t) => {
    const on = await open(t, engine)
    for (const id of ['a', 'bad', 'c']) await on.addTask(id, '60000')
    await on.ended()
    await on.enter()
    assert.equal(await on.dieAt('task', 2), 'bad')
    await (await on.start()).start()
    const task = (id: string) => on.read((tx) => scheduledTasks.find(tx, { id }))
    assert.equal((await task('bad'))?.status, 'paused')
    const logs = await on.read((tx) => taskRunLogs.list(tx))
    assert.deepEqual(
      logs.filter(({ task_id }) => task_id === 'bad').map(({ status, error }) => [status, error]),
      [['error', REASON]],
    )
    for (const id of ['a', 'c']) {
      assert.equal((await task(id))?.status, 'active')
      assert.equal(logs.filter(({ task_id }) => task_id === id).length, 1)
    }
    const { failed_tasks } = await on.read((tx) => readAttention(tx, {}, on.clock.now()))
    assert.deepEqual(
      failed_tasks.map(({ task_id, reason }) => [task_id, reason]),
      [['bad', REASON]],
    )
  })

  test('a delivery that had begun is sent alone when its lease expires, and set aside after the second end', async (t) => {
    const on = await open(t, engine)
    const { host, clock } = on
    const adapter = await fakeAdapter(t, { isKeyed: true })
    const capabilities = { ...EVERY_CAPABILITY, dedupe: true }
    const teled = { name: 'teled', url: adapter.url, jid_prefixes: ['telegram:'], capabilities }
    await on.write((tx) => registerChannel(tx, host, teled))
    const record = async (chat: number) => {
      const out = { jid: `telegram:group/${chat}`, topic: '', folder: 'main', content: `to ${chat}` }
      const context = { dialect: host.engine.dialect, clock, random: host.random }
      return (await on.write((tx) => recordOutbound(tx, context, DEFAULT_TURN_RULES, out))).id
    }
    const states = async () => (await on.read((tx) => outbox.list(tx))).map(({ state }) => state)
    const claim = { now: clock.now(), forMs: DELIVERY_LEASE_MS, limit: 9 }
    const [one, two] = [await record(1), await record(2)]
    await on.ended()
    assert.equal((await on.write((tx) => claimOutbox(tx, claim))).length, 2)
    const waiting = await record(3)
    await on.enter()
    assert.deepEqual(await on.listed('delivery'), [one, two, waiting])
    const later = { ...claim, now: clock.now() + DELIVERY_LEASE_MS }
    assert.deepEqual(await on.write((tx) => claimOutbox(tx, later)), [])
    clock.advance(DELIVERY_LEASE_MS)
    // The second process ends while it sends the first one.
    const second = await on.ended()
    const noted = await on.write((tx) => noteDueSuspect(tx, later.now, second.id))
    assert.equal(noted?.id, one)
    assert.equal((await on.write((tx) => noteDueSuspect(tx, later.now, 'another')))?.id, two)
    await on.write((tx) => releaseSuspects(tx, 'another'))
    assert.equal((await on.write((tx) => claimSuspect(tx, later, one)))?.isUnclear, true)
    const handling = await on.start()
    assert.deepEqual(await states(), ['failed', 'sending', 'pending'])
    await handling.start()
    await until(async () => (await states()).every((state) => ['failed', 'sent'].includes(state)))
    assert.deepEqual(await states(), ['failed', 'sent', 'sent'])
    const [row] = await on.read((tx) => outbox.list(tx))
    assert.equal(row?.error, REASON)
    assert.deepEqual(adapter.delivered.map(({ content }) => content).toSorted(), ['to 2', 'to 3'])
    await until(async () => (await on.listed('delivery')).length === 0)
    const { failed_deliveries } = await on.read((tx) => readAttention(tx, {}, clock.now()))
    assert.deepEqual(
      failed_deliveries.map(({ id, reason }) => [id, reason]),
      [[one, REASON]],
    )
  })

  test('suspects wait while the process stops', async (t) => {
    const on = await open(t, engine)
    const id = await on.post('one')
    await on.ended()
    await (await on.start(AbortSignal.abort())).start()
    assert.deepEqual(await on.listed('routing'), [id])
    assert.deepEqual(await on.read((tx) => inbox.list(tx)), [])
  })
})
