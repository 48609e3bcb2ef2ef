// `npm test [-- <part of a path>… --flag=value…]`: Node's own test runner over the quick part of the tests, or over all that
// is in the named files, with one PostgreSQL for all of them, and at the end in plain sight what was not tested.
// `npm run test:long` (`--long`) is the other part: together they are everything.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { NEEDS } from './support/needs.ts'
import { hasLongPart, LONG_FILE, PART, type Part } from './support/part.ts'
import { openPostgres, postgresMissing, SHARED_POSTGRES } from './support/postgres.ts'
import { SHARED_FOLDER } from './support/temp.ts'

// For what hangs. The longest takes half a minute on an idle machine, and much longer on one that does ten things at once.
const TEST_TIMEOUT_MS = 15 * 60_000
// A file that leaves a handle open never ends, and no timeout of a test covers that. Interrupted, the runner names it.
const SILENCE_MS = 20 * 60_000
/** Another limit for that, in milliseconds. */
const SILENCE = 'SVC_TEST_SILENCE_MS'
const LOOK_MS = 10_000

export interface Skip {
  readonly name: string
  readonly reason: string
}

/** The test files of the working directory that have something of a part; without a part, all. */
export function findTests(part?: Part): string[] {
  const isPart = (file: string): boolean => {
    if (!part) return true
    const isLong = LONG_FILE.test(file)
    return part === 'quick' ? !isLong : isLong || hasLongPart(readFileSync(file, 'utf8'))
  }
  return globSync(['src/**/*.test.ts', 'test/**/*.test.ts']).filter(isPart).sort()
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

interface Run {
  readonly files: readonly string[]
  readonly flags: readonly string[]
  readonly part: Part | undefined
  readonly address: string | undefined
}

async function runTests({ files, flags, part, address }: Run) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-run-'))
  const tap = join(folder, 'tap')
  const reporters = { spec: 'stdout', tap }
  const runner = spawn(
    process.execPath,
    [
      '--test',
      '--disable-warning=ExperimentalWarning',
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
    {
      stdio: 'inherit',
      env: {
        ...process.env,
        [SHARED_FOLDER]: folder,
        // Hundreds of processes load the same files: the first one compiles them.
        NODE_COMPILE_CACHE: join(folder, 'compiled'),
        ...(address && { [SHARED_POSTGRES]: address }),
        ...(part && { [PART]: part }),
      },
    },
  )
  // Ctrl-C reaches the runner by itself; this process waits for it, so that the server is stopped after the tests.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => runner.kill('SIGTERM'))
  const watch = watchGrowth(tap, () => runner.kill('SIGINT'))
  const [code] = await once(runner, 'exit')
  clearInterval(watch)
  const skips = existsSync(tap) ? readSkips(readFileSync(tap, 'utf8')) : []
  rmSync(folder, { recursive: true })
  return { code: typeof code === 'number' ? code : 1, skips }
}

/** Calls when the report has not grown for long. A run that goes on is never ended, however slow the machine is. */
function watchGrowth(report: string, stalled: () => void): NodeJS.Timeout {
  const silenceMs = Number(process.env[SILENCE] || SILENCE_MS)
  const isStalled = stallDetector(silenceMs)
  const sizeOf = (): number => (existsSync(report) ? statSync(report).size : 0)
  return setInterval(
    () => {
      if (isStalled(sizeOf(), performance.now())) stalled()
    },
    Math.min(LOOK_MS, silenceMs / 2),
  )
}

/** Told a size and the time again and again: whether the size has been the same for longer than this. */
export function stallDetector(silenceMs: number): (size: number, now: number) => boolean {
  let last: { size: number; since: number } | undefined
  return (size, now) => {
    if (last?.size !== size) last = { size, since: now }
    return now - last.since > silenceMs
  }
}

async function main(args: readonly string[]): Promise<number> {
  const words = args.filter((arg) => !arg.startsWith('-'))
  // Who names files wants all that is in them.
  const part = args.includes('--long') ? 'long' : words.length > 0 ? undefined : 'quick'
  const files = findTests(part).filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
  if (files.length === 0) {
    console.error(`no test file matches: ${words.join(' ') || '(no test files)'}`)
    return 1
  }
  const postgres = postgresMissing() ? undefined : await openPostgres({ durable: false })
  try {
    const flags = args.filter((arg) => arg.startsWith('-') && arg !== '--long')
    const { code, skips } = await runTests({ files, flags, part, address: postgres?.url() })
    process.stdout.write(describeSkips(skips))
    const lacking = process.env.CI === 'true' && skips.some(({ reason }) => reason.startsWith(NEEDS))
    return code || (lacking ? 1 : 0)
  } finally {
    await postgres?.stop()
  }
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2))
