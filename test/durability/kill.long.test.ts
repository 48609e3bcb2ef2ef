// Acknowledged messages survive a kill of the process at any moment (P1).
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { suite, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { startFaultyServer } from '../support/faulty-server.ts'
import { onEveryEngine } from '../support/host.ts'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { compare, type Load, load } from '../support/load.ts'
import { measureMachineLoad } from '../support/machine-load.ts'
import { repeatableRandom } from '../support/repeatable-random.ts'
import { tempDir } from '../support/temp.ts'

const CLIENTS = 16
const ROUNDS = 4
/** Delay of the kill after the first acknowledged message. */
const [LEAST_MS, MOST_MS] = [50, 1200]
const RESTART_MS = 2000

onEveryEngine('a killed process', (engine) => {
  test('neither loses nor duplicates acknowledged messages, and restarts quickly', async (t) => {
    const by = repeatableRandom(t)
    const demo = await openLinkedInstance(t, engine)
    const link = await demo.mintHook('load')
    const loads: Load[] = []
    const restarts: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const busy = await measureMachineLoad()
      const startedAt = performance.now()
      const served = await demo.start()
      const running = load(served.hook(link), { clients: CLIENTS, padding: () => by.below(2000) })
      loads.push(running)
      await running.begun
      restarts.push((performance.now() - startedAt) / busy)
      await pause(by.between(LEAST_MS, MOST_MS))
      await served.kill()
      await running.ended

      const stored = await demo.inbound(link)
      const { lost, doubled, foreign, refused, unanswered, acknowledged } = compare(
        loads,
        stored.map(({ content }) => content),
      )
      t.diagnostic(`round ${round}: ${acknowledged} acknowledged, ${unanswered} stored without an answer`)
      assert.deepEqual({ lost, doubled, foreign, refused }, { lost: [], doubled: [], foreign: [], refused: [] })
      assert.ok(unanswered <= CLIENTS * loads.length)
      assert.ok(acknowledged > 0)
    }
    t.diagnostic(
      `from start to the first 204, corrected for the load of the machine: ${restarts.map(Math.round).join(', ')} ms`,
    )
    assert.ok(Math.min(...restarts.slice(1)) < RESTART_MS)
  })
})

suite('the kill test itself', () => {
  test('detects messages lost by a server that responds before its commit', async (t) => {
    const by = repeatableRandom(t)
    let lost = 0
    for (let round = 0; round < 10 && lost === 0; round++) {
      const path = join(tempDir(t), 'careless.db')
      const { child, url } = await startFaultyServer(t, path)
      const running = load(url, { clients: CLIENTS })
      await running.begun
      await pause(by.between(LEAST_MS, LEAST_MS * 4))
      child.kill('SIGKILL')
      await running.ended
      const db = new DatabaseSync(path)
      const stored = db.prepare('select content from messages').all()
      db.close()
      const outcome = compare(
        [running],
        stored.map(({ content }) => (content instanceof Uint8Array ? content : assert.fail())),
      )
      lost = outcome.lost.length
      t.diagnostic(`${lost} of ${outcome.acknowledged} lost`)
    }
    assert.ok(lost > 0)
  })

  test('detects duplicated, foreign and refused messages', async () => {
    const sent = [
      { name: 'a', startedAt: 0, status: 204 },
      { name: 'b', startedAt: 0, status: 503 },
      { name: 'c', startedAt: 0 },
    ]
    const outcome = compare(
      [{ sent }],
      ['a x', 'a x', 'b x', 'c x', 'd x'].map((text) => Buffer.from(text)),
    )
    assert.deepEqual(outcome, {
      lost: [],
      doubled: ['a'],
      foreign: ['d'],
      refused: ['b'],
      unanswered: 1,
      acknowledged: 1,
    })
  })
})
