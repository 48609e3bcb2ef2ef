// `npm test [-- <part of a path>… --flag=value…]`: Node's own test runner over every test file, with one PostgreSQL for
// all of them, and at the end in plain sight what was not tested.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { NEEDS } from './support/needs.ts'
import { openPostgres, postgresMissing, SHARED_POSTGRES } from './support/postgres.ts'

// The longest takes half a minute on a busy machine; this is for what hangs.
const TEST_TIMEOUT_MS = 180_000
// A file that leaves a handle open never ends, and no timeout of a test covers that. Interrupted, the runner names it.
const RUN_TIMEOUT_MS = 30 * 60_000

export interface Skip {
  readonly name: string
  readonly reason: string
}

/** The test files of the working directory whose path holds one of the words; without words, all. */
export function findTests(words: readonly string[]): string[] {
  return globSync(['src/**/*.test.ts', 'test/**/*.test.ts'])
    .filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
    .sort()
}

/** What TAP output reports as skipped. */
export function readSkips(tap: string): Skip[] {
  const plain = (text = ''): string => text.replace(/\\(.)/g, '$1')
  return [...tap.matchAll(/^ *ok \d+ - (.*?) # SKIP(?: (.*))?$/gm)].map(([, name, reason]) => ({
    name: plain(name),
    reason: plain(reason) || 'no reason given',
  }))
}

/** A block that nobody overlooks; nothing when nothing was skipped. */
export function describeSkips(skips: readonly Skip[]): string {
  if (skips.length === 0) return ''
  const rule = '='.repeat(80)
  const reasons = Map.groupBy(skips, (skip) => skip.reason)
  const lines = [...reasons].flatMap(([reason, group]) => ['', reason, ...group.map(({ name }) => `  - ${name}`)])
  return ['', rule, `NOT TESTED: ${skips.length} skipped`, ...lines, rule, ''].join('\n')
}

async function runTests(files: readonly string[], flags: readonly string[], address: string | undefined) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-run-'))
  const tap = join(folder, 'tap')
  const reporters = { spec: 'stdout', tap }
  const runner = spawn(
    process.execPath,
    [
      '--test',
      // One more than there are processors: many tests wait for others, such as a disk or a browser.
      `--test-concurrency=${availableParallelism() + 1}`,
      `--test-timeout=${TEST_TIMEOUT_MS}`,
      ...Object.entries(reporters).flatMap(([name, to]) => [
        `--test-reporter=${name}`,
        `--test-reporter-destination=${to}`,
      ]),
      ...flags,
      ...files,
    ],
    { stdio: 'inherit', env: { ...process.env, ...(address && { [SHARED_POSTGRES]: address }) } },
  )
  // Ctrl-C reaches the runner by itself; this process waits for it, so that the server is stopped after the tests.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => runner.kill('SIGTERM'))
  const deadline = setTimeout(() => runner.kill('SIGINT'), RUN_TIMEOUT_MS)
  const [code] = await once(runner, 'exit')
  clearTimeout(deadline)
  const skips = existsSync(tap) ? readSkips(readFileSync(tap, 'utf8')) : []
  rmSync(folder, { recursive: true })
  return { code: typeof code === 'number' ? code : 1, skips }
}

async function main(args: readonly string[]): Promise<number> {
  const words = args.filter((arg) => !arg.startsWith('-'))
  const files = findTests(words)
  if (files.length === 0) {
    console.error(`no test file matches: ${words.join(' ') || '(no test files)'}`)
    return 1
  }
  const postgres = postgresMissing() ? undefined : await openPostgres({ durable: false })
  try {
    const flags = args.filter((arg) => arg.startsWith('-'))
    const { code, skips } = await runTests(files, flags, postgres?.url())
    process.stdout.write(describeSkips(skips))
    const lacking = process.env.CI === 'true' && skips.some(({ reason }) => reason.startsWith(NEEDS))
    return code || (lacking ? 1 : 0)
  } finally {
    await postgres?.stop()
  }
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2))
