import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { openConversationHost } from '../../../test/support/conversation-host.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { processes } from '../../core/processes/processes.ts'
import { claimTurn, listDueSuspects } from '../../core/turns/turn-claim.ts'
import { hasEnded, type ProcessIdentity, processIdentity } from '../../lib/process-identity.ts'
import { enterProcess } from './process-entry.ts'

const OWN = processIdentity()
const ENDED: ProcessIdentity = { ...OWN, start: '1' }

onEveryEngine('turns of a process that ended unexpectedly', (engine) => {
  async function open(t: Parameters<typeof openConversationHost>[0]) {
    const on = await openConversationHost(t, engine)
    await on.groups('main', 'team')
    /** Claims for a process with this identity. */
    const claimAs = async (identity: ProcessIdentity) => {
      const { id } = await enterProcess(on.host, [], identity)
      const claimed = await on.write((tx) =>
        claimTurn(tx, on.host.rules, { now: on.clock.now(), leaseMs: 10_000, process: id }),
      )
      return { id, turn: claimed?.turn }
    }
    const claimNext = (choice?: Parameters<typeof claimTurn>[2]['choice']) =>
      on.write((tx) => claimTurn(tx, on.host.rules, { now: on.clock.now(), leaseMs: 10_000, choice }))
    const suspects = () => on.read((tx) => listDueSuspects(tx, on.host.rules, { now: on.clock.now(), leaseMs: 10_000 }))
    return { ...on, claimAs, claimNext, suspects }
  }

  test('are suspects: due at once, and only for a process of their own', async (t) => {
    const on = await open(t)
    await on.ask('one')
    const { turn } = await on.claimAs(ENDED)
    assert.ok(turn)
    assert.deepEqual(await on.suspects(), [])
    await enterProcess(on.host, [], OWN)
    assert.deepEqual(await on.suspects(), [turn.id])
    assert.equal(await on.claimNext({ kind: 'innocent' }), undefined)
    assert.equal(await on.claimNext({ kind: 'turn', id: 'another' }), undefined)
    const claimed = await on.claimNext({ kind: 'turn', id: turn.id })
    assert.deepEqual([claimed?.turn.id, claimed?.turn.crashes, claimed?.turn.fence], [turn.id, 1, turn.fence + 1])
    assert.deepEqual(await on.suspects(), [])
  })

  test('wait while their folder has all turns that it may have', async (t) => {
    const on = await open(t)
    await on.ask('one', { topic: 'a' })
    const { turn } = await on.claimAs(ENDED)
    await enterProcess(on.host, [], OWN)
    for (const topic of ['b', 'c']) await on.ask('more', { topic })
    await on.claimNext({ kind: 'innocent' })
    assert.deepEqual(await on.suspects(), [turn?.id])
    await on.claimNext({ kind: 'innocent' })
    assert.deepEqual(await on.suspects(), [])
  })

  test('are claimed by any process after the second time, which ends them', async (t) => {
    const on = await open(t)
    await on.ask('one')
    await on.claimAs(ENDED)
    await enterProcess(on.host, [], OWN)
    const again = await on.claimAs({ ...ENDED, start: '2' })
    assert.equal(again.turn?.crashes, 1)
    await enterProcess(on.host, [], OWN)
    assert.deepEqual(await on.suspects(), [])
    on.clock.advance(1000)
    assert.equal((await on.claimNext({ kind: 'innocent' }))?.turn.crashes, 2)
  })

  test('are no suspects if the process runs, or ran on another machine, boot or host', async (t) => {
    for (const identity of [OWN, { ...ENDED, machine: 'another' }, { ...ENDED, machine: '' }]) {
      const on = await open(t)
      await on.ask('one')
      const { turn } = await on.claimAs(identity)
      await enterProcess(on.host, [], OWN)
      assert.deepEqual(await on.suspects(), [])
      assert.equal((await on.turn(turn?.id ?? '')).crashes, undefined)
    }
  })

  test('are no suspects if the process was stopped as intended', async (t) => {
    const on = await open(t)
    const entry = await enterProcess(on.host, [], ENDED)
    await on.ask('one')
    const claimed = await on.write((tx) =>
      claimTurn(tx, on.host.rules, { now: on.clock.now(), leaseMs: 10_000, process: entry.id }),
    )
    await entry.leave()
    await enterProcess(on.host, [], OWN)
    assert.equal((await on.turn(claimed?.turn.id ?? '')).crashes, undefined)
  })

  test('the row of a machine that has not come back for thirty days is removed', async (t) => {
    const on = await open(t)
    await enterProcess(on.host, [], { ...ENDED, machine: 'another' })
    const count = async () => (await on.read((tx) => processes.list(tx))).length
    on.clock.advance(30 * 24 * 3_600_000)
    const own = await enterProcess(on.host, [], OWN)
    assert.equal(await count(), 2)
    on.clock.advance(1)
    await own.findCrashes()
    assert.equal(await count(), 1)
  })
})

test('a process has ended when its id belongs to no process or to a later one, and when its container was started again', async () => {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
  await once(child, 'spawn')
  const { pid = 0 } = child
  const { start } = OWN
  assert.equal(hasEnded(OWN, OWN), false)
  assert.equal(hasEnded({ ...OWN, pid, start }, OWN), true)
  assert.equal(hasEnded({ ...OWN, namespace: 'pid:[1]' }, OWN), true)
  assert.equal(hasEnded({ ...OWN, namespace: 'pid:[1]', machine: 'x' }, OWN), false)
  assert.equal(hasEnded({ ...ENDED, machine: '' }, { ...OWN, machine: '' }), false)
  child.kill('SIGKILL')
  await once(child, 'exit')
  assert.equal(hasEnded({ ...OWN, pid }, OWN), true)
})
