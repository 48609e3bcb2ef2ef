// Starts a process in a sandbox as leader of its own process group, and stops the whole group.
import { type ChildProcess, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as pause, setImmediate as turnOver } from 'node:timers/promises'
import { READY_MARK } from './bubblewrap/init-program.ts'
import type { Cell, CellResources, Descriptor } from './cell.ts'
import { processTree } from './resource-usage.ts'

/** Time between SIGTERM and SIGKILL. */
const GRACE_MS = 2000
/** Time to read the remaining output of a process after it exited. */
const DRAIN_MS = 2000
const STATUS_MAX = 500
const FIRST_FD = 3

export interface LaunchedProcess {
  readonly child: ChildProcess
  /** Resolves when the process exited and its output was read, or when it could not be started. Never rejects. */
  readonly ended: Promise<CellProcessExit>
  /** Sends SIGTERM to the group, then SIGKILL. Resolves when the process ended. */
  stop(): Promise<CellProcessExit>
}

export interface CellProcessExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** Why the process could not be spawned. */
  readonly error?: NodeJS.ErrnoException | undefined
  /** False if the sandbox could not be created; true if none is used. */
  readonly isCellReady: boolean
  /** Why the program could not be started in the sandbox. */
  readonly startFault?: string | undefined
}

/** The caller must attach output listeners before it awaits anything else. */
export async function launch(
  cell: Cell,
  resources: CellResources,
  argv: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<LaunchedProcess> {
  const spec = await cell.prepareSpawn(resources, argv, environment)
  const {
    argv: [program = '', ...args],
    descriptors,
    user,
  } = spec
  let child: ChildProcess
  let ended: Promise<CellProcessExit>
  try {
    child = spawn(program, args, {
      cwd: spec.cwd,
      env: { ...spec.env },
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe', ...descriptors.map((each) => (typeof each === 'number' ? each : 'pipe'))],
      ...user,
    })
    // The program may exit before it has read all of its input.
    child.stdin?.on('error', () => undefined)
    // Before any await: a missing program emits `error` in the next tick.
    ended = waitForExit(child, servePipes(child, descriptors))
  } finally {
    // Not awaited: Node drops output of a process that exits before listeners are attached, and the caller attaches them
    // after this returns.
    void spec.release().catch(() => undefined)
  }
  return {
    child,
    ended,
    stop: async () => {
      await terminate(child, spec.wrappers)
      const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), GRACE_MS)
      try {
        return await ended
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

/** Writes the texts, and returns a reader of the status so far; undefined if the process reports none. */
function servePipes({ stdio }: ChildProcess, descriptors: readonly Descriptor[]): () => string | undefined {
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

function waitForExit(child: ChildProcess, statusOf: () => string | undefined): Promise<CellProcessExit> {
  const report = (): Pick<CellProcessExit, 'isCellReady' | 'startFault'> => {
    const status = statusOf()
    if (status === undefined || status === READY_MARK) return { isCellReady: true }
    if (!status.startsWith(READY_MARK)) return { isCellReady: false, ...(status === '' ? {} : { startFault: status }) }
    return { isCellReady: true, startFault: status.slice(READY_MARK.length) }
  }
  return new Promise((resolve) => {
    child.on('error', (error) => {
      if (child.pid === undefined) resolve({ code: null, signal: null, error, isCellReady: statusOf() === undefined })
    })
    child.on('exit', (code, signal) => {
      // Kill background processes that it left.
      signalGroup(child, 'SIGKILL')
      // Do not wait for a process that left the group and keeps a pipe open.
      void destroyPipes(child)
      child.on('close', () => resolve({ code, signal, ...report() }))
    })
  })
}

async function destroyPipes({ stdio }: ChildProcess): Promise<void> {
  await pause(DRAIN_MS, undefined, { ref: false })
  // This process may have been suspended: read pending output first.
  await turnOver()
  for (const pipe of stdio.slice(1)) pipe?.destroy()
}

/** In a sandbox, only the inner processes get SIGTERM: terminating the wrapper would kill them at once. */
async function terminate(child: ChildProcess, wrappers: number): Promise<void> {
  const inside = child.pid === undefined || wrappers === 0 ? [] : (await processTree(child.pid)).slice(wrappers)
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
    // It has already exited.
  }
}
