// The line between two processes: what one has committed, the other looks at immediately. On SQLite the commit of another
// process would otherwise be noticed by a poll. Front and runner have a socket; for other processes see `line-client.ts`.
import { type CommitSignals, WORK_KINDS, type WorkKind } from '../../lib/commit-signals.ts'
import type { FaultBoundary } from '../../lib/fault-boundary.ts'
import { defineHistogram } from '../../lib/log/metric-registry.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { PeerMessage, ProcessStatus } from '../../supervisor/messages.ts'
import type { ProcessLine } from '../../supervisor/process-line.ts'

const METRICS_TIMEOUT_MS = 2000
/** More keys than this in one message concern every reader. */
export const KEYS_MAX = 256

const LOCK_WAIT = defineHistogram(
  'svc_store_lock_wait_seconds',
  'Time that a commit waited for the writes of another process',
  [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10],
)

/** The runner as the front sees it. */
export interface RunnerProcess {
  /** Has it started, if it is not running. */
  start(): void
  /** Both processes, as the parent last described them. */
  readonly processes: readonly ProcessStatus[]
  /** Undefined if no runner answers. */
  metrics(): Promise<string | undefined>
}

/** Only hints: a message that cannot be sent now is dropped. */
export interface SignalLine extends Pick<ProcessLine, 'onPeerMessage'> {
  /** Commits until the promise resolves are sent as one message. Must not throw. */
  sendToPeer(message: PeerMessage): void | Promise<void>
}

export interface SignalExchange {
  /** Work that the other process does. */
  readonly work: readonly WorkKind[]
  /** Whether it has readers, who wait for keys. */
  readonly hasKeys: boolean
  /** Whether this process does the work that it is told of without looking for it first. */
  readonly isEager: boolean
}

/** Nothing in the runner waits for keys; all it does is claim turns. */
export const FRONT_SIGNALS: SignalExchange = { work: ['turns'], hasKeys: false, isEager: false }
export const RUNNER_SIGNALS: SignalExchange = { work: WORK_KINDS, hasKeys: true, isEager: true }

/** Passes commit signals on in both directions, at most once per commit. Returns a function that stops it. */
export function bridgeSignals(
  line: SignalLine,
  { signals, preCommitSignals, faults }: Pick<InstanceHost, 'signals' | 'preCommitSignals' | 'faults'>,
  exchange: SignalExchange,
): () => void {
  let pending: { keys: Set<string> | undefined; work: Set<WorkKind> } | undefined
  let isSending = false
  let isRelaying = false
  const flush = async (): Promise<void> => {
    isSending = true
    try {
      while (pending) {
        const { keys, work } = pending
        pending = undefined
        await line.sendToPeer({ kind: 'commit', ...(keys ? { keys: [...keys] } : {}), work: [...work] })
      }
    } finally {
      pending = undefined
      isSending = false
    }
  }
  const guardedFlush = faults.guard('signal', flush)
  const stop = signals.on((keys, work) => {
    const wanted = work.filter((kind) => exchange.work.includes(kind))
    const shown = exchange.hasKeys ? keys : []
    if (isRelaying || (wanted.length === 0 && shown?.length === 0)) return
    if (!pending) {
      pending = { keys: new Set(), work: new Set() }
      if (!isSending) queueMicrotask(guardedFlush)
    }
    for (const kind of wanted) pending.work.add(kind)
    for (const key of shown ?? []) pending.keys?.add(key)
    if (!shown || (pending.keys?.size ?? 0) > KEYS_MAX) pending.keys = undefined
  })
  const receive = (message: PeerMessage): void => {
    isRelaying = true
    try {
      receiveCommits(message, exchange.isEager ? preCommitSignals : signals)
    } finally {
      isRelaying = false
    }
  }
  line.onPeerMessage(receive, faults.handler('signal'))
  return stop
}

export function measureLockWait({ engine, metrics }: Pick<InstanceHost, 'engine' | 'metrics'>): void {
  metrics.declare([LOCK_WAIT])
  engine.writeLock?.onWait((seconds) => metrics.observe(LOCK_WAIT, {}, seconds))
}

/** Without it, a process that writes all the time could keep the other from writing. */
export function shareWriteLock(line: ProcessLine, { engine, faults }: Pick<InstanceHost, 'engine' | 'faults'>): void {
  const { writeLock } = engine
  writeLock?.onBusy(() => line.sendToPeer({ kind: 'lock-wanted' }))
  const receive = (message: PeerMessage): void => {
    if (message.kind === 'lock-wanted') writeLock?.giveWay()
  }
  line.onPeerMessage(receive, faults.handler('signal'))
}

/** Emits the signal that another process has sent. */
export function receiveCommits(message: PeerMessage, signals: CommitSignals): void {
  if (message.kind === 'commit') signals.emit(message.keys, message.work as readonly WorkKind[])
}

/** For the front. */
export function openRunnerProcess(line: ProcessLine, faults: FaultBoundary): RunnerProcess {
  const waiting = new Map<number, (text: string | undefined) => void>()
  let lastId = 0
  const receive = (message: PeerMessage): void => {
    if (message.kind === 'metrics') waiting.get(message.id)?.(message.text)
  }
  line.onPeerMessage(receive, faults.handler('job'))
  return {
    start: () => line.startRunner(),
    get processes() {
      return line.processes
    },
    metrics: async () => {
      const isRunning = line.processes.some(({ role, pid }) => role === 'runner' && pid !== undefined)
      if (!isRunning) return undefined
      const id = ++lastId
      const answer = Promise.withResolvers<string | undefined>()
      waiting.set(id, answer.resolve)
      const timer = setTimeout(() => answer.resolve(undefined), METRICS_TIMEOUT_MS)
      line.sendToPeer({ kind: 'ask-metrics', id })
      try {
        return await answer.promise
      } finally {
        clearTimeout(timer)
        waiting.delete(id)
      }
    },
  }
}

/** For the runner. */
export function answerMetrics(line: ProcessLine, text: () => Promise<string>, faults: FaultBoundary): void {
  const onFault = faults.handler('job')
  const receive = (message: PeerMessage): void => {
    if (message.kind !== 'ask-metrics') return
    const { id } = message
    // The front shows what it has if no answer arrives.
    text()
      .then((answer) => line.sendToPeer({ kind: 'metrics', id, text: answer }))
      .catch(onFault)
  }
  line.onPeerMessage(receive, onFault)
}
