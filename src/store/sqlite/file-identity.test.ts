import assert from 'node:assert/strict'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { refusedAs } from '../things.contract.ts'
import { FileIdentity } from './file-identity.ts'

test('detects a removed or replaced file or log', (t) => {
  const dir = tempDir(t)
  const [path, other] = [join(dir, 'svc.db'), join(dir, 'other')]
  const changes = {
    'file removed': () => rmSync(path),
    'file replaced': () => {
      writeFileSync(other, '')
      renameSync(other, path)
    },
    'log removed': () => rmSync(`${path}-wal`),
  }
  for (const [name, change] of Object.entries(changes)) {
    for (const file of [path, `${path}-wal`]) writeFileSync(file, '')
    const identity = new FileIdentity(path)
    identity.requireUnchanged()
    writeFileSync(path, 'more')
    identity.requireUnchanged()
    change()
    assert.throws(() => identity.requireUnchanged(), refusedAs('unavailable', 'removed or replaced'), name)
  }
})
