import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { suite, type TestContext, test } from 'node:test'
import { until } from '../../test/support/until.ts'
import { type RunLimits, resourceLimits, tmpfsBytes } from './limits.ts'
import { describeOveruse, measureUsage, processTree, watchUsage } from './resource-usage.ts'

const NO_LIMITS: RunLimits = {
  processes: Number.POSITIVE_INFINITY,
  memoryBytes: Number.POSITIVE_INFINITY,
  files: Number.POSITIVE_INFINITY,
  cpuMs: Number.POSITIVE_INFINITY,
}

/** A program that prints a line when it is ready. */
async function start(t: TestContext, script: string): Promise<number> {
  const child = spawn('/bin/sh', ['-c', script], { stdio: ['ignore', 'pipe', 'inherit'], detached: true })
  const { pid } = child
  if (pid === undefined) assert.fail('it has a process id')
  t.after(() => process.kill(-pid, 'SIGKILL'))
  await once(child.stdout, 'data')
  return pid
}

const MEBIBYTE = 1_048_576
const HOLDING = `${process.execPath} -e "const held = Buffer.alloc(64 * ${MEBIBYTE}, 1); console.log('ready'); setInterval(() => held.length, 1000)"`

suite('resource usage of a run', () => {
  test('is the sum over its processes', async (t) => {
    const pid = await start(t, `sleep 100 & ${HOLDING} & wait`)
    const pids = await processTree(pid)
    assert.equal(pids.length, 3)
    const { memoryBytes } = await measureUsage(pids)
    assert.ok(memoryBytes > 64 * MEBIBYTE, String(memoryBytes))
    const at = (bytes: number): Promise<string | undefined> =>
      describeOveruse(pid, { ...NO_LIMITS, memoryBytes: bytes })
    assert.equal(await at(64 * MEBIBYTE), 'it used more than 64 MiB of memory')
    assert.equal(await at(1024 * MEBIBYTE), undefined)
  })

  test('includes processor time of exited children', async (t) => {
    const pid = await start(t, `${process.execPath} -e "while (process.cpuUsage().user < 300_000);"; echo; sleep 100`)
    const { cpuMs } = await measureUsage(await processTree(pid))
    assert.ok(cpuMs >= 200, String(cpuMs))
    assert.equal(await describeOveruse(pid, { ...NO_LIMITS, cpuMs: 100 }), 'it used more than 100ms of processor time')
  })

  test('is reported once when it exceeds a limit, and not after the watcher stopped', async (t) => {
    const pid = await start(t, HOLDING)
    const said: string[] = []
    const limits = { ...NO_LIMITS, memoryBytes: MEBIBYTE }
    const end = watchUsage(pid, limits, (sentence) => said.push(sentence))
    const unheard = watchUsage(pid, limits, assert.fail)
    unheard()
    await until(() => said.length > 0)
    end()
    assert.deepEqual(said, ['it used more than 1 MiB of memory'])
  })

  test('is zero for a process that has exited', async () => {
    assert.deepEqual(await measureUsage([2 ** 22 + 1]), { memoryBytes: 0, cpuMs: 0 })
  })
})

test('limits become resource limits, and missing ones are omitted', () => {
  const some = { processes: 10, memoryBytes: 1000, files: 20, cpuMs: 1500 }
  assert.deepEqual(
    [...resourceLimits(some)],
    [
      [4, 0],
      [0, 2],
      [2, 1000],
      [6, 10],
      [7, 20],
    ],
  )
  assert.deepEqual([...resourceLimits(NO_LIMITS)], [[4, 0]])
  assert.equal(tmpfsBytes({ ...some, memoryBytes: 8 * MEBIBYTE }), 2 * MEBIBYTE)
  assert.equal(tmpfsBytes(some), MEBIBYTE)
})
