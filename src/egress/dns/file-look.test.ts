import assert from 'node:assert/strict'
import { rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { FileLook } from './file-look.ts'

test('a file that has not changed for a while is said to be unchanged until it changes', async (t) => {
  const path = join(tempDir(t), 'file')
  writeFileSync(path, 'one')
  const look = new FileLook(path)
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

test('a file that is put back to its old time has changed all the same', (t) => {
  const path = join(tempDir(t), 'file')
  writeFileSync(path, 'one')
  utimesSync(path, 1, 1)
  const look = new FileLook(path)
  assert.equal(look.hasChanged(0), true)
  writeFileSync(path, 'two')
  utimesSync(path, 1, 1)
  assert.equal(look.hasChanged(1_000), true)
})

test('a file that is not there is unchanged until it comes, and changed when it goes', (t) => {
  const path = join(tempDir(t), 'file')
  const look = new FileLook(path)
  assert.equal(look.hasChanged(0), true)
  assert.equal(look.hasChanged(1_000), false)
  writeFileSync(path, 'one')
  assert.equal(look.hasChanged(2_000), true)
  rmSync(path)
  assert.equal(look.hasChanged(3_000), true)
  assert.equal(look.hasChanged(4_000), false)
})
