import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { throwUncaught } from '../../lib/fault-boundary.ts'
import { AcceptGuard, AcceptWatchdog, createGuardWords } from './accept-guard.ts'

interface Stage {
  readonly guard: AcceptGuard
  readonly watchdog: AcceptWatchdog
  /** Descriptors that were shut down. */
  readonly ended: number[]
}

function openStage(): Stage {
  const words = createGuardWords()
  const ended: number[] = []
  const watchdog = new AcceptWatchdog(words, (fd) => ended.push(fd), throwUncaught)
  return { guard: new AcceptGuard(words), watchdog, ended }
}

suite('the accept watchdog', () => {
  test('shuts a listener down once if the same accept is seen twice', () => {
    const { guard, watchdog, ended } = openStage()
    assert.ok(guard.enter(7))
    watchdog.check()
    assert.deepEqual(ended, [])
    watchdog.check()
    assert.deepEqual(ended, [7])
    watchdog.check()
    guard.leave()
    watchdog.check()
    assert.deepEqual(ended, [7])
    assert.ok(guard.enter(8))
  })

  test('ignores an accept that has returned or just started', () => {
    const { guard, watchdog, ended } = openStage()
    assert.ok(guard.enter(7))
    watchdog.check()
    guard.leave()
    watchdog.check()
    assert.ok(guard.enter(7))
    watchdog.check()
    guard.leave()
    assert.ok(guard.enter(8))
    watchdog.check()
    guard.leave()
    assert.deepEqual(ended, [])
  })

  test('on process exit interrupts the accept and prevents another one', () => {
    const { guard, watchdog, ended } = openStage()
    assert.ok(guard.enter(7))
    watchdog.close()
    guard.leave()
    assert.deepEqual(ended, [7])
    assert.equal(guard.enter(7), false)
  })
})
