// Runs the command line in the process of the test.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { runSvc } from '../../src/cli/main.ts'
import { type Clock, systemClock } from '../../src/lib/clock.ts'
import { refuse } from '../../src/lib/refusal.ts'
import { sourceOf } from '../../src/lib/settings.ts'
import { type EngineName, freshStore } from './host.ts'
import { type CleanupScope, tempDir } from './temp.ts'

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly stdin?: string | Uint8Array
  readonly terminal?: boolean
  /** Called with binary data on stdout. */
  readonly output?: (bytes: Buffer) => void
  readonly env?: Readonly<Record<string, string>>
  readonly clock?: Clock
  /** Simulates a terminal and answers hidden prompts. */
  readonly ask?: (question: string) => Promise<string>
  /** Called with each piece of stdout. */
  readonly heard?: (text: string) => void
  /** Called with each piece of stderr. */
  readonly heardError?: (text: string) => void
  /** When to press Ctrl-C; at once by default. */
  readonly stopped?: Promise<void>
  /** Answers to the prompts of a terminal, in order. */
  readonly typed?: readonly string[]
}

export interface Cli {
  /** The directory of the instances. */
  readonly dir: string
  /** The data directory of `demo`. */
  readonly root: string
  /** `'gate demo list'`, or a list of arguments if one contains a blank. */
  run(line: string | readonly string[], options?: RunOptions): Promise<Ran>
  /** Returns stdout; fails with stderr if the exit code is not 0. */
  ok(line: string | readonly string[], options?: RunOptions): Promise<string>
}

export function testCli(t: CleanupScope): Cli {
  const dir = tempDir(t)
  const run: Cli['run'] = async (line, options = {}) => {
    const { stdin = '', terminal = false, env = {}, clock = systemClock, ask, heard, stopped, typed, output } = options
    const heardError = options.heardError
    const said = { stdout: '', stderr: '' }
    const waiting = [...(typed ?? [])]
    const question = async (text: string): Promise<string> => {
      said.stderr += `${text}:\n`
      return waiting.shift() ?? refuse('invalid', 'stopped: nothing was changed')
    }
    const out = (name: 'stdout' | 'stderr') => ({
      isTerminal: terminal,
      write: (text: string) => {
        said[name] += text
        const listener = name === 'stdout' ? heard : heardError
        listener?.(text)
      },
    })
    const code = await runSvc(typeof line === 'string' ? line.split(' ') : line, {
      stdout: out('stdout'),
      stderr: out('stderr'),
      stdin: (async function* () {
        yield Buffer.from(stdin)
      })(),
      writeBytes: async (bytes) => {
        output?.(Buffer.from(bytes))
      },
      environment: sourceOf('the environment', new Map(Object.entries({ SVC_DATA_DIR: dir, ...env }))),
      clock,
      ...(typed ? { promptHidden: question, prompt: question } : { promptHidden: ask }),
      stopped: () => stopped ?? Promise.resolve(),
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

/** With an instance `demo`. For one test, or with `{ after }` for a suite that changes nothing. */
export async function demoCli(t: CleanupScope): Promise<Cli> {
  const cli = testCli(t)
  await cli.ok('create demo')
  return cli
}

/** On one engine; PostgreSQL is set in .env, as an operator does. */
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
