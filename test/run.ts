// `npm test [-- <part of a path>… --flag=value…]`: runs the quick part of the tests, or both parts of the selected files,
// with Node's test runner and one shared PostgreSQL, and lists all skipped tests at the end. `npm run test:long`
// (`--long`) runs the long part, `npm run test:soak` (`--soak`) the soak part.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { NEEDS } from './support/needs.ts'
import { hasLongPart, LONG_FILE, PART, type Part, SOAK_FILE } from './support/part.ts'
import { openPostgres, postgresMissing, SHARED_POSTGRES } from './support/postgres.ts'
import { SHARED_FOLDER } from './support/temp.ts'

// Only for tests that hang. The longest takes half a minute on an idle machine, but much longer on a busy one.
const TEST_TIMEOUT_MS = 15 * 60_000
// A file that leaves a handle open never ends, and no test timeout covers that. The interrupted runner names the file.
const SILENCE_MS = 20 * 60_000
/** Overrides SILENCE_MS. */
const SILENCE_VARIABLE = 'SVC_TEST_SILENCE_MS'
const POLL_MS = 10_000

export interface Skip {
  readonly name: string
  readonly reason: string
}

/** The test files of the working directory with tests of this part; all without one. */
export function findTests(part?: Part): string[] {
  const isPart = (file: string): boolean => {
    if (!part) return true
    const [isLong, isSoak] = [LONG_FILE.test(file), SOAK_FILE.test(file)]
    if (part === 'soak' || isSoak) return part === 'soak' && isSoak
    return part === 'quick' ? !isLong : isLong || hasLongPart(readFileSync(file, 'utf8'))
  }
  return globSync(['src/**/*.test.ts', 'test/**/*.test.ts']).filter(isPart).sort()
}

/** Tests of the quick part take less time than loading the modules that they need, so several files share a process. */
const GROUP_SIZE = 8

/** Neighbours of one directory, by the name of their group. */
export function groupTests(files: readonly string[]): Map<string, readonly string[]> {
  const directories = Map.groupBy(files, (file) => dirname(file).split('/').slice(0, 2).join('-'))
  const groups = [...directories].flatMap(([name, own]) => {
    const count = Math.ceil(own.length / GROUP_SIZE)
    const start = (at: number): number => Math.floor((at * own.length) / count)
    return Array.from({ length: count }, (_, at) => [`${name}-${at + 1}`, own.slice(start(at), start(at + 1))] as const)
  })
  return new Map(groups)
}

/** They take a minute or more. Begun last, they would leave processors idle at the end. */
export const SLOWEST: readonly string[] = [
  ...['test/e2e/dashboard/actions.long.test.ts', 'test/cells/containers.long.test.ts', 'test/pack.long.test.ts'],
  ...['test/turn-model.soak.test.ts', 'test/readers-growth.soak.test.ts', 'test/recipes.soak.test.ts'],
  'test/e2e/containers.soak.test.ts',
]

/** The slowest get a name that is first in the alphabet, in which Node's test runner begins files. */
function beginFirst(folder: string, file: string): string {
  if (!SLOWEST.includes(file)) return file
  const path = join(folder, `0-${basename(file)}`)
  symlinkSync(resolve(file), path)
  return path
}

/** Files to run in place of the given ones. Those of the long and the soak part have a process of their own. */
function writeGroups(folder: string, files: readonly string[]): string[] {
  const isAlone = (file: string): boolean => LONG_FILE.test(file) || SOAK_FILE.test(file)
  const written = [...groupTests(files.filter((file) => !isAlone(file)))].map(([name, own]) => {
    const path = join(folder, `${name}.test.mjs`)
    writeFileSync(path, own.map((file) => `import ${JSON.stringify(pathToFileURL(resolve(file)).href)}\n`).join(''))
    return path
  })
  return [...written, ...files.filter(isAlone).map((file) => beginFirst(folder, file))]
}

/** The skipped tests in TAP output. */
export function readSkips(tap: string): Skip[] {
  const plain = (text = ''): string => text.replace(/\\(.)/g, '$1')
  return [...tap.matchAll(/^ *ok \d+ - (.*?) # SKIP(?: (.*))?$/gm)].map(([, name, reason]) => ({
    name: plain(name),
    reason: plain(reason) || 'no reason given',
  }))
}

