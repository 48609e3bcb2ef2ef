// Starts a process in a cell, as the head of its own process group, and ends all of that group.
import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'
import { setTimeout as pause, setImmediate as turnOver } from 'node:timers/promises'
import type { Cell, Place } from './cell.ts'

/** Between asking and killing. */
const GRACE_MS = 2000
/** How long what a process has left in its pipes may take after its end. */
const DRAIN_MS = 2000

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
  /** Why it could not be started. */
  readonly error?: NodeJS.ErrnoException
}

export async function launch(
  cell: Cell,
  place: Place,
  argv: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<Launched> {
  const {
    argv: [program = '', ...args],
    env,
    cwd,
    argsOn3,
  } = await cell.enter(place, argv, environment)
  const child = spawn(program, args, {
    cwd,
    env: { ...env },
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe', ...(argsOn3 === undefined ? [] : ['pipe' as const])],
  })
  // Whoever does not read its input to the end is no failure of ours.
  child.stdin?.on('error', () => undefined)
  if (argsOn3 !== undefined) {
    const pipe = child.stdio[3] as Writable
    pipe.on('error', () => undefined)
    pipe.end(argsOn3)
  }
  const ended = endOf(child)
  return {
    child,
    ended,
    stop: async () => {
      signalGroup(child, 'SIGTERM')
      const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), GRACE_MS)
      try {
        return await ended
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

function endOf(child: ChildProcess): Promise<Ended> {
  return new Promise((resolve) => {
    child.on('error', (error) => {
      if (child.pid === undefined) resolve({ code: null, signal: null, error })
    })
    child.on('exit', (code, signal) => {
      // What it has left running in the background is not left running.
      signalGroup(child, 'SIGKILL')
      // Who has left the group and holds a pipe is not waited for.
      void letGo(child)
      child.on('close', () => resolve({ code, signal }))
    })
  })
}

async function letGo({ stdout, stderr }: ChildProcess): Promise<void> {
  await pause(DRAIN_MS, undefined, { ref: false })
  // Time may have passed because this process stood still: what has come meanwhile is read first.
  await turnOver()
  stdout?.destroy()
  stderr?.destroy()
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // It is gone already.
  }
}
