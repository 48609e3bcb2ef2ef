import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { testHost } from '../../test/support/host.ts'
import { spoken } from '../../test/support/spoken.ts'
import { tempDir } from '../../test/support/temp.ts'

const CHILD = join(import.meta.dirname, '../../test/support/search-child.ts')

test('a process that ends while an index is being filled closes it, and ends as it should', async (t) => {
  const folder = tempDir(t)
  const path = join(folder, 'svc.db')
  const on = await testHost(t, 'sqlite', { path, create: true })
  await on.groups('main', 'team')
  await (await spoken(t, 'sqlite', { on })).hear('something to find', { folder: 'team' })
  const { stdout } = await promisify(execFile)(process.execPath, [CHILD, path, folder])
  assert.equal(stdout, 'closed\n')
})
