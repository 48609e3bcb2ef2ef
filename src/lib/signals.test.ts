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
