// Acknowledged messages, and frames that a reader has seen, survive a power cut that loses all unsynced writes (P2, P7).
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { layout } from '../../src/core/layout.ts'
import { openEngine } from '../../src/store/index.ts'
import { readEvents } from '../support/event-reader.ts'
import { type Link, type LinkedInstance, openLinkedInstance } from '../support/linked-instance.ts'
import { type Comparison, compare, load, post } from '../support/load.ts'
import { needs } from '../support/needs.ts'
import { buildShim, type DiskFaults, UNSYNCED, type Unsynced, watchDisk } from '../support/power-cut/shim.ts'
import { type RepeatableRandom, repeatableRandom } from '../support/repeatable-random.ts'
import { svcProcesses } from '../support/svc-processes.ts'

const CLIENTS = 16
const ROUNDS = 6
const CONTROL_ROUNDS = 5
const [LEAST_MS, MOST_MS] = [50, 1200]
/** Small bodies, so that many share a commit, and large ones, so that checkpoints happen. */
const PADDINGS = [2000, 60_000]
/** Long enough for a reader to see what is not on disk yet. */
const SLOW_MS = 20

interface PowerCut extends Comparison {
  /** The data directory as it is on the disk. */
  readonly root: string
}

interface PowerCutSetup {
  readonly demo: LinkedInstance
  readonly link: Link
  readonly shim: string
  readonly by: RepeatableRandom
}

async function cutThePower(
  t: TestContext,
  { demo, link, shim, by }: PowerCutSetup,
  unsynced: Unsynced,
  faults: DiskFaults = {},
): Promise<PowerCut> {
  const root = demo.copy()
  const disk = watchDisk(t, shim, root, faults)
  const served = await demo.start({ root, env: disk.env })
  const most = PADDINGS[by.below(PADDINGS.length)] ?? 0
  const running = load(served.hook(link), { clients: CLIENTS, padding: () => by.below(most) })
  await running.begun
  await pause(by.between(LEAST_MS, MOST_MS))
  await served.kill()
  await running.ended
  const left = disk.cut(unsynced, by)
  const stored = await demo.inbound(link, left)
  const outcome = compare(
    [running],
    stored.map(({ content }) => content),
  )
  t.diagnostic(
    `${unsynced} of the unsynced writes kept: ${outcome.lost.length} of ${outcome.acknowledged} lost, bodies up to ${most}`,
  )
  return { ...outcome, root: left }
}

/** The runner writes frames, the front shows them to a stream and to a client that polls, and then both end. */
async function cutWhileReading(
  t: TestContext,
  { demo, link, shim, by }: PowerCutSetup,
  unsynced: Unsynced,
  faults: DiskFaults,
): Promise<{ readonly seen: number; readonly lost: readonly string[] }> {
  const root = demo.copy()
  const disk = watchDisk(t, shim, root, faults)
  const served = await demo.start({ root, env: disk.env })
  const seen = { stream: new Set<string>(), poll: new Set<string>() }
  const enough = by.between(5, 40)
  let roles: string[] | undefined
  const see = (ids: Set<string>, id: unknown): boolean => {
    // Of the end of a round.
    if (id !== undefined) ids.add(String(id))
    const isEnough = Object.values(seen).every(({ size }) => size >= enough)
    if (!isEnough) return false
    roles ??= svcProcesses(served.child.pid ?? 0).map(({ role }) => role)
    served.child.kill('SIGKILL')
    return true
  }
  const ask = async (topic: string): Promise<string> => {
    const body = new URLSearchParams({ content: '/count 500', topic })
    return Object(await (await fetch(served.chat(link), { method: 'POST', body })).json()).turn_id
  }
  const [streamed, polled] = [await ask('stream'), await ask('poll')]
  const reading = readEvents(served.chat(link, `${streamed}/sse`), {
    onEvent: ({ data }) => see(seen.stream, JSON.parse(data).id),
  })
  const poll = async (): Promise<void> => {
    for (let after = 0; ; ) {
      const { frames } = Object(await (await fetch(served.chat(link, `${polled}?after=${after}`))).json())
      for (const { id, seq } of frames) {
        after = seq
        see(seen.poll, id)
      }
    }
  }
  await Promise.all([reading, poll().catch(() => undefined)])
  // All of them have closed their output.
  await served.ended
  assert.deepEqual(roles?.sort(), ['front', 'runner'])
  const stored = new Set((await demo.query('select id from messages', disk.cut(unsynced, by))).map(({ id }) => id))
  const all = [...seen.stream, ...seen.poll]
  const lost = all.filter((id) => !stored.has(id))
  t.diagnostic(`${unsynced} of the unsynced writes kept: ${lost.length} of ${all.length} frames lost`)
  return { seen: all.length, lost }
}

/** What the next start would report as missing. */
async function findLosses(root: string): Promise<readonly string[] | undefined> {
  const engine = await openEngine({ path: layout(root).store })
  try {
    return await engine.lossWatch?.find()
  } finally {
    await engine.close()
  }
}

suite('a power cut', needs('compiler'), () => {
  test('loses no acknowledged message, and the server starts again', async (t) => {
    const demo = await openLinkedInstance(t)
    const link = await demo.mintHook('load')
    const setup = { demo, link, shim: buildShim(t), by: repeatableRandom(t) }
    for (let round = 0; round < ROUNDS; round++) {
      const cut = await cutThePower(t, setup, UNSYNCED[round % UNSYNCED.length] ?? 'none')
      assert.deepEqual([cut.lost, cut.doubled, cut.foreign, cut.refused], [[], [], [], []])
      assert.deepEqual(await findLosses(cut.root), [])
      assert.ok(cut.acknowledged > 0)
      if (round < ROUNDS - 1) continue
      const served = await demo.start({ root: cut.root })
      assert.equal((await post(served.hook(link), { body: 'again' })).statusCode, 204)
      await served.stop()
    }
  })

  test('loses no frame that the front has shown, though the runner wrote it', async (t) => {
    const demo = await openLinkedInstance(t)
    const setup = { demo, link: await demo.mintChat('frames'), shim: buildShim(t), by: repeatableRandom(t) }
    for (const unsynced of UNSYNCED) {
      const { seen, lost } = await cutWhileReading(t, setup, unsynced, { slowMs: SLOW_MS })
      assert.ok(seen > 0)
      assert.deepEqual(lost, [])
    }
  })

  test('control: loses messages when the log is not synced at each commit', async (t) => {
    const demo = await openLinkedInstance(t)
    const link = await demo.mintHook('load')
    const setup = { demo, link, shim: buildShim(t), by: repeatableRandom(t) }
    let lost = 0
    for (let round = 0; round < CONTROL_ROUNDS && lost === 0; round++)
      lost += (await cutThePower(t, setup, 'none', { lazy: '-wal' })).lost.length
    assert.ok(lost > 0)
  })
})
