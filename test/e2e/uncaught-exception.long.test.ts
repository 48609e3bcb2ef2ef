import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { FAULT_EXIT_CODE } from '../../src/lib/fault-boundary.ts'
import { instance } from '../support/svc.ts'

const FAULTS = join(import.meta.dirname, '..', 'support', 'uncaught-fault.ts')

suite('an exception that no boundary catches', () => {
  for (const [signal, message] of [
    ['SIGUSR2', 'odd event'],
    ['SIGWINCH', 'odd promise'],
  ] as const)
    test(`ends svc serve with its own exit code and one line in the log: ${message}`, async (t) => {
      const { serve } = await instance(t)
      const { child, ended } = await serve([], { NODE_OPTIONS: `--import=${FAULTS}` })
      child.kill(signal)
      const { code, stderr } = await ended
      assert.equal(code, FAULT_EXIT_CODE)
      const lines = stderr.split('\n').filter((line) => line.includes(message))
      assert.equal(lines.length, 1, stderr)
      const { level, place, msg, err } = JSON.parse(lines[0] ?? '')
      assert.deepEqual([level, place, msg], ['error', 'process', 'an exception was not caught; exiting'])
      assert.match(err.stack, /^TypeError: odd [\s\S]*uncaught-fault\.ts/)
    })
})
