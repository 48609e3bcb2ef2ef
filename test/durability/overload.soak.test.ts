// Requests beyond the capacity of the store are refused instead of queued in memory without a bound (P17).
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { suite, test } from 'node:test'
import { startFaultyServer } from '../support/faulty-server.ts'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { compare, isAcknowledged, load, post, statuses } from '../support/load.ts'
import { measureMachineLoad } from '../support/machine-load.ts'
import { processOf } from '../support/svc-processes.ts'
import { until } from '../support/until.ts'

const CLIENTS = 500
const BODY_BYTES = 1_048_576 - 64
/** Longer than any request may wait. */
const LOCKED_MS = 7500
/** Less than the 500 MiB of all bodies, which the clients send repeatedly. */
const GROWTH_MIB = 430
const RECOVERY_MS = 2000

/** The peak memory of a process. */
function peakMib(pid: number | undefined): number {
  const kib = /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kib) / 1024
}

const options = process.platform === 'linux' ? {} : { skip: 'needs /proc, which only Linux has' }

suite('overload of the store', options, () => {
  test('is refused with 503 and Retry-After in bounded memory, and the server recovers quickly', async (t) => {
    const demo = await openLinkedInstance(t)
    const link = await demo.mintHook('load')
    const served = await demo.start()
    const url = served.hook(link)
    assert.equal((await post(url, { body: 'first' })).statusCode, 204)
    const front = await processOf(served.child.pid ?? 0, 'front')
    const before = peakMib(front)
    const lock = new DatabaseSync(join(demo.root, 'store', 'svc.db'), { timeout: 5000 })
    lock.exec('begin immediate')
    const lockedAt = performance.now()
    const running = load(url, { clients: CLIENTS, padding: () => BODY_BYTES, messages: CLIENTS * 2 })
    // Includes requests that are refused only after their timeout.
    await until(() => performance.now() - lockedAt > LOCKED_MS && running.sent.length > CLIENTS / 2)
    const whileLocked = statuses(running)
    lock.exec('rollback')
    const releasedAt = performance.now()
    lock.close()
    // One more client, in case all others have finished.
    const probe = load(url, { clients: 1 })
    const busy = await measureMachineLoad()
    await Promise.all([running.ended, probe.begun])
    await probe.stop()
    const growth = peakMib(front) - before
    const accepted = [...running.sent, ...probe.sent].filter(({ status }) => isAcknowledged(status))
    const recovery = (Math.min(...accepted.map(({ endedAt = 0 }) => endedAt)) - releasedAt) / busy
    t.diagnostic(`${JSON.stringify(whileLocked)}, then ${JSON.stringify(statuses(running))}`)
    t.diagnostic(`grew by ${Math.round(growth)} MiB from ${Math.round(before)}; back after ${Math.round(recovery)} ms`)
    await served.stop()

    assert.deepEqual(Object.keys(whileLocked), ['503'])
    assert.deepEqual(
      running.sent.filter(({ status, retryAfter }) => status === 503 && !(Number(retryAfter) > 0)),
      [],
    )
    assert.ok(growth < GROWTH_MIB, `the server grew by ${growth} MiB`)
    assert.ok(recovery < RECOVERY_MS, `${recovery} ms`)
    const stored = (await demo.inbound(link)).map(({ content }) => content)
    const { lost, doubled } = compare([running, probe], stored)
    assert.deepEqual([lost, doubled], [[], []])
  })

  test('control: makes a server grow that queues everything', async (t) => {
    const { child, url } = await startFaultyServer(t)
    const before = peakMib(child.pid)
    const running = load(url, { clients: CLIENTS, padding: () => BODY_BYTES })
    await until(() => peakMib(child.pid) - before > GROWTH_MIB)
    child.kill('SIGKILL')
    await running.ended
  })
})
