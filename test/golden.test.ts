import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { GOLDEN } from './golden/write.ts'

const FOLDER = join(import.meta.dirname, 'golden')
const REMEDY = 'if the public surface was meant to change, run `npm run golden` and read the diff'

suite('what is public is what was reviewed', () => {
  for (const [path, make] of GOLDEN) {
    test(path, async () => {
      const file = join(FOLDER, path)
      const known = existsSync(file) ? readFileSync(file, 'utf8') : ''
      const made = await make()
      if (made === known) return
      // Where they part says more than both texts in full.
      const [before, now] = [known.split('\n'), made.split('\n')]
      const at = now.findIndex((line, index) => line !== before[index])
      const lines = `line ${at + 1} was "${before[at] ?? ''}" and is now "${now[at] ?? ''}"`
      assert.fail(`test/golden/${path} is not what is made now: ${lines}; ${REMEDY}`)
    })
  }

  test('no file is left over', () => {
    const made = GOLDEN.map(([path]) => join(FOLDER, path))
    const there = globSync('**/*', { cwd: FOLDER, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.endsWith('.ts'))
      .map((entry) => join(entry.parentPath, entry.name))
    assert.deepEqual(
      there.filter((file) => !made.includes(file)),
      [],
      'nobody makes these any more: delete them',
    )
  })
})