/** A conspicuous block with the skipped tests; empty without any. */
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
  /** Whether files were named. */
  readonly isSelection: boolean
  readonly address: string | undefined
}

async function runTests({ files, flags, part, isSelection, address }: Run) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-run-'))
  // Tests that run as root start programs below it as another user.
  chmodSync(folder, 0o711)
  const tap = join(folder, 'tap')
  const reporters = { spec: 'stdout', tap }
  const runner = spawn(
    process.execPath,
    [
      '--test',
      '--disable-warning=ExperimentalWarning',
      // One more than the number of processors, because many tests wait for the disk or a browser.
      `--test-concurrency=${availableParallelism() + 1}`,
      `--test-timeout=${TEST_TIMEOUT_MS}`,
      ...Object.entries(reporters).flatMap(([name, to]) => [
        `--test-reporter=${name}`,
        `--test-reporter-destination=${to}`,
      ]),
      ...flags,
      // A named file has its own process, so that it can be told from its neighbours.
      ...(part && !isSelection ? writeGroups(folder, files) : files),
    ],
    {
      stdio: 'inherit',
      env: {
        ...process.env,
        [SHARED_FOLDER]: folder,
        // Hundreds of processes load the same files: compile them once.
        NODE_COMPILE_CACHE: join(folder, 'compiled'),
        ...(address && { [SHARED_POSTGRES]: address }),
        ...(part && { [PART]: part }),
      },
    },
  )
  // The terminal sends Ctrl-C to the runner as well; this process waits for it and then stops PostgreSQL.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => runner.kill('SIGTERM'))
  const watch = watchGrowth(tap, () => runner.kill('SIGINT'))
  const [code] = await once(runner, 'exit')
  clearInterval(watch)
  const skips = existsSync(tap) ? readSkips(readFileSync(tap, 'utf8')) : []
  rmSync(folder, { recursive: true })
  return { code: typeof code === 'number' ? code : 1, skips }
}

/** Calls `onStall` when the report has not grown for too long; a slow run that makes progress is never interrupted. */
function watchGrowth(report: string, onStall: () => void): NodeJS.Timeout {
  const silenceMs = Number(process.env[SILENCE_VARIABLE] || SILENCE_MS)
  const isStalled = stallDetector(silenceMs)
  const sizeOf = (): number => (existsSync(report) ? statSync(report).size : 0)
  return setInterval(
    () => {
      if (isStalled(sizeOf(), performance.now())) onStall()
    },
    Math.min(POLL_MS, silenceMs / 2),
  )
}

/** Returns a function to call with the size and the time, which reports a size that is unchanged for too long. */
export function stallDetector(silenceMs: number): (size: number, now: number) => boolean {
  let last: { size: number; since: number } | undefined
  return (size, now) => {
    if (last?.size !== size) last = { size, since: now }
    return now - last.since > silenceMs
  }
}

/** Parts with a flag of their own. */
const PARTS = ['long', 'soak'] as const

async function main(args: readonly string[]): Promise<number> {
  const words = args.filter((arg) => !arg.startsWith('-'))
  // Named files run with both parts.
  const asked = PARTS.find((part) => args.includes(`--${part}`))
  const part = asked ?? (words.length > 0 ? undefined : 'quick')
  const files = findTests(part).filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
  if (files.length === 0) {
    console.error(`no test file matches: ${words.join(' ') || '(no test files)'}`)
    return 1
  }
  const postgres = postgresMissing() ? undefined : await openPostgres({ durable: false })
  try {
    const flags = args.filter((arg) => arg.startsWith('-') && !PARTS.some((part) => arg === `--${part}`))
    const { code, skips } = await runTests({
      files,
      flags,
      part,
      isSelection: words.length > 0,
      address: postgres?.url(),
    })
    process.stdout.write(describeSkips(skips))
    const isIncomplete = process.env.CI === 'true' && skips.some(({ reason }) => reason.startsWith(NEEDS))
    return code || (isIncomplete ? 1 : 0)
  } finally {
    await postgres?.stop()
  }
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2))
