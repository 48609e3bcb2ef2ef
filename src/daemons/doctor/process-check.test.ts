import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkProcesses } from './process-check.ts'

const AT = '2026-01-01T00:00:00.000Z'

test('an instance that no parent serves has no finding', () => {
  assert.deepEqual(checkProcesses(undefined), [])
  assert.deepEqual(checkProcesses([]), [])
})

test('names both processes, and one that has not been needed yet', () => {
  const [finding] = checkProcesses([
    { role: 'front', pid: 12, started_at: AT, restarts: 0 },
    { role: 'runner', restarts: 0 },
  ])
  assert.deepEqual(finding, {
    check: 'processes',
    status: 'ok',
    detail: 'front is process 12, runner starts with the first turn',
  })
})

test('says how often a process was started again, and why the last time', () => {
  const last_end = { at: AT, reason: 'it was ended by SIGKILL' }
  const [finding] = checkProcesses([
    { role: 'front', pid: 12, restarts: 1, last_end },
    { role: 'runner', pid: 13, restarts: 2, last_end },
  ])
  assert.equal(finding?.status, 'note')
  assert.equal(
    finding?.detail,
    `the front was started again once: it was ended by SIGKILL (${AT}); the runner was started again 2 times: it was ended by SIGKILL (${AT})`,
  )
})
