import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { test } from 'node:test'
import { countOpenFiles, openFileLimit, shareFiles } from './open-files.ts'

test('reads the open-files limit of this process', {
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

test('counts open files', { skip: process.platform !== 'linux' && 'another system than Linux' }, () => {
  const before = countOpenFiles()
  const fd = openSync('/dev/null', 'r')
  assert.equal(countOpenFiles(), before + 1)
  closeSync(fd)
})

test('reserves files for the rest of the process and two for each connection', () => {
  assert.deepEqual(shareFiles(65_536, 36), { transport: 65_372, refused: 256, connections: 32_558 })
  assert.deepEqual(shareFiles(1024, 24), { transport: 872, refused: 55, connections: 408 })
  assert.deepEqual(shareFiles(512 + 20, 20), { transport: 384, refused: 24, connections: 180 })
  assert.deepEqual(shareFiles(511 + 20, 20), { transport: 383, refused: 24, connections: 179 })
  assert.deepEqual(shareFiles(90, 26), { transport: 48, refused: 3, connections: 22 })
  // With fewer the proxy could not serve any client.
  assert.deepEqual(shareFiles(30, 26), { transport: 16, refused: 1, connections: 7 })
  assert.deepEqual(shareFiles(20, 26), { transport: 16, refused: 1, connections: 7 })
})
