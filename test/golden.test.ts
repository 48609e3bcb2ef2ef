// Compares the public surface (documents, help, schemas) with the reviewed copies in test/golden.
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { GOLDEN } from './golden/write.ts'

const FOLDER = join(import.meta.dirname, 'golden')
const REMEDY = 'if the public surface was meant to change, run `npm run golden` and read the diff'

suite('the public surface equals its golden file', () => {
  for (const [path, make] of GOLDEN) {
    test(path, async () => {
      const file = join(FOLDER, path)
      const known = existsSync(file) ? readFileSync(file, 'utf8') : ''
      const made = await make()
      if (made === known) return
      // Only the first difference: both texts are too long to print.
      const [before, now] = [known.split('\n'), made.split('\n')]
      const at = now.findIndex((line, index) => line !== before[index])
      const lines = `line ${at + 1} was "${before[at] ?? ''}" and is now "${now[at] ?? ''}"`
      assert.fail(`test/golden/${path} is out of date: ${lines}; ${REMEDY}`)
    })
  }

  test('there are no unused golden files', () => {
    const made = GOLDEN.map(([path]) => join(FOLDER, path))
    const there = globSync('**/*', { cwd: FOLDER, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.endsWith('.ts'))
      .map((entry) => join(entry.parentPath, entry.name))
    assert.deepEqual(
      there.filter((file) => !made.includes(file)),
      [],
      'no longer generated: delete these files',
    )
  })
})
