import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CommitSignals, type WorkKind } from './commit-signals.ts'

test('notifies every listener until it unsubscribes', () => {
  const signals = new CommitSignals()
  const heard: string[] = []
  const stop = signals.on((keys) => heard.push(`a ${keys?.join()}`))
  signals.on((keys) => heard.push(`b ${keys?.join()}`))
  signals.emit(['x', 'y'])
  stop()
  signals.emit()
  assert.deepEqual(heard, ['a x,y', 'b x,y', 'b undefined'])
})

test('concerns all work unless it names some', () => {
  const signals = new CommitSignals()
  const heard: (readonly WorkKind[])[] = []
  signals.on((_keys, work) => heard.push(work))
  signals.emit()
  signals.emit(['x'], ['outbox'])
  signals.emit(['x'], [])
  assert.deepEqual(heard, [['arrivals', 'turns', 'outbox'], ['outbox'], []])
})

test('concerns every reader without keys, and no reader with an empty list', () => {
  const signals = new CommitSignals()
  const heard: (readonly string[] | undefined)[] = []
  signals.on((keys) => heard.push(keys))
  signals.emit()
  signals.emit([])
  assert.deepEqual(heard, [undefined, []])
})

test('notifies the others when a listener throws, and reports the exception', () => {
  const faults: unknown[] = []
  const signals = new CommitSignals((error) => faults.push(error))
  const heard: string[] = []
  signals.on(() => {
    throw new TypeError('odd')
  })
  signals.on(() => heard.push('second'))
  signals.emit()
  signals.emit()
  assert.deepEqual(heard, ['second', 'second'])
  assert.deepEqual(faults.map(String), ['TypeError: odd', 'TypeError: odd'])
})
