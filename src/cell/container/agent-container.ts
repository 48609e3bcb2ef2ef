// One container and its first process, which runs one program at a time.
import type { Socket } from 'node:net'
import { constants } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import type { AgentUser } from '../../core/agent-user.ts'
import { guard } from '../../lib/fault-boundary.ts'
import { refuse } from '../../lib/refusal.ts'
import { formatDuration } from '../../lib/text/duration.ts'
import type { CellProcess, CellProcessExit } from '../cell.ts'
import { drain, readStartStatus, STATUS_MAX, STOP_GRACE_MS, setRef } from '../launch.ts'
import type { RunLimits } from '../limits.ts'
import { type AgentPipe, openPipe } from '../pipe.ts'
import type { ContainerDirectory } from './container-directory.ts'
import type { PooledContainer } from './container-pool.ts'
import { closeAll, type DescriptorSender } from './descriptor-sender.ts'
import type { EngineClient } from './engine-client.ts'
import { KILL, RUN, TERMINATE } from './init-program.ts'

/** From the start of a container until its first process has connected. */
const CONNECT_MS = 30_000
/** From SIGKILL until the container is removed, and for the removal of temporary files. */
const UNRESPONSIVE_MS = 10_000
const LINE_MAX = 65_536

/** What the first process reports. */
interface InitReport {
  /** Device and inode of each mount. */
  readonly identities: readonly string[]
  /** Path of svc's command in the image; empty if there is none. */
  readonly svc: string
  readonly node: string
  /** Directory of svc's code in its package. */
  readonly code: string
}

interface UsageReport {
  readonly cpuMs: number
  /** Processes that the kernel killed because the container has no memory left. */
  readonly killed: number
}

/** The program that the container runs. */
interface CurrentProgram {
  onUsage(usage: UsageReport): void
  onExit(status: number, killed: number): void
  onLost(): void
}

export interface ContainerOptions {
  readonly engine: EngineClient
  readonly sender: DescriptorSender
  readonly directory: ContainerDirectory
  readonly body: object
  /** The user of its processes, if it is not the user of svc. */
  readonly user: AgentUser | undefined
  readonly limits: RunLimits
  onError(error: unknown): void
}

export class AgentContainer implements PooledContainer {
  readonly directory: ContainerDirectory
  readonly report: InitReport
  readonly #options: ContainerOptions
  readonly #id: string
  readonly #control: Socket
  readonly #lines: AsyncGenerator<readonly string[], void>
  #current: CurrentProgram | undefined
  #clean = Promise.withResolvers<boolean>()
  #onRemoved: () => void = () => undefined
  #removing: Promise<void> | undefined
  /** False when it has ended or must not be used again. */
  isUsable = true

