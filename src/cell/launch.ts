// Starts a process on this machine as leader of its own process group, and stops it with all processes that it started.
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import type { Socket } from 'node:net'
import { PassThrough, type Readable } from 'node:stream'
import { setTimeout as pause, setImmediate as turnOver } from 'node:timers/promises'
import type { AgentUser } from '../core/agent-user.ts'
import { guard } from '../lib/fault-boundary.ts'
import type { CellProcess, CellProcessExit, Descriptor, SpawnSpec } from './cell.ts'
import { READY_MARK } from './init-perl.ts'
import type { RunLimits } from './limits.ts'
import { canOpenPipes, openPipe } from './pipe.ts'
import { openChildOf, type ProcessHandle } from './process-handle.ts'
import { watchUsage } from './resource-usage.ts'

/** Time between SIGTERM and SIGKILL. */
export const STOP_GRACE_MS = 2000
/** Time to read the remaining output of a process after it exited. */
const DRAIN_MS = 2000
/** How often to look whether a killed sandbox is gone. */
const GONE_MS = 5
export const STATUS_MAX = 500
/** Asks the init program to terminate all processes. */
const TERMINATE = 'T'

/** The caller must attach output listeners before it awaits anything else. */
export function spawnProcess(spec: SpawnSpec, limits: RunLimits): CellProcess {
  try {
    const wires = openWires(['input', 'output', 'output', ...spec.descriptors], spec.owner)
    return typeof wires === 'string' ? failedProcess(wires) : new SpawnedProcess(spec, wires, limits).process
  } finally {
    // Not awaited: the program may end before the caller, who attaches listeners, continues.
    void spec.release().catch(() => undefined)
  }
}

/** A run whose process could not be started. */
export function failedProcess(startFault: string): CellProcess {
  const ended = Promise.resolve({ code: null, signal: null, isCellReady: false, startFault })
  const stdin = new PassThrough()
  stdin.resume()
  return {
    stdin,
    stdout: new PassThrough().end(),
    stderr: new PassThrough().end(),
    ended,
    stop: () => ended,
    watchUsage: () => () => undefined,
    setRef: () => undefined,
  }
}

class SpawnedProcess {
  readonly process: CellProcess
  /** Rejected by a fault in a handler, which ends the run. */
  readonly #ended = Promise.withResolvers<CellProcessExit>()
  readonly #child: ChildProcess
  /** Our ends of its descriptors, by number. */
  readonly #streams: readonly (Socket | undefined)[]
  readonly #outputs: Readable[]
  /** Only of a sandbox. */
  readonly #control: Socket | undefined
  #status: string | undefined
  /** Process 1 of the sandbox, when it is ready. */
  #init: ProcessHandle | undefined

