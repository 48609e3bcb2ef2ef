import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TcpTransport, Timer } from '../transport/transport.ts'
import { Deadline } from './deadline.ts'

/** A controllable clock. */
class Hours {
  now = 0
  made = 0
  #timers = new Map<() => void, number>()

  get transport(): TcpTransport {
    const after = (ms: number, run: () => void): Timer => {
      this.made++
      this.#timers.set(run, this.now + ms)
      return { cancel: () => void this.#timers.delete(run) }
    }
    // A deadline uses only the clock and timers.
    return { after, now: () => this.now } as unknown as TcpTransport
  }

  get open(): number {
    return this.#timers.size
  }

  pass(ms: number): void {
    for (const until = this.now + ms; this.now < until; ) {
      this.now++
      for (const [run, at] of [...this.#timers]) {
        if (at > this.now) continue
        this.#timers.delete(run)
        run()
      }
    }
  }
}

test('a deadline that is moved later never fires early and needs no new timer', () => {
  const hours = new Hours()
  let rung = 0
  const deadline = new Deadline(hours.transport, () => rung++)
  for (let turn = 0; turn < 100; turn++) {
    deadline.set(120)
    hours.pass(1)
    deadline.set(60)
    hours.pass(1)
  }
  assert.equal(rung, 0)
  assert.ok(hours.made < 10, `${hours.made} timers were made`)
  hours.pass(58)
  assert.equal(rung, 0)
  hours.pass(1)
  assert.equal(rung, 1)
  hours.pass(1000)
  assert.equal(rung, 1)
})

test('a deadline that is moved earlier fires earlier', () => {
  const hours = new Hours()
  let rung = 0
  const deadline = new Deadline(hours.transport, () => rung++)
  deadline.set(100)
  deadline.set(10)
  hours.pass(10)
  assert.equal(rung, 1)
})

test('a cleared deadline does not fire, and a cancelled one leaves no timer', () => {
  const hours = new Hours()
  let rung = 0
  const deadline = new Deadline(hours.transport, () => rung++)
  deadline.set(10)
  deadline.disarm()
  hours.pass(20)
  deadline.set(10)
  deadline.dispose()
  assert.equal(hours.open, 0)
  hours.pass(20)
  assert.equal(rung, 0)
})
