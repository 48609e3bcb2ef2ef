// Starts a process on this machine as leader of its own process group, and stops the whole group.
import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as pause, setImmediate as turnOver } from 'node:timers/promises'
import { guard } from '../lib/fault-boundary.ts'
import type { CellProcess, CellProcessExit, Descriptor, SpawnSpec } from './cell.ts'
import { READY_MARK } from './init-perl.ts'
import type { RunLimits } from './limits.ts'
import { processTree, watchUsage } from './resource-usage.ts'

/** Time between SIGTERM and SIGKILL. */
export const STOP_GRACE_MS = 2000
/** Time to read the remaining output of a process after it exited. */
export const DRAIN_MS = 2000
export const STATUS_MAX = 500
const FIRST_FD = 3

/** The caller must attach output listeners before it awaits anything else. */
export function spawnProcess(spec: SpawnSpec, limits: RunLimits): CellProcess {
  const {
    argv: [program = '', ...args],
    descriptors,
    user,
  } = spec
  let child: ChildProcessByStdio<Writable, Readable, Readable>
  let ended: Promise<CellProcessExit>
  try {
    const pipes = descriptors.map((each) => (typeof each === 'number' ? each : 'pipe'))
    const options = { cwd: spec.cwd, env: { ...spec.env }, detached: true, ...user }
    // The first three are pipes.
    child = spawn(program, args, { ...options, stdio: ['pipe', 'pipe', 'pipe', ...pipes] }) as typeof child
    // The program may exit before it has read all of its input.
    child.stdin.on('error', () => undefined)
    // Before any await: a missing program emits `error` in the next tick.
    ended = waitForExit(child, servePipes(child, descriptors))
  } finally {
    // Not awaited: Node drops output of a process that exits before listeners are attached, and the caller attaches them
    // after this returns.
    void spec.release().catch(() => undefined)
  }
  const { stdin, stdout, stderr, pid } = child
  return {
    stdin,
    stdout,
    stderr,
    ended,
    stop: async () => {
      await terminate(child, spec.wrappers)
      const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), STOP_GRACE_MS)
      try {
        return await ended
      } finally {
        clearTimeout(timer)
      }
    },
    watchUsage: (onExceeded) => (pid === undefined ? () => undefined : watchUsage(pid, limits, onExceeded)),
    setRef: (isReferenced) => setRef([child, ...child.stdio], isReferenced),
  }
}

export function setRef(handles: readonly unknown[], isReferenced: boolean): void {
  for (const handle of handles as (Partial<Socket> | null)[]) {
    // A closed pipe would add a listener for its next connection on each call.
    if (handle?.destroyed) continue
    if (isReferenced) handle?.ref?.()
    else handle?.unref?.()
  }
}

/** What the init program has written to its status descriptor; undefined without an init program. */
export function readStartStatus(status: string | undefined): Pick<CellProcessExit, 'isCellReady' | 'startFault'> {
  if (status === undefined || status === READY_MARK) return { isCellReady: true }
  if (!status.startsWith(READY_MARK)) return { isCellReady: false, ...(status === '' ? {} : { startFault: status }) }
  return { isCellReady: true, startFault: status.slice(READY_MARK.length) }
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
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => {
      if (child.pid === undefined) resolve({ code: null, signal: null, error, isCellReady: statusOf() === undefined })
    }
    const onExit = (code: number | null, signal: NodeJS.Signals | null): void => {
      // Kill background processes that it left.
      signalGroup(child, 'SIGKILL')
      // Do not wait for a process that left the group and keeps a pipe open.
      destroyPipes(child).catch(reject)
      const onClose = (): void => resolve({ code, signal, ...readStartStatus(statusOf()) })
      child.on('close', guard(reject, onClose))
    }
    child.on('error', guard(reject, onError))
    child.on('exit', guard(reject, onExit))
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
