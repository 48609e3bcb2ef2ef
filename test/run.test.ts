import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { describeSkips, findTests, readSkips, stallDetector } from './run.ts'
import { hasLongPart } from './support/part.ts'
import { tempDir } from './support/temp.ts'

const RUN = join(import.meta.dirname, 'run.ts')
const PART = JSON.stringify(join(import.meta.dirname, 'support/part.ts'))
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
  const { NODE_TEST_CONTEXT: _context, CI: _ci, SVC_TEST_PART: _part, ...env } = process.env
  const { status, stdout, stderr } = spawnSync(process.execPath, [RUN, ...args], {
    cwd,
    encoding: 'utf8',
    // Only a runner that hangs takes so long.
    timeout: 120_000,
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

/** A tree with a quick file, a long one, and one that has both: each names the times that its loop is tried. */
function twoParts(t: TestContext): string {
  const root = tempDir(t)
  mkdirSync(join(root, 'src'))
  writeFileSync(join(root, 'package.json'), '{"type": "module"}')
  const tests = {
    'a.test.ts': `test('quick alone', () => {})`,
    'b.long.test.ts': `test('long alone: ' + isIn('quick') + isIn('long'), () => {})`,
    'c.test.ts': `test('both, ' + runs(2, 2000) + ' times: ' + isIn('quick') + isIn('long'), () => {})`,
  }
  for (const [name, source] of Object.entries(tests))
    writeFileSync(
      join(root, 'src', name),
      `import { test } from 'node:test'\nimport { isIn, runs } from ${PART}\nvoid [isIn, runs]\n${source}\n`,
    )
  return root
}

function passed(stdout: string): string[] {
  return [...stdout.matchAll(/^✔ (.*) \(/gm)].map(([, name = '']) => name)
}

test('the quick and the long part are two commands, and a file that is named runs whole', (t) => {
  const root = twoParts(t)
  assert.deepEqual(passed(run(root, []).stdout), ['quick alone', 'both, 2 times: truefalse'])
  assert.deepEqual(passed(run(root, ['--long']).stdout), ['long alone: truetrue', 'both, 2000 times: falsetrue'])
  assert.deepEqual(passed(run(root, ['src/c']).stdout), ['both, 2 times: truetrue'])
  assert.deepEqual(passed(run(root, ['src/b', '--long']).stdout), ['long alone: truetrue'])
})

test('every test file belongs to one of the two commands, and to both only where it says what the long one adds', () => {
  const [quick, long] = [findTests('quick'), findTests('long')]
  assert.deepEqual([...new Set([...quick, ...long])].sort(), findTests())
  for (const file of long) {
    if (quick.includes(file)) assert.ok(hasLongPart(readFileSync(file, 'utf8')), file)
    else assert.match(file, /\.long\.test\.ts$/)
  }
  assert.ok(quick.length > long.length && long.length > 0)
})

test('a word that no file has is an error', (t) => {
  const { status, stderr } = run(smallTree(t), ['elsewhere'])
  assert.equal(status, 1)
  assert.match(stderr, /no test file matches: elsewhere/)
})

test('a run in which nothing ends any more is ended, and names the file that hangs', (t) => {
  const root = smallTree(t)
  const hangs = `import { test } from 'node:test'\ntest('done', () => {})\nsetInterval(() => {}, 1000)\n`
  writeFileSync(join(root, 'src/hangs.test.ts'), hangs)
  const { status, stdout } = run(root, ['hangs'], { SVC_TEST_SILENCE_MS: '3000' })
  assert.equal(status, 1, stdout)
  assert.match(stdout, /Interrupted while running:\s+⚠ src\/hangs\.test\.ts/)
})

test('only a report that has not grown for longer than the limit is stalled', () => {
  const isStalled = stallDetector(1000)
  const told = [
    [0, 0],
    [0, 1000],
    [5, 1001],
    [5, 2001],
    [6, 2002],
    [6, 3002],
    [6, 3003],
    [7, 9000],
  ].map(([size = 0, now = 0]) => isStalled(size, now))
  assert.deepEqual(told, [false, false, false, false, false, false, true, false])
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
