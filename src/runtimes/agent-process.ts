// Runs one program for a turn: the prompt goes in, what it prints is the turn's log, and it is ended when it must.
import { StringDecoder } from 'node:string_decoder'
import { type CellProcessExit, type LaunchedProcess, launch } from '../cell/launch.ts'
import type { ModelAddress, RunNetwork } from '../cell/network.ts'
import { watchUsage } from '../cell/resource-usage.ts'
import { Refusal } from '../lib/refusal.ts'
import { buildEnvironment } from './environment.ts'
import { abortFault, RunWatchdog } from './run-watchdog.ts'
import { type Job, RunFault } from './runtime.ts'
import type { RuntimeContext } from './runtime-context.ts'
import { TextLineSplitter } from './text-line-splitter.ts'
import { TurnLog } from './turn-log.ts'

const LINE_MAX = 500

export interface AgentProgram {
  readonly argv: readonly string[]
  readonly input: string
  /** Besides what every run has in its environment. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Texts that it finds as read-only files, by their absolute path in a cell. */
  readonly texts?: Readonly<Record<string, string>>
  /** Where its model answers. */
  readonly endpoint?: ModelAddress | undefined
  /** A fault ends the program: it has said that it cannot succeed. */
  onLine?(line: string): RunFault | undefined
  onText?(text: string): void
}

export interface ProgramExit {
  readonly code: number
  /** What it said last on stderr. */
  readonly lastError: string
}

/** Resolves with how it ended by itself; throws where it could not start, or was ended. No process of it is left. */
export async function runAgentProgram(setup: RuntimeContext, job: Job, program: AgentProgram): Promise<ProgramExit> {
  if (job.signal.aborted) throw abortFault(job.signal)
  const cell = await setup.cell()
  const network = cell.isNetworkOpen ? undefined : await setup.network.open(job.folder, program.endpoint)
  try {
    const env = { ...buildEnvironment(job, cell, program.endpoint), ...definedOf(program.env ?? {}) }
    const { folder, home, socket, chat } = job
    const place = {
      folder,
      home,
      socket,
      chat,
      openHome: () => job.openHome(),
      texts: program.texts,
      handover: network?.handover,
    }
    const launched = await started(launch(cell, place, program.argv, env), network)
    const { pid } = launched.child
    return await superviseProcess(setup, job, program, launched, (over) =>
      pid === undefined ? () => undefined : watchUsage(pid, cell.limits, over),
    )
  } finally {
    // Not awaited: its processes are gone, and with them the namespace that its connections were in.
    void network?.close().catch((error) => setup.onBackgroundError?.(error))
  }
}

/** The child has its own copy of the descriptor by then, or never will. */
async function started(launching: Promise<LaunchedProcess>, network: RunNetwork | undefined): Promise<LaunchedProcess> {
  try {
    return await launching
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new RunFault('terminal', error.message)
  } finally {
    network?.release()
  }
}

async function superviseProcess(
  { clock }: RuntimeContext,
  job: Job,
  program: AgentProgram,
  { child, ended, stop }: LaunchedProcess,
  watchUse: (over: (sentence: string) => void) => () => void,
): Promise<ProgramExit> {
  const log = new TurnLog(job.logFile)
  let killedFor: RunFault | undefined
  const kill = (fault: RunFault): void => {
    killedFor ??= fault
    void stop()
  }
  const watch = new RunWatchdog(job, clock, kill)
  const unwatch = watchUse((sentence) => kill(new RunFault('terminal', sentence)))
  const lines = new TextLineSplitter((line) => {
    const fault = program.onLine?.(line)
    if (fault) kill(fault)
  })
  let lastError = ''
  const errors = new TextLineSplitter((line) => {
    if (line.trim() !== '') lastError = line.trim().slice(0, LINE_MAX)
  }, 65_536)
  const heard = (chunk: Uint8Array): void => {
    watch.recordActivity()
    log.write(chunk)
  }
  const [decoder, errorDecoder] = [new StringDecoder('utf8'), new StringDecoder('utf8')]
  child.stdout?.on('data', (chunk: Buffer) => {
    heard(chunk)
    const text = decoder.write(chunk)
    program.onText?.(text)
    lines.push(text)
  })
  child.stderr?.on('data', (chunk: Buffer) => {
    heard(chunk)
    errors.push(errorDecoder.write(chunk))
  })
  try {
    child.stdin?.end(program.input)
    const end = await ended
    for (const rest of [lines, errors]) rest.end()
    if (killedFor) throw killedFor
    return exitOf(program.argv[0] ?? '', end, lastError)
  } finally {
    watch.close()
    unwatch()
    await log.close()
  }
}

/** How a program that ended by itself failed, if it did. */
export function mustHaveSucceeded({ code, lastError }: ProgramExit): void {
  if (code === 0) return
  throw new RunFault('again', lastError || `its program ended with exit code ${code}`)
}

function exitOf(
  name: string,
  { code, signal, error, isCellReady, startFault }: CellProcessExit,
  lastError: string,
): ProgramExit {
  if (!isCellReady) {
    const cause = startFault ?? (lastError || error?.message)
    throw new RunFault('again', cause ? `its cell could not be set up: ${cause}` : 'its cell could not be set up')
  }
  if (error) throw new RunFault('terminal', `${name} could not be started: ${spawnFault(error)}`)
  if (startFault !== undefined)
    throw new RunFault('terminal', `${name} could not be started: ${startFault.toLowerCase()}`)
  // A shell that could not start what it was told to.
  if (code === 126 || code === 127)
    throw new RunFault('terminal', `${name} could not be started: ${lastError || `exit code ${code}`}`)
  if (code === null) throw new RunFault('again', `its program was ended by ${signal ?? 'a signal'}`)
  return { code, lastError }
}

function spawnFault({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') return 'there is no such program'
  return code === 'EACCES' ? 'it may not be run' : message
}

function definedOf(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])))
}
