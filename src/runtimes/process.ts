// Runs one program for a turn: the prompt goes in, what it prints is the turn's log, and it is ended when it must.
import { stat } from 'node:fs/promises'
import { StringDecoder } from 'node:string_decoder'
import type { Clock } from '../lib/clock.ts'
import type { Cell } from './cell.ts'
import { environmentOf } from './environment.ts'
import { type Ended, launch } from './launch.ts'
import { Lines } from './lines.ts'
import { type Job, RunFault } from './runtime.ts'
import { TurnLog } from './turn-log.ts'
import { stopFault, Watch } from './watch.ts'

const LINE_MAX = 500

export interface Program {
  readonly argv: readonly string[]
  readonly input: string
  /** Besides what every run has in its environment. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Files that it may read besides. */
  readonly files?: readonly string[]
  onLine?(line: string): void
  onText?(text: string): void
}

export interface Exit {
  readonly code: number
  /** What it said last on stderr. */
  readonly lastError: string
}

/** Resolves with how it ended by itself; throws where it could not start, or was ended. No process of it is left. */
export async function runProcess(cell: Cell, clock: Clock, job: Job, program: Program): Promise<Exit> {
  if (job.signal.aborted) throw stopFault(job.signal)
  await mustHaveSurroundings(job)
  const place = { folder: job.folder, home: job.home, socket: job.socket, files: program.files }
  const env = { ...environmentOf(job, cell.seen(place)), ...definedOf(program.env ?? {}) }
  const log = new TurnLog(job.logFile, job.home)
  const { child, ended, stop } = await launch(cell, place, program.argv, env)
  let killedFor: RunFault | undefined
  const watch = new Watch(job, clock, (fault) => {
    killedFor = fault
    void stop()
  })
  const lines = new Lines((line) => program.onLine?.(line))
  let lastError = ''
  const errors = new Lines((line) => {
    if (line.trim() !== '') lastError = line.trim().slice(0, LINE_MAX)
  }, 65_536)
  const heard = (chunk: Uint8Array): void => {
    watch.alive()
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
    await log.close()
  }
}

/** How a program that ended by itself failed, if it did. */
export function mustHaveSucceeded({ code, lastError }: Exit): void {
  if (code === 0) return
  throw new RunFault('again', lastError || `its program ended with exit code ${code}`)
}

function exitOf(name: string, { code, signal, error }: Ended, lastError: string): Exit {
  if (error) throw new RunFault('terminal', `${name} could not be started: ${startFault(error)}`)
  // A shell, or bubblewrap, that could not start what it was told to.
  if (code === 126 || code === 127 || (code === 1 && lastError.startsWith('bwrap: ')))
    throw new RunFault('terminal', `${name} could not be started: ${lastError || `exit code ${code}`}`)
  if (code === null) throw new RunFault('again', `its program was ended by ${signal ?? 'a signal'}`)
  return { code, lastError }
}

function startFault({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') return 'there is no such program'
  return code === 'EACCES' ? 'it may not be run' : message
}

/** Without its socket an agent can do nothing, and that is not its fault; without its workspace it has no place to be. */
async function mustHaveSurroundings({ folder, home, socket }: Job): Promise<void> {
  const isThere = (path: string): Promise<boolean> =>
    stat(path).then(
      () => true,
      () => false,
    )
  if (!(await isThere(home))) throw new RunFault('terminal', `${folder} has no workspace`)
  if (!(await isThere(socket))) throw new RunFault('unavailable', `the tool socket of ${folder} is not there`)
}

function definedOf(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])))
}
