// Runs one agent program for a turn: writes the prompt to its stdin, logs its output, and kills it at the deadline, when it
// hangs, or when it exceeds its limits.
import { StringDecoder } from 'node:string_decoder'
import type { CellProcess, CellProcessExit } from '../cell/cell.ts'
import type { ModelAddress, RunNetwork } from '../cell/network.ts'
import { throwUncaught } from '../lib/fault-boundary.ts'
import { isHostFault } from '../lib/host-fault.ts'
import { Refusal } from '../lib/refusal.ts'
import { buildEnvironment } from './environment.ts'
import { OutputReader } from './output-reader.ts'
import { RunWatchdog, toAbortFault } from './run-watchdog.ts'
import { type Job, RunFault } from './runtime.ts'
import type { RuntimeContext } from './runtime-context.ts'
import { TextLineSplitter } from './text-line-splitter.ts'
import { TurnLog } from './turn-log.ts'

const ERROR_LINE_MAX = 500

interface AgentProgram {
  readonly argv: readonly string[]
  readonly input: string
  /** Added to the environment that every run has. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Read-only files to show in the cell: their text by absolute path. */
  readonly texts?: Readonly<Record<string, string>>
  /** The model endpoint that its network must allow. */
  readonly endpoint?: ModelAddress | undefined
  /** Returns a fault to stop the program. */
  onLine?(line: string, isPiece: boolean): RunFault | undefined
  /** Lines that the log leaves out: there are thousands, and the answer has their text. */
  isDraft?(line: string): boolean
  onText?(text: string): void
}

export interface ProgramExit {
  readonly code: number
  /** The last line that is not empty on stderr. */
  readonly lastError: string
}

/** Resolves when the program exits by itself; throws if it could not start or was killed. None of its processes remain. */
export async function runAgentProgram(context: RuntimeContext, job: Job, program: AgentProgram): Promise<ProgramExit> {
  if (job.signal.aborted) throw toAbortFault(job.signal)
  const cell = await context.cell()
  const network = cell.isNetworkOpen ? undefined : await context.network.open(job.folder, program.endpoint)
  try {
    const env = { ...buildEnvironment(job, cell, program.endpoint), ...dropUndefined(program.env ?? {}) }
    const { folder, user, home, socket, chat, files } = job
    const resources = {
      folder,
      user,
      home,
      socket,
      chat,
      files,
      openHome: () => job.openHome(),
      texts: program.texts,
      handover: network?.handover,
    }
    const process = await awaitStart(cell.start(resources, program.argv, env), network)
    return await superviseProcess(context, job, program, process)
  } finally {
    // Not awaited: the processes have ended, and the network namespace of their connections with them.
    void network?.close().catch((error) => context.onBackgroundError?.(error))
  }
}

/** Closes our copy of the network descriptor after the start: by then the process has its own, or was not started. */
async function awaitStart(starting: Promise<CellProcess>, network: RunNetwork | undefined): Promise<CellProcess> {
  try {
    return await starting
  } catch (error) {
    if (isHostFault(error) && error instanceof Error) throw new RunFault('unavailable', error.message)
    if (!(error instanceof Refusal)) throw error
    throw new RunFault('terminal', error.message)
  } finally {
    network?.release()
  }
}

async function superviseProcess(
  { clock, onBackgroundError = throwUncaught }: RuntimeContext,
  job: Job,
  program: AgentProgram,
  { stdin, stdout, stderr, ended, stop, watchUsage }: CellProcess,
): Promise<ProgramExit> {
  const log = new TurnLog(job.logFile)
  let killedFor: unknown
  /** For the fault of a run, or an exception of a handler of its output. */
  const kill = (fault: unknown): void => {
    killedFor ??= fault
    stop().catch(onBackgroundError)
  }
  const watchdog = new RunWatchdog(job, clock, kill)
  const stopUsageWatch = watchUsage((message) => kill(new RunFault('terminal', message)))
  const { onLine, isDraft } = program
  const lines =
    onLine &&
    new TextLineSplitter((line, isPiece) => {
      if (isDraft && !isDraft(line)) log.write(Buffer.from(`${line}\n`))
      const fault = onLine(line, isPiece)
      if (fault) kill(fault)
    })
  let lastError = ''
  const errors = new TextLineSplitter((line) => {
    if (line.trim() !== '') lastError = line.trim().slice(0, ERROR_LINE_MAX)
  }, 65_536)
  const [decoder, errorDecoder] = [new StringDecoder('utf8'), new StringDecoder('utf8')]
  const output = new OutputReader(kill)
  const readOutput = (slice: Buffer): void => {
    watchdog.recordActivity()
    if (!isDraft) log.write(slice)
    const text = decoder.write(slice)
    program.onText?.(text)
    lines?.push(text)
  }
  const readErrors = (slice: Buffer): void => {
    watchdog.recordActivity()
    log.write(slice)
    errors.push(errorDecoder.write(slice))
  }
  output.read(stdout, { hasLineCost: lines !== undefined, onSlice: readOutput })
  output.read(stderr, { hasLineCost: true, onSlice: readErrors })
  try {
    stdin.end(program.input)
    const end = await ended
    await output.finish()
    for (const splitter of [lines, errors]) splitter?.end()
    if (killedFor !== undefined) throw killedFor
    return readExit(program.argv[0] ?? '', end, lastError)
  } finally {
    watchdog.close()
    stopUsageWatch()
    await log.close()
  }
}

/** Throws if the program exited with an error. */
export function requireSuccess({ code, lastError }: ProgramExit): void {
  if (code === 0) return
  throw new RunFault('retryable', lastError || `the program failed with exit code ${code}`)
}

function readExit(
  name: string,
  { code, signal, error, isCellReady, startFault, cellFault }: CellProcessExit,
  lastError: string,
): ProgramExit {
  // The program was not started, so this is no deed of the agent.
  if (!isCellReady) {
    const cause = startFault ?? cellFault ?? (lastError || error?.message)
    throw new RunFault('unavailable', cause ? `its cell could not be set up: ${cause}` : 'its cell could not be set up')
  }
  if (cellFault !== undefined) throw new RunFault('retryable', cellFault)
  if (error && isHostFault(error)) throw new RunFault('unavailable', `${name} could not be started: ${error.message}`)
  if (error) throw new RunFault('terminal', `${name} could not be started: ${describeSpawnError(error)}`)
  if (startFault !== undefined)
    throw new RunFault('terminal', `${name} could not be started: ${startFault.toLowerCase()}`)
  // Exit codes of a shell that could not start its command.
  if (code === 126 || code === 127)
    throw new RunFault('terminal', `${name} could not be started: ${lastError || `exit code ${code}`}`)
  if (code === null) throw new RunFault('retryable', `the program was killed by ${signal ?? 'a signal'}`)
  return { code, lastError }
}

function describeSpawnError({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') return 'program not found'
  return code === 'EACCES' ? 'permission denied' : message
}

function dropUndefined(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])))
}