  private constructor(
    options: ContainerOptions,
    {
      id,
      control,
      lines,
      report,
    }: { id: string; control: Socket; lines: AsyncGenerator<readonly string[], void>; report: InitReport },
  ) {
    this.#options = options
    this.directory = options.directory
    this.report = report
    this.#id = id
    this.#control = control
    this.#lines = lines
    this.#listen().catch((error) => {
      options.onError(error)
      this.#end()
    })
  }

  /** Starts a container and waits for its report. Removes it if anything fails. */
  static async open(options: ContainerOptions): Promise<AgentContainer> {
    const { engine, directory, body, onError } = options
    const connected = Promise.withResolvers<Socket>()
    const listening = await directory.listenForInit(connected.resolve)
    let id: string | undefined
    try {
      id = await engine.create(directory.name, body)
      await engine.start(id)
      const control = await Promise.race([connected.promise, pause(CONNECT_MS, undefined, { ref: false })])
      if (!control) refuse('unavailable', `its first process did not start within ${formatDuration(CONNECT_MS)}`)
      control.on('error', () => undefined)
      const lines = readLines(control)
      const report = await Promise.race([readReport(lines), pause(CONNECT_MS, undefined, { ref: false })])
      if (!report) refuse('unavailable', 'its first process does not answer')
      return new AgentContainer(options, { id, control, lines, report })
    } catch (error) {
      listening.close()
      connected.promise.then((control) => control.destroy()).catch(onError)
      // By name: a call without an answer may have made it.
      await engine.remove(id ?? directory.name).catch(onError)
      directory.remove()
      throw error
    }
  }

  /** `order` is what the first process reads; `handover` is passed on to the program's listener. */
  start(order: string, handover: number | undefined): CellProcess {
    const { sender, limits } = this.#options
    this.#clean = Promise.withResolvers()
    const pipes = this.#openPipes()
    const theirs = [...pipes.map((pipe) => pipe.theirs), ...(handover === undefined ? [] : [handover])]
    const isSent = sender.send(descriptorOf(this.#control), RUN, theirs)
    closeAll(pipes.map((pipe) => pipe.theirs))
    const [fields, status, stdin, stdout, stderr] = pipes.map(({ ours }) => ours) as [
      Socket,
      Socket,
      Socket,
      Socket,
      Socket,
    ]
    fields.end(order)
    let startStatus = ''
    status.setEncoding('utf8').on('data', (text: string) => {
      startStatus = (startStatus + text).slice(0, STATUS_MAX)
    })
    const { promise: ended, resolve, reject } = Promise.withResolvers<CellProcessExit>()
    const watchers = new Set<(usage: UsageReport) => void>()
    const finish = async (exit: Omit<CellProcessExit, 'isCellReady'>): Promise<void> => {
      this.#current = undefined
      for (const input of [fields, stdin]) input.destroy()
      await drain([status, stdout, stderr])
      resolve({ ...exit, ...readStartStatus(startStatus) })
    }
    const lose = async (): Promise<void> => {
      this.#current = undefined
      // What the first process has written before may not be read yet.
      await drain([status])
      for (const { ours } of pipes) ours.destroy()
      resolve({ code: null, signal: null, ...readStartStatus(startStatus), cellFault: 'its container ended' })
    }
    this.#current = {
      onUsage: (usage) => {
        for (const watcher of watchers) watcher(usage)
      },
      onExit: (code, killed) => {
        for (const watcher of watchers) watcher({ cpuMs: 0, killed })
        finish(parseWaitStatus(code)).catch(reject)
      },
      onLost: () => void lose().catch(reject),
    }
    if (!isSent || this.#control.destroyed) this.#lose()
    return {
      stdin,
      stdout,
      stderr,
      ended,
      stop: () => this.#stop(ended),
      watchUsage: (onExceeded) => {
        const watcher = (usage: UsageReport): void => {
          const reason = describeExcess(usage, limits)
          if (reason === undefined || !watchers.delete(watcher)) return
          onExceeded(reason)
        }
        watchers.add(watcher)
        return () => watchers.delete(watcher)
      },
      setRef: (isReferenced) => setRef([this.#control, ...pipes.map(({ ours }) => ours)], isReferenced),
    }
  }

  /** Resolves when nothing of the last program is left, with whether another one may run. */
  async awaitClean(): Promise<boolean> {
    const waiting = new AbortController()
    const late = pause(UNRESPONSIVE_MS, false, { ref: false, signal: waiting.signal }).catch(() => false)
    const isClean = await Promise.race([this.#clean.promise, late])
    waiting.abort()
    return isClean && this.isUsable
  }

  setRef(isReferenced: boolean): void {
    setRef([this.#control], isReferenced)
  }

  onRemoved(callback: () => void): void {
    this.#onRemoved = callback
  }

  remove(): Promise<void> {
    this.isUsable = false
    this.#removing ??= this.#remove().catch(this.#options.onError)
    return this.#removing
  }

  async #remove(): Promise<void> {
    const { engine, onError } = this.#options
    this.#control.destroy()
    this.#lose()
    await engine.remove(this.#id).catch(onError)
    this.directory.remove()
    this.#onRemoved()
  }

  /** For the order and the status of a program, and its standard input, output and error. */
  #openPipes(): AgentPipe[] {
    const opened: AgentPipe[] = []
    try {
      for (const direction of ['input', 'output', 'input', 'output', 'output'] as const)
        opened.push(openPipe(direction, this.#options.user))
      return opened
    } catch (error) {
      closeAll(opened.map((pipe) => pipe.theirs))
      for (const { ours } of opened) ours.destroy()
      throw error
    }
  }

  async #stop(ended: Promise<CellProcessExit>): Promise<CellProcessExit> {
    this.#control.write(TERMINATE)
    const { onError } = this.#options
    const kill = setTimeout(
      guard(onError, () => this.#control.write(KILL)),
      STOP_GRACE_MS,
    )
    const remove = setTimeout(
      guard(onError, () => this.remove()),
      STOP_GRACE_MS + UNRESPONSIVE_MS,
    )
    try {
      return await ended
    } finally {
      clearTimeout(kill)
      clearTimeout(remove)
    }
  }

  async #listen(): Promise<void> {
    for await (const [kind, ...values] of this.#lines) {
      const [first = 0, second = 0] = values.map(Number)
      if (kind === 'u') this.#current?.onUsage({ cpuMs: first, killed: second })
      else if (kind === 'x') this.#current?.onExit(first, second)
      else if (kind === 'c' || kind === 'd') this.#clean.resolve(kind === 'c')
    }
    this.#end()
  }

  #end(): void {
    this.#lose()
    // The engine may be gone as well.
    this.remove().catch(this.#options.onError)
  }

  #lose(): void {
    this.isUsable = false
    this.#current?.onLost()
    this.#clean.resolve(false)
  }
}

async function* readLines(socket: Socket): AsyncGenerator<readonly string[], void> {
  let rest = ''
  try {
    for await (const chunk of socket.setEncoding('utf8')) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      if (rest.length > LINE_MAX) return
      for (const line of lines) yield line.split('\t')
    }
  } catch {
    // The connection was closed here.
  }
}

async function readReport(lines: AsyncGenerator<readonly string[], void>): Promise<InitReport> {
  const [kind, ...identities] = (await lines.next()).value ?? []
  const [, svc = '', node = '', code = ''] = (await lines.next()).value ?? []
  if (kind !== 'm') refuse('unavailable', 'its first process ended')
  return { identities, svc, node, code }
}

const SIGNALS = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name as NodeJS.Signals]))

/** As `waitpid` returns it. */
function parseWaitStatus(status: number): Pick<CellProcessExit, 'code' | 'signal'> {
  const signal = status & 0x7f
  return signal === 0 ? { code: status >> 8, signal: null } : { code: null, signal: SIGNALS.get(signal) ?? 'SIGKILL' }
}

function describeExcess({ cpuMs, killed }: UsageReport, limits: RunLimits): string | undefined {
  if (cpuMs > limits.cpuMs) return `it used more than ${formatDuration(limits.cpuMs)} of processor time`
  return killed > 0 ? `it used more than ${Math.round(limits.memoryBytes / 1_048_576)} MiB of memory` : undefined
}

/** Node does not expose it otherwise. */
function descriptorOf(socket: Socket): number {
  const handle: unknown = Reflect.get(socket, '_handle')
  const fd: unknown = typeof handle === 'object' && handle !== null ? Reflect.get(handle, 'fd') : undefined
  return typeof fd === 'number' ? fd : -1
}
