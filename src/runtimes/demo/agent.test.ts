import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, globSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'

const AGENT = join(import.meta.dirname, 'agent.ts')

test('writes its compile cache, which only the user of svc can write', (t) => {
  const cache = tempDir(t)
  chmodSync(cache, 0o700)
  const isRoot = process.getuid?.() === 0
  const args = [AGENT, ...(isRoot ? ['60000', '60000'] : [])]
  const { status, stderr } = spawnSync(process.execPath, args, {
    env: { NODE_COMPILE_CACHE: cache },
    input: '',
    encoding: 'utf8',
  })
  assert.equal(status, 0, stderr)
  assert.ok(globSync('*/*', { cwd: cache }).length >= 5)
})
