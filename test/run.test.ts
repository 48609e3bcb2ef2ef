import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { describeSkips, readSkips } from './run.ts'
import { tempDir } from './support/temp.ts'

const RUN = join(import.meta.dirname, 'run.ts')
const NEEDS = JSON.stringify(join(import.meta.dirname, 'support/needs.ts'))

/** A tree with one test that passes and one that wants a part which no machine has: a path without any command. */
function smallTree(t: TestContext): string {
  const root = tempDir(t)
  mkdirSync(join(root, 'src'))
  writeFileSync(join(root, 'package.json'), '{"type": "module"}')
  writeFileSync(join(root, 'src/good.test.ts'), `import { test } from 'node:test'\ntest('good', () => {})\n`)
  writeFileSync(
    join(root, 'src/picky.test.ts'),
    `import { test } from 'node:test'
import { needs } from ${NEEDS}
process.env.PATH = ''
test('picky', needs('browser'), () => {})
`,
  )
  return root
}

function run(cwd: string, args: string[], more: Record<string, string> = {}) {
  // A runner inside a runner would report to the outer one instead of printing. The server is not asked for: this is
  // about the runner, and a shared address that nobody dials spares starting one.
  const { NODE_TEST_CONTEXT: _context, CI: _ci, ...env } = process.env
  const { status, stdout, stderr } = spawnSync(process.execPath, [RUN, ...args], {
    cwd,
    encoding: 'utf8',
    env: { SVC_TEST_POSTGRES: 'postgres://nobody@127.0.0.1:1/none', ...env, ...more },
  })
  return { status, stdout, stderr }
}

test('a missing part is skipped on a desk, and said at the end', (t) => {
  const { status, stdout } = run(smallTree(t), [])
  assert.equal(status, 0, stdout)
  assert.match(stdout, /^ℹ tests 2$/m)
  assert.match(stdout, /NOT TESTED: 1 skipped\n\nneeds browser: there is no chromium .*\n {2}- picky\n/)
})

test('a missing part fails on CI, and says what to install', (t) => {
  const { status, stdout, stderr } = run(smallTree(t), [], { CI: 'true' })
  assert.equal(status, 1)
  assert.match(stdout + stderr, /needs browser: .*apt-get install chromium/)
})

test('words narrow the files, flags go to the runner', (t) => {
  const { status, stdout } = run(smallTree(t), ['good', '--test-name-pattern=nothing is called so'])
  assert.equal(status, 0, stdout)
  assert.doesNotMatch(stdout, /picky|NOT TESTED|✔ good/)
})

test('a word that no file has is an error', (t) => {
  const { status, stderr } = run(smallTree(t), ['elsewhere'])
  assert.equal(status, 1)
  assert.match(stderr, /no test file matches: elsewhere/)
})

test('skips are read with their marks undone, and grouped by reason', () => {
  const skips = readSkips(
    'ok 1 - a \\# sign # SKIP why\n    ok 2 - inner # SKIP why\nok 3 - fine\nok 4 - bare # SKIP\n',
  )
  assert.deepEqual(skips, [
    { name: 'a # sign', reason: 'why' },
    { name: 'inner', reason: 'why' },
    { name: 'bare', reason: 'no reason given' },
  ])
  assert.match(
    describeSkips(skips),
    /NOT TESTED: 3 skipped\n\nwhy\n {2}- a # sign\n {2}- inner\n\nno reason given\n {2}- bare/,
  )
  assert.equal(describeSkips([]), '')
})
