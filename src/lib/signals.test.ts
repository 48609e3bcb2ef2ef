import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Signals } from './signals.ts'

test('everybody who listens is told, until he stops', () => {
  const signals = new Signals()
  const heard: string[] = []
  const stop = signals.on((keys) => heard.push(`a ${keys.join()}`))
  signals.on((keys) => heard.push(`b ${keys.join()}`))
  signals.emit(['x', 'y'])
  stop()
  signals.emit()
  assert.deepEqual(heard, ['a x,y', 'b x,y', 'b '])
})

test('word is of work, unless it says that there is only something to read', () => {
  const signals = new Signals()
  const heard: boolean[] = []
  signals.on((_keys, isWork) => heard.push(isWork))
  signals.emit()
  signals.emit(['x'])
  signals.emit(['x'], false)
  assert.deepEqual(heard, [true, true, false])
})
