import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, type TestContext, test } from 'node:test'
import { isRunFault } from '../../test/support/runtimes.ts'
import { toolSocket } from '../../test/support/tool-socket.ts'
import { until } from '../../test/support/until.ts'
import { systemClock } from '../lib/clock.ts'
import { WarmPool } from './warm-pool.ts'

/** Answers with its own process id; prints and waits as it is told. */
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
  const pool = new WarmPool({ clock: systemClock, argv, ...(idleMs === undefined ? {} : { idleMs }) })
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

suite('processes that wait for turns', () => {
  test('one serves turn after turn, and several at once are several', async (t) => {
    const { run } = await open(t)
    const first = await run()
    assert.equal(await run(), first)
    assert.equal(new Set(await Promise.all([run(), run(), run()])).size, 3)
  })

  test('one that is started ahead is used', async (t) => {
    const { pool, run } = await open(t)
    await pool.warm()
    const [one, other] = await Promise.all([run(), run()])
    assert.notEqual(one, other)
  })

  test('one that has closed a pipe serves turn after turn without adding listeners', async (t) => {
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

  test('one that nobody needs for a while is ended', async (t) => {
    const { run } = await open(t, 50)
    const first = await run()
    await until(() => !isAlive(first))
    assert.notEqual(await run(), first)
  })

  test('no more than a few are kept', async (t) => {
    const { run } = await open(t)
    const pids = await Promise.all(Array.from({ length: 10 }, () => run()))
    await until(() => pids.filter(isAlive).length <= 8)
  })

  test('one that dies costs its own turn, with what it said last, and is replaced', async (t) => {
    const { run } = await open(t)
    const first = await run()
    await assert.rejects(run({ die: 'out of tea' }), isRunFault('again', /out of tea/))
    assert.notEqual(await run(), first)
  })

  test('one that was ended while it waited is not asked', async (t) => {
    const { run } = await open(t)
    const first = await run()
    process.kill(first, 'SIGKILL')
    await until(() => !isAlive(first))
    // The word of its end may come a moment after it.
    await until(() =>
      run().then(
        (next) => next !== first,
        () => false,
      ),
    )
  })

  test('what it prints besides is in the log', async (t) => {
    const { run, job } = await open(t)
    await run({ print: 'a remark' })
    assert.equal(readFileSync(job().logFile, 'utf8'), 'a remark\n')
  })

  test('closing ends all of them, those at work too', async (t) => {
    const { pool, run } = await open(t)
    const idle = await run()
    const busy = assert.rejects(run({ wait: true }), isRunFault('again', /ended before/))
    await pool.close()
    await busy
    await until(() => !isAlive(idle))
  })
})
