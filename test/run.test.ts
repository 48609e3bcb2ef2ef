// The test runner of test/run.ts: selecting files, skips, and stalled runs.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { describeSkips, findTests, groupTests, readSkips, SLOWEST, stallDetector } from './run.ts'
import { hasLongPart } from './support/part.ts'
import { tempDir } from './support/temp.ts'

const RUN = join(import.meta.dirname, 'run.ts')
const PART = JSON.stringify(join(import.meta.dirname, 'support/part.ts'))
const NEEDS = JSON.stringify(join(import.meta.dirname, 'support/needs.ts'))

/** A tree with a passing test and one that needs a browser but has an empty PATH. */
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
  // With NODE_TEST_CONTEXT the inner runner would report to the outer one instead of printing. The unused PostgreSQL
  // address keeps the runner from starting a server.
  const { NODE_TEST_CONTEXT: _context, CI: _ci, SVC_TEST_PART: _part, ...env } = process.env
  const { status, stdout, stderr } = spawnSync(process.execPath, [RUN, ...args], {
    cwd,
    encoding: 'utf8',
    // Reached only if the runner hangs.
    timeout: 120_000,
    env: { SVC_TEST_POSTGRES: 'postgres://nobody@127.0.0.1:1/none', ...env, ...more },
  })
  return { status, stdout, stderr }
}

test('skips a test with a missing requirement and lists it at the end', (t) => {
  const { status, stdout } = run(smallTree(t), [])
  assert.equal(status, 0, stdout)
  assert.match(stdout, /^ℹ tests 2$/m)
  assert.match(stdout, /NOT TESTED: 1 skipped\n\nneeds browser: there is no chromium .*\n {2}- picky\n/)
})

test('fails on CI when a requirement is missing and says what to install', (t) => {
  const { status, stdout, stderr } = run(smallTree(t), [], { CI: 'true' })
  assert.equal(status, 1)
  assert.match(stdout + stderr, /needs browser: .*apt-get install chromium/)
})

test('words select files and flags are passed to the Node runner', (t) => {
  const { status, stdout } = run(smallTree(t), ['good', '--test-name-pattern=nothing is called so'])
  assert.equal(status, 0, stdout)
  assert.doesNotMatch(stdout, /picky|NOT TESTED|✔ good/)
})

/** A tree with a quick, a long and a soak file, and a file with two parts, whose test name shows its number of runs. */
function twoParts(t: TestContext): string {
  const root = tempDir(t)
  mkdirSync(join(root, 'src'))
  writeFileSync(join(root, 'package.json'), '{"type": "module"}')
  const tests = {
    'a.test.ts': `test('quick alone', () => {})`,
    'b.long.test.ts': `test('long alone: ' + isIn('quick') + isIn('long'), () => {})`,
    'd.soak.test.ts': `test('soak alone: ' + isIn('quick') + isIn('long'), () => {})`,
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
  return [...stdout.matchAll(/^✔ (.*) \(/gm)].map(([, name = '']) => name).sort()
}

test('runs the quick part by default, another part by its flag, and all parts of a named file', (t) => {
  const root = twoParts(t)
  assert.deepEqual(passed(run(root, []).stdout), ['both, 2 times: truefalse', 'quick alone'])
  assert.deepEqual(passed(run(root, ['--long']).stdout), ['both, 2000 times: falsetrue', 'long alone: truetrue'])
  assert.deepEqual(passed(run(root, ['--soak']).stdout), ['soak alone: truetrue'])
  assert.deepEqual(passed(run(root, ['src/d']).stdout), ['soak alone: truetrue'])
  assert.deepEqual(passed(run(root, ['src/c']).stdout), ['both, 2 times: truetrue'])
  assert.deepEqual(passed(run(root, ['src/b', '--long']).stdout), ['long alone: truetrue'])
})

test('at most eight neighbours of a directory share a process, and each file is in one group', () => {
  const files = Array.from({ length: 17 }, (_, at) => `src/core/${at % 2 ? 'access' : 'turns'}/${at}.test.ts`).sort()
  const groups = groupTests([...files, 'src/lib/a.test.ts', 'test/b.test.ts'])
  assert.deepEqual(
    [...groups].map(([name, own]) => [name, own.length]),
    [
      ['src-core-1', 5],
      ['src-core-2', 6],
      ['src-core-3', 6],
      ['src-lib-1', 1],
      ['test-1', 1],
    ],
  )
  assert.deepEqual([...groups.values()].flat(), [...files, 'src/lib/a.test.ts', 'test/b.test.ts'])
  assert.deepEqual([...groupTests(files.slice(0, 8)).values()], [files.slice(0, 8)])
})

test('every test file belongs to a part, and to two only with a marked long part', () => {
  const [quick, long, soak] = [findTests('quick'), findTests('long'), findTests('soak')]
  assert.deepEqual([...new Set([...quick, ...long, ...soak])].sort(), findTests())
  for (const file of soak) assert.ok(!quick.includes(file) && !long.includes(file), file)
  for (const file of long) {
    if (quick.includes(file)) assert.ok(hasLongPart(readFileSync(file, 'utf8')), file)
    else assert.match(file, /\.long\.test\.ts$/)
  }
  assert.ok(quick.length > long.length && long.length > 0)
})

test('the slowest files of a part begin first, as whole files of that part', (t) => {
  const root = twoParts(t)
  const [slow = ''] = SLOWEST.filter((file) => /soak/.test(file))
  mkdirSync(join(root, 'test'))
  const test = `import { test } from 'node:test'\nimport { isIn } from ${PART}\n`
  writeFileSync(
    join(root, slow),
    `${test}test('slow: ' + isIn('quick') + import.meta.url.endsWith('${slow}'), () => {})\n`,
  )
  const { stdout } = run(root, ['--soak', '--test-concurrency=1'])
  assert.deepEqual(passed(stdout), ['slow: truetrue', 'soak alone: truetrue'])
  assert.ok(stdout.indexOf('slow: ') < stdout.indexOf('soak alone: '), stdout)
  assert.deepEqual(
    SLOWEST.filter((file) => !findTests().includes(file)),
    [],
  )
})

test('fails when no file matches a word', (t) => {
  const { status, stderr } = run(smallTree(t), ['elsewhere'])
  assert.equal(status, 1)
  assert.match(stderr, /no test file matches: elsewhere/)
})

test('interrupts a run that makes no progress and names the hanging file', (t) => {
  const root = smallTree(t)
  const hangs = `import { test } from 'node:test'\ntest('done', () => {})\nsetInterval(() => {}, 1000)\n`
  writeFileSync(join(root, 'src/hangs.test.ts'), hangs)
  const { status, stdout } = run(root, ['hangs'], { SVC_TEST_SILENCE_MS: '3000' })
  assert.equal(status, 1, stdout)
  assert.match(stdout, /Interrupted while running:\s+⚠ src\/hangs\.test\.ts/)
})

test('a run is stalled when its report has not grown for longer than the limit', () => {
  const isStalled = stallDetector(1000)
  const results = [
    [0, 0],
    [0, 1000],
    [5, 1001],
    [5, 2001],
    [6, 2002],
    [6, 3002],
    [6, 3003],
    [7, 9000],
  ].map(([size = 0, now = 0]) => isStalled(size, now))
  assert.deepEqual(results, [false, false, false, false, false, false, true, false])
})

test('reads skips without TAP escapes and groups them by reason', () => {
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
