import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { archiveOf } from './archive.ts'

test('writes archives that tar reads, whatever their size', (t) => {
  const folder = tempDir(t)
  const texts = { 'of/nothing': '', 'of/a-block': 'x'.repeat(512), 'of/more': `${'ü\n'.repeat(700)}end` }
  const files = Object.entries(texts).map(([path, text]) => ({ path, text }))
  execFileSync('tar', ['--extract', '--directory', folder], { input: archiveOf([{ path: 'of/', text: '' }, ...files]) })
  for (const [path, text] of Object.entries(texts)) assert.equal(readFileSync(join(folder, path), 'utf8'), text)
  assert.equal(statSync(join(folder, 'of/more')).mode & 0o777, 0o644)
  assert.equal(statSync(join(folder, 'of')).mode & 0o777, 0o755)
})
