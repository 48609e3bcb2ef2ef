// The parent of a served instance: starts the front and, when the front asks for it, the runner; restarts the one that ends or
// shows no sign of life; connects them with each other and passes its signals on. It opens neither a store nor a listener, so that nothing
// that happens to its children can happen to it.
import type { ChildProcess } from 'node:child_process'
import { Socket } from 'node:net'
import {
  type DaemonAddresses,
  PEER_FD,
  type PeerMessage,
  type ProcessRole,
  type ProcessStatus,
  ROLE_VARIABLE,
  type ToChild,
  type ToParent,
  URLS_VARIABLE,
} from './messages.ts'

/** A child says every second that it is alive, as soon as it is ready. */
const SILENCE_MS = 5000
/** How long a child that replaces another one may take to be ready. The first front may have to migrate a large store. */
const START_MS = 60_000
const CHECK_MS = 250
/** If the parent itself was stopped for longer than this, it gives its children time to be heard. */
const LATE_MS = 1000
/** Exit code of a command that says why it ends. */
const REFUSED = 1
const RESTART_MS = 100
const RESTART_MAX_MS = 30_000
/** A process that ran for this long starts again without a growing pause. */
const STEADY_MS = 10_000

export interface SupervisorOptions {
  /** Starts the program with these environment variables, an IPC channel, and a pipe as its `PEER_FD`. */
  spawn(variables: Readonly<Record<string, string>>): ChildProcess
  /** Called once, when the front is ready for the first time. */
  onReady?(): void
  /** Called while all running children show life. */
  onAlive?(): void
  /** Called when a child has ended unexpectedly and starts again. */
  onRestart?(role: ProcessRole, reason: string, pauseMs: number): void
  /** After this time without a sign of life a child is killed. */
  readonly silenceMs?: number
}

interface Child {
  readonly process: ChildProcess
  readonly startedAt: number
  /** Undefined until it is ready. */
  heardAt: number | undefined
  /** Why the parent killed it. */
  killReason?: string
  /** Messages wait in the channel: more are dropped. */
  isFull: boolean
}

