// Starts a process in a cell, as the head of its own process group, and ends all of that group.
import { type ChildProcess, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as pause, setImmediate as turnOver } from 'node:timers/promises'
import type { Cell, Descriptor, Place } from './cell.ts'
import { STANDING } from './init.ts'
import { treeOf } from './usage.ts'

/** Between asking and killing. */
const GRACE_MS = 2000
/** How long what a process has left in its pipes may take after its end. */
const DRAIN_MS = 2000
const STATUS_MAX = 500
const FIRST_FD = 3

export interface Launched {
  readonly child: ChildProcess
  /** When it has ended and all of its output is here, or when it could not be started. Never rejects. */
  readonly ended: Promise<Ended>
  /** Asks all of the group to end, and kills what has not. Resolves when it is over. */
  stop(): Promise<Ended>
}

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** Why it could not be started at all. */
  readonly error?: NodeJS.ErrnoException | undefined
  /** False where the cell around it could not be made; true where there is none. */
  readonly isStanding: boolean
  /** Why the program in the cell could not be started. */
  readonly startFault?: string | undefined
}

/** The caller must attach its readers of the output at once, before it awaits anything else. */
export async function launch(
  cell: Cell,
  place: Place,
  argv: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<Launched> {
  const entry = await cell.enter(place, argv, environment)
  const {
    argv: [program = '', ...args],
    descriptors,
    user,
  } = entry
  let child: ChildProcess
  let ended: Promise<Ended>
  try {
    child = spawn(program, args, {
      cwd: entry.cwd,
      env: { ...entry.env },
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe', ...descriptors.map((each) => (typeof each === 'number' ? each : 'pipe'))],
      ...user,
    })
    // A program that does not read its input to the end is no failure of ours.
    child.stdin?.on('error', () => undefined)
    // Before anything is awaited: a program that is not there is told in the next tick.
    ended = endOf(child, serve(child, descriptors))
  } finally {
    // Not awaited: Node drops what a process has printed when it ends before anybody reads, and the caller reads only when
    // this returns.
    void entry.release().catch(() => undefined)
  }
  return {
    child,
    ended,
    stop: async () => {
      await askToEnd(child, entry.wrappers)
      const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), GRACE_MS)
      try {
        return await ended
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

/** Writes the texts, and answers with what the process has reported so far; nothing where it does not report. */
function serve({ stdio }: ChildProcess, descriptors: readonly Descriptor[]): () => string | undefined {
  let status: string | undefined
  for (const [at, descriptor] of descriptors.entries()) {
    const pipe = stdio[FIRST_FD + at]
    if (typeof descriptor === 'number' || !pipe) continue
    pipe.on('error', () => undefined)
    if (descriptor !== 'status') (pipe as Writable).end(descriptor.text)
    else {
      status = ''
      ;(pipe as Readable).setEncoding('utf8').on('data', (text: string) => {
        status = (status + text).slice(0, STATUS_MAX)
      })
    }
  }
  return () => status
}

function endOf(child: ChildProcess, statusOf: () => string | undefined): Promise<Ended> {
  const report = (): Pick<Ended, 'isStanding' | 'startFault'> => {
    const status = statusOf()
    if (status === undefined || status === STANDING) return { isStanding: true }
    if (!status.startsWith(STANDING)) return { isStanding: false, ...(status === '' ? {} : { startFault: status }) }
    return { isStanding: true, startFault: status.slice(STANDING.length) }
  }
  return new Promise((resolve) => {
    child.on('error', (error) => {
      if (child.pid === undefined) resolve({ code: null, signal: null, error, isStanding: statusOf() === undefined })
    })
    child.on('exit', (code, signal) => {
      // What it has left running in the background is not left running.
      signalGroup(child, 'SIGKILL')
      // A process that has left the group and holds a pipe is not waited for.
      void letGo(child)
      child.on('close', () => resolve({ code, signal, ...report() }))
    })
  })
}

async function letGo({ stdio }: ChildProcess): Promise<void> {
  await pause(DRAIN_MS, undefined, { ref: false })
  // Time may have passed because this process stood still: what has come meanwhile is read first.
  await turnOver()
  for (const pipe of stdio.slice(1)) pipe?.destroy()
}

/** Those in a cell have a session of their own, and ending the wrapper around them would kill them at once. */
async function askToEnd(child: ChildProcess, wrappers: number): Promise<void> {
  const inside = child.pid === undefined || wrappers === 0 ? [] : (await treeOf(child.pid)).slice(wrappers)
  if (inside.length === 0) signalGroup(child, 'SIGTERM')
  for (const pid of inside) signal(pid, 'SIGTERM')
}

function signalGroup({ pid }: ChildProcess, name: NodeJS.Signals): void {
  if (pid !== undefined) signal(-pid, name)
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It is gone already.
  }
}
