import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { FAULT_EXIT_CODE } from '../../src/lib/fault-boundary.ts'
import { instance } from '../support/svc.ts'
import { processOf } from '../support/svc-processes.ts'
import { until } from '../support/until.ts'

/** Makes SIGUSR2 and SIGWINCH throw in svc. */
const env = { NODE_OPTIONS: `--import=${join(import.meta.dirname, '..', 'support', 'uncaught-fault.ts')}` }

const linesWith = (stderr: string, text: string): Record<string, unknown>[] =>
  stderr
    .split('\n')
    .filter((line) => line.includes(text))
    .map((line) => JSON.parse(line))

suite('an exception that no boundary catches', () => {
  for (const [signal, message] of [
    ['SIGUSR2', 'odd event'],
    ['SIGWINCH', 'odd promise'],
  ] as const)
    test(`ends svc serve with its own exit code and one line in the log: ${message}`, async (t) => {
      const { serve } = await instance(t)
      const { child, ended } = await serve(['routd'], env)
      child.kill(signal)
      const { code, stderr } = await ended
      assert.equal(code, FAULT_EXIT_CODE)
      const [line, ...more] = linesWith(stderr, message)
      assert.deepEqual(more, [])
      const { level, place, msg, err } = line ?? {}
      assert.deepEqual([level, place, msg], ['error', 'process', 'an exception was not caught; exiting'])
      assert.match((err as Error).stack ?? '', /^TypeError: odd [\s\S]*uncaught-fault\.ts/)
    })

  test('ends the front, which its parent starts again and logs why', async (t) => {
    const { serve } = await instance(t)
    const { child, urls, stop } = await serve([], env)
    const parent = child.pid ?? assert.fail()
    const front = await processOf(parent, 'front')
    process.kill(front, 'SIGUSR2')
    await processOf(parent, 'front', { not: [front] })
    const health = (): Promise<boolean> =>
      fetch(`${urls.get('proxyd')}/health`).then(
        ({ ok }) => ok,
        () => false,
      )
    await until(health)
    const { stderr } = await stop()
    assert.equal(linesWith(stderr, 'odd event').length, 1)
    const [restart] = linesWith(stderr, 'is started again')
    assert.deepEqual([restart?.process, restart?.reason], ['front', `it ended with exit code ${FAULT_EXIT_CODE}`])
  })
})
