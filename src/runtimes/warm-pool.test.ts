import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, type TestContext, test } from 'node:test'
import { isRunFault } from '../../test/support/runtimes.ts'
import { toolSocket } from '../../test/support/tool-socket.ts'
import { until } from '../../test/support/until.ts'
import { systemClock } from '../lib/clock.ts'
import { throwUncaught } from '../lib/fault-boundary.ts'
import { WarmPool } from './warm-pool.ts'

/** Answers each job with its process id; the job can make it print, exit or wait first. */
const AGENT = `
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { print, die, wait, mute } = JSON.parse(line)
    if (mute) require('node:fs').closeSync(2)
    if (print) console.log(print)
    if (die) { console.error(die); process.exit(3) }
    if (!wait) console.log(JSON.stringify({ outcome: { result: String(process.pid) } }))
  }).on('close', () => process.exit(0))`

async function open(t: TestContext, idleMs?: number) {
  const { job, home } = await toolSocket(t)
  const argv = [process.execPath, '-e', AGENT]
  const pool = new WarmPool({
    clock: systemClock,
    argv,
    onFault: throwUncaught,
    ...(idleMs === undefined ? {} : { idleMs }),
  })
  t.after(() => pool.close())
  const run = async (line: object = {}): Promise<number> => Number((await pool.run(job(), line)).result)
  return { pool, run, job, home }
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

suite('the pool of warm processes', () => {
  test('reuses an idle process and starts more for concurrent turns', async (t) => {
    const { run } = await open(t)
    const first = await run()
    assert.equal(await run(), first)
    assert.equal(new Set(await Promise.all([run(), run(), run()])).size, 3)
  })

  test('runs turns of different users in different processes', async (t) => {
    const { pool, job } = await open(t)
    const run = async (uid: number) => (await pool.run({ ...job(), user: { uid, gid: uid } }, {})).result
    const [one, other] = [await run(60_001), await run(60_002)]
    assert.notEqual(one, other)
    assert.deepEqual([await run(60_001), await run(60_002)], [one, other])
  })

  test('runs a turn in a process that was started in advance', async (t) => {
    const { pool, run } = await open(t)
    await pool.warm()
    const [one, other] = await Promise.all([run(), run()])
    assert.notEqual(one, other)
  })

  test('adds no listeners per turn to a process that closed a pipe', async (t) => {
    const warnings: Error[] = []
    const onWarning = (warning: Error): void => void warnings.push(warning)
    process.on('warning', onWarning)
    t.after(() => process.off('warning', onWarning))
    const { run } = await open(t)
    const first = await run({ mute: true })
    for (let turn = 0; turn < 20; turn++) assert.equal(await run(), first)
    await new Promise(setImmediate)
    assert.deepEqual(warnings, [])
  })

  test('stops a process that has been idle for too long', async (t) => {
    const { run } = await open(t, 50)
    const first = await run()
    await until(() => !isAlive(first))
    assert.notEqual(await run(), first)
  })

  test('keeps a limited number of idle processes', async (t) => {
    const { run } = await open(t)
    const pids = await Promise.all(Array.from({ length: 10 }, () => run()))
    await until(() => pids.filter(isAlive).length <= 8)
  })

  test('fails only the turn of a process that exits, with its last error, and replaces it', async (t) => {
    const { run } = await open(t)
    const first = await run()
    await assert.rejects(run({ die: 'out of tea' }), isRunFault('retryable', /out of tea/))
    assert.notEqual(await run(), first)
  })

  test('does not use a process that was killed while idle', async (t) => {
    const { run } = await open(t)
    const first = await run()
    process.kill(first, 'SIGKILL')
    await until(() => !isAlive(first))
    // The pool may learn of the exit a moment later.
    await until(() =>
      run().then(
        (next) => next !== first,
        () => false,
      ),
    )
  })

  test('writes other output of a process to the log of the turn', async (t) => {
    const { run, job } = await open(t)
    await run({ print: 'a remark' })
    assert.equal(readFileSync(job().logFile, 'utf8'), 'a remark\n')
  })

  test('close stops idle and busy processes', async (t) => {
    const { pool, run } = await open(t)
    const idle = await run()
    const busy = assert.rejects(run({ wait: true }), isRunFault('retryable', /exited early/))
    await pool.close()
    await busy
    await until(() => !isAlive(idle))
  })
})