  constructor(
    { argv: [program = '', ...args], cwd, env, user, descriptors }: SpawnSpec,
    wires: readonly Wire[],
    limits: RunLimits,
  ) {
    try {
      const stdio = wires.map(({ theirs }) => theirs)
      this.#child = spawn(program, args, { cwd, env: { ...env }, detached: true, ...user, stdio })
    } catch (error) {
      for (const { ours } of wires) ours?.destroy()
      throw error
    } finally {
      closeTheirs(wires)
    }
    const child = this.#child
    // A pipe of Node is a socket.
    this.#streams = wires.map(({ ours }, at) => ours ?? (child.stdio[at] as Socket | null) ?? undefined)
    // The first three always exist.
    const [stdin, stdout, stderr] = this.#streams as readonly [Socket, Socket, Socket]
    this.#outputs = [stdout, stderr]
    this.#control = this.#serve(descriptors)
    // Before any await: a missing program emits `error` in the next tick.
    const ended = this.#waitForExit()
    const { pid } = child
    this.process = {
      stdin,
      stdout,
      stderr,
      ended,
      stop: async () => {
        if (this.#control) this.#control.write(TERMINATE)
        else this.#signal('SIGTERM')
        const timer = setTimeout(
          guard(this.#ended.reject, () => this.#kill()),
          STOP_GRACE_MS,
        )
        try {
          return await ended
        } finally {
          clearTimeout(timer)
        }
      },
      watchUsage: (onExceeded) => (pid === undefined ? () => undefined : watchUsage(pid, limits, onExceeded)),
      setRef: (isReferenced) => setRef([child, ...this.#streams], isReferenced),
    }
  }

  /** Writes the texts, reads the status, and returns the control pipe. */
  #serve(descriptors: readonly Descriptor[]): Socket | undefined {
    let control: Socket | undefined
    // The program may exit before it has read all of its input.
    for (const stream of this.#streams) stream?.on('error', () => undefined)
    for (const [at, descriptor] of descriptors.entries()) {
      const pipe = this.#streams[3 + at]
      if (!pipe) continue
      if (descriptor === 'control') control = pipe
      else if (descriptor === 'status') this.#readStatus(pipe)
      else if (typeof descriptor === 'object') pipe.end(descriptor.text)
    }
    return control
  }

  #readStatus(pipe: Socket): void {
    this.#status = ''
    this.#outputs.push(pipe)
    const onText = (text: string): void => {
      this.#status = (this.#status + text).slice(0, STATUS_MAX)
      const { pid, exitCode, signalCode } = this.#child
      const isRunning = pid !== undefined && exitCode === null && signalCode === null
      if (isRunning && this.#status.startsWith(READY_MARK)) this.#init ??= openChildOf(pid)
    }
    pipe.setEncoding('utf8').on('data', guard(this.#ended.reject, onText))
  }

  #waitForExit(): Promise<CellProcessExit> {
    const { promise, resolve, reject } = this.#ended
    const onError = (error: Error): void => {
      if (this.#child.pid !== undefined) return
      for (const stream of this.#streams) stream?.destroy()
      resolve({ code: null, signal: null, error, isCellReady: this.#status === undefined })
    }
    const onExit = async (code: number | null, signal: NodeJS.Signals | null): Promise<void> => {
      // Kill background processes that it left.
      this.#signal('SIGKILL')
      await this.#finish()
      resolve({ code, signal, ...readStartStatus(this.#status) })
    }
    this.#child.on('error', guard(reject, onError))
    this.#child.on('exit', guard(reject, onExit))
    return promise
  }

  /** Bubblewrap exits after its sandbox, unless it is killed: then its sandbox is, too, but a little later. */
  async #finish(): Promise<void> {
    for (const stream of this.#streams) if (stream && !this.#outputs.includes(stream)) stream.destroy()
    while (this.#init?.hasExited() === false) {
      this.#init.kill()
      await pause(GONE_MS)
    }
    this.#init?.close()
    this.#init = undefined
    await drain(this.#outputs)
  }

  /** Bubblewrap itself is killed only if its sandbox is not ready: it exits when its sandbox is gone. */
  #kill(): void {
    if (this.#init) this.#init.kill()
    else this.#signal('SIGKILL')
  }

  #signal(name: NodeJS.Signals): void {
    const { pid } = this.#child
    try {
      if (pid !== undefined) process.kill(-pid, name)
    } catch {
      // It has already exited.
    }
  }
}

/** One descriptor of a new process, and our end of it. */
interface Wire {
  readonly theirs: number | 'pipe'
  readonly ours?: Socket
}

/** Returns why it could not. */
function openWires(
  descriptors: readonly (Descriptor | 'input' | 'output')[],
  owner: AgentUser | undefined,
): Wire[] | string {
  const wires: Wire[] = []
  try {
    for (const each of descriptors) {
      if (typeof each === 'number') wires.push({ theirs: each })
      else if (!canOpenPipes()) wires.push({ theirs: 'pipe' })
      else wires.push(openPipe(each === 'output' || each === 'status' ? 'output' : 'input', owner))
    }
    return wires
  } catch (error) {
    closeTheirs(wires)
    for (const { ours } of wires) ours?.destroy()
    return error instanceof Error ? error.message : String(error)
  }
}

/** Others belong to the caller. */
function closeTheirs(wires: readonly Wire[]): void {
  for (const { theirs, ours } of wires) if (typeof theirs === 'number' && ours) closeSync(theirs)
}

/** Waits until all output is read, but not for a process that left the group and keeps a pipe open. */
export async function drain(streams: readonly Readable[]): Promise<void> {
  const open = streams.filter((stream) => !stream.closed)
  const ends = open.map((stream) => new Promise((resolve) => void stream.once('close', resolve)))
  for (const stream of open) if (!stream.readableFlowing) stream.resume()
  const stopping = new AbortController()
  const late = pause(DRAIN_MS, undefined, { ref: false, signal: stopping.signal })
    // This process may have been suspended: read pending output first.
    .then(() => turnOver())
    .catch(() => undefined)
  await Promise.race([Promise.all(ends), late])
  stopping.abort()
  for (const stream of open) stream.destroy()
}

export function setRef(handles: readonly unknown[], isReferenced: boolean): void {
  for (const handle of handles as (Partial<Socket> | null | undefined)[]) {
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
