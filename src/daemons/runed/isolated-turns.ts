// Runs suspect turns, each in a process of its own: if one of them ends its process, the others go on.
import type { ChildProcess } from 'node:child_process'
import { listDueSuspects, type WorkspaceAvailability } from '../../core/turns/turn-claim.ts'
import type { Log } from '../../lib/log/log.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { ToParent } from '../../supervisor/messages.ts'
import { receiveDrafts } from '../process/draft-relay.ts'
import type { ProcessEntry } from '../process/process-entry.ts'
import { receiveCommits } from '../process/runner-process.ts'
import { StoreWatcher } from '../process/store-watcher.ts'

/** Each takes the memory of a runner. */
const PROCESSES_MAX = 2
const SILENCE_MS = 5000
const CHECK_MS = 500
/** Before the same turn is given to another process, if one ended without it. */
const REPEAT_MS = 5000

export interface IsolatedTurnsOptions {
  readonly host: InstanceHost
  readonly log: Log
  readonly entry: Pick<ProcessEntry, 'findCrashes'>
  readonly leaseMs: number
  readonly workspaces: WorkspaceAvailability
  /** Starts a runner of this turn alone. */
  spawn(turnId: string): ChildProcess
}

export class IsolatedTurns {
  readonly #options: IsolatedTurnsOptions
  readonly #watcher: StoreWatcher
  readonly #running = new Map<string, ChildProcess>()
  readonly #endedAt = new Map<string, number>()
  #isClosed = false

  constructor(options: IsolatedTurnsOptions) {
    this.#options = options
    this.#watcher = new StoreWatcher({ host: options.host, work: 'turns', check: () => this.#check() })
  }

  /** Stops the processes, which release their turns. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#watcher.close()
    const ends = [...this.#running.values()].map((child) => new Promise((resolve) => child.once('exit', resolve)))
    for (const child of this.#running.values()) child.kill('SIGTERM')
    await Promise.all(ends)
  }

  async #check(): Promise<void> {
    const { host, leaseMs, workspaces } = this.#options
    const now = host.clock.now()
    const due = await host.engine.read((tx) => listDueSuspects(tx, host.rules, { now, leaseMs, workspaces }))
    for (const [id, at] of this.#endedAt) if (performance.now() - at > REPEAT_MS) this.#endedAt.delete(id)
    for (const id of due) {
      if (this.#isClosed || this.#running.size >= PROCESSES_MAX) return
      if (!this.#running.has(id) && !this.#endedAt.has(id)) this.#start(id)
    }
  }

  #start(turnId: string): void {
    const { host, log, entry, spawn } = this.#options
    log.warn({ turn: turnId }, 'the process that ran this turn has ended; the turn runs in a process of its own')
    const child = spawn(turnId)
    this.#running.set(turnId, child)
    let heardAt: number | undefined
    const receive = (message: ToParent): void => {
      heardAt = performance.now()
      if (message.kind !== 'peer') return
      receiveCommits(message.message, host.signals)
      receiveDrafts(message.message, host, { isLocal: true })
    }
    child.on('message', host.faults.guard('signal', receive))
    const life = setInterval(() => {
      if (heardAt !== undefined && performance.now() - heardAt > SILENCE_MS) child.kill('SIGKILL')
    }, CHECK_MS).unref()
    const onEnd = (): void => {
      clearInterval(life)
      if (!this.#running.delete(turnId)) return
      this.#endedAt.set(turnId, performance.now())
      // It has counted against the turn if the process ended unexpectedly.
      entry
        .findCrashes()
        .then(() => host.signals.emit([], ['turns']))
        .catch(host.faults.handler('job'))
    }
    child.once('exit', onEnd)
    child.once('error', onEnd)
  }
}
