import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Timer, Wires } from '../wire.ts'
import { Deadline } from './deadline.ts'

/** Time that passes when it is told to. */
class Hours {
  now = 0
  made = 0
  #timers = new Map<() => void, number>()

  get wires(): Wires {
    const after = (ms: number, run: () => void): Timer => {
      this.made++
      this.#timers.set(run, this.now + ms)
      return { cancel: () => void this.#timers.delete(run) }
    }
    // A deadline asks for the time and for timers, and for nothing else.
    return { after, now: () => this.now } as unknown as Wires
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

test('a deadline that is moved before it is due never rings early, and needs no timer for it', () => {
  const hours = new Hours()
  let rung = 0
  const deadline = new Deadline(hours.wires, () => rung++)
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

test('one that is set to be sooner rings sooner', () => {
  const hours = new Hours()
  let rung = 0
  const deadline = new Deadline(hours.wires, () => rung++)
  deadline.set(100)
  deadline.set(10)
  hours.pass(10)
  assert.equal(rung, 1)
})

test('one that is cleared does not ring, and one that is cancelled leaves no timer', () => {
  const hours = new Hours()
  let rung = 0
  const deadline = new Deadline(hours.wires, () => rung++)
  deadline.set(10)
  deadline.clear()
  hours.pass(20)
  deadline.set(10)
  deadline.cancel()
  assert.equal(hours.open, 0)
  hours.pass(20)
  assert.equal(rung, 0)
})
