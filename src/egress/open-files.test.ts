import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { openFileLimit } from './open-files.ts'

test('the limit of open files is the one that the system holds this process to', {
  skip: process.platform !== 'linux' && 'another system than Linux',
}, () => {
  const program = `import { openFileLimit } from ${JSON.stringify(import.meta.resolve('./open-files.ts'))}; console.log(openFileLimit())`
  const said = execFileSync('sh', [
    '-c',
    'ulimit -n 321; exec "$0" --input-type=module -e "$1"',
    process.execPath,
    program,
  ])
  assert.equal(Number(said), 321)
  assert.ok(openFileLimit() > 0)
})
