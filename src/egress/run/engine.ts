// The container engine of this machine, docker or podman, through its own command. No shell is between: what is an
// argument stays one.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Writable } from 'node:stream'
import { refuse } from '../../lib/refusal.ts'

export interface Engine {
  /** What was found on the PATH; a `docker` may be podman's. */
  readonly command: string
  readonly kind: 'docker' | 'podman'
}

export interface CallOptions {
  /** What the command reads; without it, nothing. */
  readonly input?: Buffer
  /** A stream that the command holds open as long as it runs. */
  readonly hold?: Writable
  readonly timeoutMs?: number
}

/** For an engine that hangs; the slowest call is the removal of a container that does not want to end. */
const CALL_MS = 120_000
/** More is no answer of an engine. */
const SAID_MAX = 8 * 1_048_576

/** The first that is there and answers. */
export async function findEngine(): Promise<Engine> {
  const faults: string[] = []
  for (const command of ['docker', 'podman']) {
    const said = await finish(start(command, ['--version'], {}))
    if (said.missing) continue
    const engine: Engine = { command, kind: /podman/i.test(command + said.stdout) ? 'podman' : 'docker' }
    const asked = await finish(start(command, ['network', 'ls', '--quiet'], {}))
    if (asked.code === 0) return engine
    faults.push(failure(command, ['network', 'ls'], asked))
  }
  if (faults.length > 0) refuse('unavailable', faults.join('; '))
  return refuse('unavailable', 'run needs docker or podman, and neither is on the PATH')
}

/** What the engine prints. A call that fails is refused with the last line that it said. */
export async function call(engine: Engine, args: readonly string[], options: CallOptions = {}): Promise<string> {
  const done = await finish(start(engine.command, args, options))
  if (done.code === 0) return done.stdout.trim()
  if (done.missing) refuse('not_found', `there is no ${engine.command}`)
  return refuse('unavailable', failure(engine.command, args, done))
}

/** Whether the engine says yes, by its exit code. */
export async function ask(engine: Engine, args: readonly string[]): Promise<boolean> {
  return (await finish(start(engine.command, args, {}))).code === 0
}

/** The first bytes of what the engine prints; fewer where it prints less. The rest is read and dropped, so that it ends by itself. */
export async function readStart(
  engine: Engine,
  args: readonly string[],
  count: number,
): Promise<{ readonly bytes: Buffer; readonly complaint: string }> {
  const child = start(engine.command, args, {})
  const chunks: Buffer[] = []
  let length = 0
  child.stdout?.on('data', (chunk: Buffer) => {
    if (length < count) chunks.push(chunk)
    length += chunk.length
  })
  const { stderr } = await finish(child, ['stderr'])
  return { bytes: Buffer.concat(chunks).subarray(0, count), complaint: stderr }
}

/** A command with pipes at its outputs, for as long as it runs. */
export function follow(engine: Engine, args: readonly string[]): ChildProcess {
  return start(engine.command, args, { timeoutMs: 0 })
}

/** A command on this process's own streams. On a terminal it stays in the terminal's foreground. */
export async function attach(engine: Engine, args: readonly string[], isTerminal: boolean): Promise<number> {
  const child = spawn(engine.command, args, { stdio: 'inherit', detached: !isTerminal })
  const [code]: (number | null)[] = await once(child, 'exit')
  return code ?? 1
}

interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
  /** There is no such command. */
  readonly missing: boolean
}

/** Detached, so that the Ctrl-C of a terminal reaches this process alone, and no call ends half-way. */
function start(command: string, args: readonly string[], { input, hold, timeoutMs = CALL_MS }: CallOptions) {
  const child = spawn(command, args, {
    detached: true,
    stdio: [input ? 'pipe' : 'ignore', 'pipe', 'pipe', ...(hold ? [hold] : [])],
    timeout: timeoutMs,
  })
  // A command that does not read its input says why by itself.
  child.stdin?.on('error', () => undefined).end(input)
  return child
}

/** `kept` are the outputs that are read as text. */
function finish(child: ChildProcess, kept: readonly ('stdout' | 'stderr')[] = ['stdout', 'stderr']): Promise<Finished> {
  const said = { stdout: '', stderr: '' }
  for (const name of kept) {
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      if (said[name].length < SAID_MAX) said[name] += text
    })
  }
  return new Promise((resolve) => {
    child.on('error', (error: NodeJS.ErrnoException) => {
      if (child.pid !== undefined) return
      resolve({ code: null, stdout: '', stderr: error.message, missing: error.code === 'ENOENT' })
    })
    child.on('close', (code) => resolve({ code, ...said, missing: false }))
  })
}

function failure(command: string, args: readonly string[], { stderr, stdout }: Finished): string {
  const words = args.slice(0, args.findIndex((arg) => arg.startsWith('-')) >>> 0).slice(0, 2)
  return `${[command, ...words].join(' ')} failed: ${lastLine(stderr) ?? lastLine(stdout) ?? 'it gave no reason'}`
}

/** What says nothing, after the line that does. */
const EMPTY = /^$|^(?:See|Run) '|^Error: failed to start containers/

/** The last line that says something. */
export function lastLine(text: string): string | undefined {
  const lines = text.split('\n').map((line) => line.trim())
  return lines.findLast((line) => !EMPTY.test(line))
}
