import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { suite, type TestContext, test } from 'node:test'
import { toolSocket } from '../../test/support/tool-socket.ts'
import { UnconfinedCell } from '../cell/unconfined-cell.ts'
import { systemClock } from '../lib/clock.ts'
import { readSettings } from '../lib/settings.ts'
import { runAgentProgram } from './agent-process.ts'
import type { Job } from './runtime.ts'
import type { RuntimeContext } from './runtime-context.ts'
import { RUNTIME_SETTINGS } from './settings.ts'
import { WarmPool } from './warm-pool.ts'

const NO_LIMITS = {
  processes: Number.POSITIVE_INFINITY,
  memoryBytes: Number.POSITIVE_INFINITY,
  files: Number.POSITIVE_INFINITY,
  cpuMs: Number.POSITIVE_INFINITY,
}

async function open(t: TestContext, given: Partial<Job> = {}) {
  const faults: unknown[] = []
  const context: RuntimeContext = {
    settings: readSettings(RUNTIME_SETTINGS, []),
    clock: systemClock,
    cell: async () => new UnconfinedCell(undefined, NO_LIMITS),
    network: { open: () => assert.fail('the network is open') },
    warn: (message) => assert.fail(message),
    onBackgroundError: (error) => faults.push(error),
  }
  const socket = await toolSocket(t)
  return { context, faults, job: (more: Partial<Job> = {}) => socket.job({ ...given, ...more }) }
}

const odd = (): never => {
  throw new TypeError('odd line')
}
// Would run for a minute if it was not stopped.
const PRINTS = ['sh', '-c', 'echo one; echo two >&2; exec sleep 60']

test('the log of a turn has what its program prints, without drafts', async (t) => {
  const { context, job } = await open(t)
  const run = job()
  const prints = 'printf "draft one\\nkept\\ndraft two\\n"; echo warned >&2; printf last'
  const texts: string[] = []
  await runAgentProgram(context, run, {
    argv: ['sh', '-c', prints],
    input: '',
    isDraft: (line) => line.startsWith('draft '),
    onLine: (line) => {
      texts.push(line)
      return undefined
    },
  })
  assert.deepEqual(texts, ['draft one', 'kept', 'draft two', 'last'])
  assert.deepEqual(readFileSync(run.logFile, 'utf8').split('\n').sort(), ['', 'kept', 'last', 'warned'])
})

suite('an exception while a run is going on', () => {
  for (const [what, program] of Object.entries({
    'of the handler of its lines': { onLine: odd },
    'of the handler of its text': { onText: odd },
  }))
    test(`${what} stops this run with the exception, and no other`, async (t) => {
      const { context, faults, job } = await open(t)
      const lines: string[] = []
      const other = runAgentProgram(context, job(), {
        argv: ['sh', '-c', 'read line; echo "$line"; echo end'],
        input: 'hello\n',
        onLine: (line) => {
          lines.push(line)
          return undefined
        },
      })
      await assert.rejects(
        runAgentProgram(context, job(), { argv: PRINTS, input: '', ...program }),
        (error) => error instanceof TypeError && error.message === 'odd line',
      )
      assert.equal((await other).code, 0)
      assert.deepEqual([lines, faults], [['hello', 'end'], []])
    })

  test('of the timer that looks for activity stops the run with the exception', async (t) => {
    const { context, job } = await open(t)
    const watched = job({ hangMs: 1, lastActivityAt: odd })
    await assert.rejects(runAgentProgram(context, watched, { argv: ['sleep', '60'], input: '' }), TypeError)
  })

  test('fails this run of a process that stays alive, and the next run gets another one', async (t) => {
    const { faults, job, context } = await open(t)
    const agent = `process.stdin.on('data', (line) => { if (!\`\${line}\`.includes('hang')) console.log('{"outcome":{"result":"ok"}}') })`
    const pool = new WarmPool({
      clock: systemClock,
      argv: [process.execPath, '-e', agent],
      onFault: (error) => context.onBackgroundError?.(error),
    })
    t.after(() => pool.close())
    const failing = pool.run(job({ hangMs: 1, lastActivityAt: odd }), { say: 'hang' })
    await assert.rejects(failing, (error) => error instanceof TypeError && error.message === 'odd line')
    assert.deepEqual(await pool.run(job(), {}), { result: 'ok' })
    assert.deepEqual(faults, [])
  })
})
