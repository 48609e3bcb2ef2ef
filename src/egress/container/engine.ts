// Calls the container engine, docker or podman, through its command line, without a shell.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Writable } from 'node:stream'
import { refuse } from '../../lib/refusal.ts'

export interface ContainerEngine {
  /** As found on the PATH; a `docker` may be podman's. */
  readonly command: string
  readonly kind: 'docker' | 'podman'
}

export interface CallOptions {
  /** Input of the command; by default none. */
  readonly input?: Buffer
  /** A stream that the command keeps open while it runs. */
  readonly hold?: Writable
  readonly timeoutMs?: number
}

/** For an engine that hangs; the slowest call removes a container that ignores signals. */
const CALL_MS = 120_000
/** Output beyond this is not a valid answer of an engine. */
const OUTPUT_MAX = 8 * 1_048_576

/** The first engine that is installed and answers. */
export async function findEngine(): Promise<ContainerEngine> {
  const faults: string[] = []
  for (const command of ['docker', 'podman']) {
    const version = await finish(start(command, ['--version'], {}))
    if (version.missing) continue
    const engine: ContainerEngine = { command, kind: /podman/i.test(command + version.stdout) ? 'podman' : 'docker' }
    const networks = await finish(start(command, ['network', 'ls', '--quiet'], {}))
    if (networks.code === 0) return engine
    faults.push(failure(command, ['network', 'ls'], networks))
  }
  if (faults.length > 0) refuse('unavailable', faults.join('; '))
  return refuse('unavailable', 'run needs docker or podman: install one and put it on the PATH')
}

const FIRST_WITHOUT_ROUTE = 25

/** Docker before 25 gives containers of an internal network a default route, to a gateway that does not answer. */
export async function addsDefaultRoute(engine: ContainerEngine): Promise<boolean> {
  if (engine.kind === 'podman') return false
  const version = await runEngine(engine, ['version', '--format', '{{.Server.Version}}'])
  // A version that is not a number may be anything.
  return !(Number.parseInt(version, 10) >= FIRST_WITHOUT_ROUTE)
}

/** Returns stdout. A failed call is refused with the last line of its output. */
export async function runEngine(
  engine: ContainerEngine,
  args: readonly string[],
  options: CallOptions = {},
): Promise<string> {
  const done = await finish(start(engine.command, args, options))
  if (done.code === 0) return done.stdout.trim()
  if (done.missing) refuse('not_found', `${engine.command} is not installed`)
  return refuse('unavailable', failure(engine.command, args, done))
}

/** Whether the command exits with 0. */
export async function engineSucceeds(engine: ContainerEngine, args: readonly string[]): Promise<boolean> {
  return (await finish(start(engine.command, args, {}))).code === 0
}

/** The first bytes of stdout, or fewer. Reads and discards the rest, so that the command ends by itself. */
export async function readEngineOutputStart(
  engine: ContainerEngine,
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

/** A command with piped outputs. */
export function spawnEngine(engine: ContainerEngine, args: readonly string[]): ChildProcess {
  return start(engine.command, args, { timeoutMs: 0 })
}

/** A command on this process's own streams. On a terminal it stays in the foreground. */
export async function runEngineAttached(
  engine: ContainerEngine,
  args: readonly string[],
  isTerminal: boolean,
): Promise<number> {
  const child = spawn(engine.command, args, { stdio: 'inherit', detached: !isTerminal })
  const [code]: (number | null)[] = await once(child, 'exit')
  return code ?? 1
}

interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
  /** The command is not installed. */
  readonly missing: boolean
}

/** Detached, so that Ctrl-C on a terminal reaches only this process, and no call is cut off. */
function start(command: string, args: readonly string[], { input, hold, timeoutMs = CALL_MS }: CallOptions) {
  const child = spawn(command, args, {
    detached: true,
    stdio: [input ? 'pipe' : 'ignore', 'pipe', 'pipe', ...(hold ? [hold] : [])],
    timeout: timeoutMs,
  })
  // A command that does not read its input reports its own error.
  child.stdin?.on('error', () => undefined).end(input)
  return child
}

/** `kept` lists the outputs to read as text. */
function finish(child: ChildProcess, kept: readonly ('stdout' | 'stderr')[] = ['stdout', 'stderr']): Promise<Finished> {
  const output = { stdout: '', stderr: '' }
  for (const name of kept) {
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      if (output[name].length < OUTPUT_MAX) output[name] += text
    })
  }
  return new Promise((resolve) => {
    child.on('error', (error: NodeJS.ErrnoException) => {
      if (child.pid !== undefined) return
      resolve({ code: null, stdout: '', stderr: error.message, missing: error.code === 'ENOENT' })
    })
    child.on('close', (code) => resolve({ code, ...output, missing: false }))
  })
}

function failure(command: string, args: readonly string[], { stderr, stdout }: Finished): string {
  const words = args.slice(0, args.findIndex((arg) => arg.startsWith('-')) >>> 0).slice(0, 2)
  return `${[command, ...words].join(' ')} failed: ${lastLine(stderr) ?? lastLine(stdout) ?? 'it gave no reason'}`
}

/** Uninformative lines that follow the error. */
const EMPTY = /^$|^(?:See|Run) '|^Error: failed to start containers/

/** The last informative line. */
export function lastLine(text: string): string | undefined {
  const lines = text.split('\n').map((line) => line.trim())
  return lines.findLast((line) => !EMPTY.test(line))
}