export class Supervisor {
  readonly #options: SupervisorOptions
  readonly #children: Partial<Record<ProcessRole, Child>> = {}
  readonly #statuses: Record<ProcessRole, ProcessStatus> = {
    front: { role: 'front', restarts: 0 },
    runner: { role: 'runner', restarts: 0 },
  }
  readonly #pauses: Partial<Record<ProcessRole, number>> = {}
  readonly #restarts = new Set<NodeJS.Timeout>()
  readonly #ended = Promise.withResolvers<number>()
  #urls: DaemonAddresses | undefined
  #checkedAt = performance.now()
  #isStopping = false
  #exitCode = 0

  constructor(options: SupervisorOptions) {
    this.#options = options
  }

  /** Resolves to the exit code: that of a front that ended with a reason, or 0 after `stop`. */
  async run(): Promise<number> {
    const check = setInterval(() => this.#checkLife(), CHECK_MS)
    this.#start('front')
    try {
      return await this.#ended.promise
    } finally {
      clearInterval(check)
    }
  }

  /** Asks the children to end; the second time, kills them. */
  stop(): void {
    const signal = this.#isStopping ? 'SIGKILL' : 'SIGTERM'
    this.#isStopping = true
    for (const restart of this.#restarts) clearTimeout(restart)
    for (const child of Object.values(this.#children)) child.process.kill(signal)
    this.#endIfOver()
  }

  #start(role: ProcessRole): void {
    if (this.#isStopping || this.#children[role]) return
    const urls = role === 'front' && this.#urls ? { [URLS_VARIABLE]: JSON.stringify(this.#urls) } : {}
    const child: Child = {
      process: this.#options.spawn({ [ROLE_VARIABLE]: role, ...urls }),
      startedAt: performance.now(),
      heardAt: undefined,
      isFull: false,
    }
    this.#children[role] = child
    this.#setStatus(role, { pid: child.process.pid, started_at: new Date().toISOString() })
    this.#connectPeers(role, child)
    child.process.on('message', (message: ToParent) => this.#receive(role, child, message))
    // A failed start has no exit. A message that could not be sent is only lost.
    child.process.on('error', (error) => {
      if (child.process.pid === undefined) this.#onEnd(role, child, 1, error.message)
    })
    child.process.on('exit', (code, signal) =>
      this.#onEnd(
        role,
        child,
        exitCodeOf(code, signal),
        child.killReason ?? describeExit(code, signal),
        code === REFUSED,
      ),
    )
  }

  #receive(role: ProcessRole, child: Child, message: ToParent): void {
    child.heardAt = performance.now()
    if (message.kind === 'start-runner') this.#start('runner')
    if (message.kind === 'peer') this.#relay(peerOf(role), message.message)
    if (message.kind !== 'ready') return
    if (role === 'front') {
      if (!this.#urls) this.#options.onReady?.()
      this.#urls = message.urls
    }
    this.#publish()
  }

  /** So that a message wakes up one process instead of two. The next start of either makes another socket. */
  #connectPeers(role: ProcessRole, { process }: Child): void {
    const end = process.stdio[PEER_FD]
    const other = this.#children[peerOf(role)]
    if (!(end instanceof Socket)) return
    if (other?.process.connected) other.process.send({ kind: 'peer-socket' } satisfies ToChild, end)
    else end.destroy()
  }

  #relay(to: ProcessRole, message: PeerMessage): void {
    const child = this.#children[to]
    // Before it is ready it reads the store anyway.
    if (child?.heardAt !== undefined) send(child, { kind: 'peer', message })
  }

  #onEnd(role: ProcessRole, child: Child, code: number, reason: string, isDeliberate = false): void {
    if (this.#children[role] !== child) return
    delete this.#children[role]
    // A front that refuses to start or to go on has said why, and another one would do the same.
    const isOver = role === 'front' && (!this.#urls || isDeliberate)
    if (isOver || this.#isStopping) {
      if (role === 'front') this.#exitCode = code
      if (this.#isStopping) this.#endIfOver()
      else this.stop()
      return
    }
    const isSteady = performance.now() - child.startedAt >= STEADY_MS
    const pauseMs = isSteady ? RESTART_MS : (this.#pauses[role] ?? RESTART_MS)
    this.#pauses[role] = Math.min(pauseMs * 2, RESTART_MAX_MS)
    const { restarts } = this.#statuses[role]
    const last_end = { at: new Date().toISOString(), reason }
    this.#setStatus(role, { pid: undefined, started_at: undefined, restarts: restarts + 1, last_end })
    this.#options.onRestart?.(role, reason, pauseMs)
    const restart = setTimeout(() => {
      this.#restarts.delete(restart)
      this.#start(role)
    }, pauseMs)
    this.#restarts.add(restart)
  }

  #endIfOver(): void {
    if (Object.keys(this.#children).length === 0) this.#ended.resolve(this.#exitCode)
  }

  #checkLife(): void {
    const now = performance.now()
    const wasLate = now - this.#checkedAt > CHECK_MS + LATE_MS
    this.#checkedAt = now
    let isAlive = true
    for (const child of Object.values(this.#children)) {
      if (wasLate && child.heardAt !== undefined) child.heardAt = now
      const silentMs = this.#silenceOf(child, now)
      if (silentMs === undefined) continue
      isAlive = false
      child.killReason ??= `it showed no sign of life for ${silentMs / 1000} s`
      child.process.kill('SIGKILL')
    }
    if (isAlive) this.#options.onAlive?.()
  }

  /** The limit that the child has exceeded. */
  #silenceOf({ heardAt, startedAt }: Child, now: number): number | undefined {
    const { silenceMs = SILENCE_MS } = this.#options
    if (heardAt !== undefined) return now - heardAt > silenceMs ? silenceMs : undefined
    return this.#urls && now - startedAt > START_MS ? START_MS : undefined
  }

  #setStatus(role: ProcessRole, change: Partial<ProcessStatus>): void {
    this.#statuses[role] = { ...this.#statuses[role], ...change }
    this.#publish()
  }

  /** Tells the front, for `svc doctor` and the dashboard. */
  #publish(): void {
    const { front } = this.#children
    if (front?.heardAt !== undefined) send(front, { kind: 'processes', processes: Object.values(this.#statuses) })
  }
}

function peerOf(role: ProcessRole): ProcessRole {
  return role === 'front' ? 'runner' : 'front'
}

function send(child: Child, message: ToChild): void {
  if (child.isFull || !child.process.connected) return
  const isAccepted = child.process.send(message, () => {
    child.isFull = false
  })
  if (!isAccepted) child.isFull = true
}

/** A process that is stopped before it listens for signals ends by one. */
function exitCodeOf(code: number | null, signal: NodeJS.Signals | null): number {
  return signal === 'SIGTERM' ? 0 : (code ?? 1)
}

function describeExit(code: number | null, signal: NodeJS.Signals | null): string {
  return signal ? `it was ended by ${signal}` : `it ended with exit code ${code}`
}
