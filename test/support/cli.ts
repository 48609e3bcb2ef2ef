// The command line inside the test's own process: what is typed, what comes back.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { main } from '../../src/cli/main.ts'
import { type Clock, systemClock } from '../../src/lib/clock.ts'
import { sourceOf } from '../../src/lib/settings.ts'
import { type EngineName, freshStore } from './host.ts'
import { type Ending, tempDir } from './temp.ts'

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly stdin?: string | Uint8Array
  readonly terminal?: boolean
  /** What is typed when a command asks; without it there is no terminal to ask at. */
  readonly answer?: string
  readonly env?: Readonly<Record<string, string>>
  readonly clock?: Clock
}

export interface Cli {
  /** Where the instances lie. */
  readonly dir: string
  /** The data directory of `demo`. */
  readonly root: string
  /** `'gate demo list'`, or the words themselves where one holds a blank. */
  run(line: string | readonly string[], options?: RunOptions): Promise<Ran>
  /** Its stdout; fails with stderr where the exit code is not 0. */
  ok(line: string | readonly string[], options?: RunOptions): Promise<string>
}

export function testCli(t: Ending): Cli {
  const dir = tempDir(t)
  const run: Cli['run'] = async (
    line,
    { stdin = '', terminal = false, answer, env = {}, clock = systemClock } = {},
  ) => {
    const said = { stdout: '', stderr: '' }
    const out = (name: 'stdout' | 'stderr') => ({
      isTerminal: terminal,
      write: (text: string) => {
        said[name] += text
      },
    })
    const code = await main(typeof line === 'string' ? line.split(' ') : line, {
      stdout: out('stdout'),
      stderr: out('stderr'),
      stdin: (async function* () {
        yield Buffer.from(stdin)
      })(),
      environment: sourceOf('the environment', new Map(Object.entries({ SVC_DATA_DIR: dir, ...env }))),
      clock,
      ask: answer === undefined ? undefined : () => Promise.resolve(answer),
      stopped: () => Promise.resolve(),
    })
    return { code, ...said }
  }
  const ok: Cli['ok'] = async (line, options) => {
    const { code, stdout, stderr } = await run(line, options)
    if (code !== 0) throw new Error(`svc ${line} exits ${code}: ${stderr}`)
    return stdout
  }
  return { dir, root: join(dir, 'svc_demo'), run, ok }
}

/** With an instance `demo`. For one test, or with `{ after }` for the tests of a suite that change nothing. */
export async function demoCli(t: Ending): Promise<Cli> {
  const cli = testCli(t)
  await cli.ok('create demo')
  return cli
}

/** On one engine; PostgreSQL by its .env, as an operator would have it. */
export async function demoCliOn(t: TestContext, engine: EngineName): Promise<Cli> {
  if (engine === 'sqlite') return demoCli(t)
  const cli = testCli(t)
  const store = await freshStore(t, engine)
  const url = 'url' in store ? store.url : ''
  mkdirSync(cli.root)
  writeFileSync(join(cli.root, '.env'), `DATABASE_URL=${url}\nSECRETS_KEY=a key of the tests\n`, { mode: 0o600 })
  await cli.ok('create demo')
  return cli
}
