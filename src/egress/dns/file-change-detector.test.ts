import assert from 'node:assert/strict'
import { rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { FileChangeDetector } from './file-change-detector.ts'

test('reports a settled file as unchanged until it changes', async (t) => {
  const path = join(tempDir(t), 'file')
  writeFileSync(path, 'one')
  const look = new FileChangeDetector(path)
  let nowMs = 0
  const hasChangedAfter = (ms: number): boolean => {
    nowMs += ms
    return look.hasChanged(nowMs)
  }
  assert.equal(hasChangedAfter(0), true)
  await until(() => !hasChangedAfter(1_000))
  assert.equal(hasChangedAfter(1_000), false)
  writeFileSync(path, 'two')
  assert.equal(hasChangedAfter(999), false)
  assert.equal(hasChangedAfter(1), true)
})

test('notices a change to a file with its old time restored', (t) => {
  const path = join(tempDir(t), 'file')
  writeFileSync(path, 'one')
  utimesSync(path, 1, 1)
  const look = new FileChangeDetector(path)
  assert.equal(look.hasChanged(0), true)
  writeFileSync(path, 'two')
  utimesSync(path, 1, 1)
  assert.equal(look.hasChanged(1_000), true)
})

test('notices that a missing file appears and disappears', (t) => {
  const path = join(tempDir(t), 'file')
  const look = new FileChangeDetector(path)
  assert.equal(look.hasChanged(0), true)
  assert.equal(look.hasChanged(1_000), false)
  writeFileSync(path, 'one')
  assert.equal(look.hasChanged(2_000), true)
  rmSync(path)
  assert.equal(look.hasChanged(3_000), true)
  assert.equal(look.hasChanged(4_000), false)
})
