import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
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
  const watchdog = new AcceptWatchdog(words, (fd) => ended.push(fd))
  return { guard: new AcceptGuard(words), watchdog, ended }
}

suite('the watchdog of accept', () => {
  test('shuts a listener down when the same accept is seen twice, and only once', () => {
    const { guard, watchdog, ended } = openStage()
    assert.ok(guard.enter(7))
    watchdog.look()
    assert.deepEqual(ended, [])
    watchdog.look()
    assert.deepEqual(ended, [7])
    watchdog.look()
    guard.leave()
    watchdog.look()
    assert.deepEqual(ended, [7])
    assert.ok(guard.enter(8))
  })

  test('leaves alone an accept that has returned, and one that has begun since', () => {
    const { guard, watchdog, ended } = openStage()
    assert.ok(guard.enter(7))
    watchdog.look()
    guard.leave()
    watchdog.look()
    assert.ok(guard.enter(7))
    watchdog.look()
    guard.leave()
    assert.ok(guard.enter(8))
    watchdog.look()
    guard.leave()
    assert.deepEqual(ended, [])
  })

  test('at the end of the process ends the accept under way and lets no other begin', () => {
    const { guard, watchdog, ended } = openStage()
    assert.ok(guard.enter(7))
    watchdog.close()
    guard.leave()
    assert.deepEqual(ended, [7])
    assert.equal(guard.enter(7), false)
  })
})
