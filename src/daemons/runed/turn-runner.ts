// Claims waiting turns, runs them with a runtime, and records how each ends. See docs/decisions.md#final-state-of-every-message.
import { setTimeout as pause } from 'node:timers/promises'
import { type Channel, isLinkChat } from '../../core/delivery/channel.ts'
import { filterOutput } from '../../core/delivery/output-filter.ts'
import { readConfigFingerprint } from '../../core/groups/config-fingerprint.ts'
import { lockTurnOrder } from '../../core/messages/messages.ts'
import { ENDED_TWICE } from '../../core/processes/suspects.ts'
import { describePause } from '../../core/turns/budget.ts'
import { conversations, folderTurns, resetSessionOf } from '../../core/turns/conversations.ts'
import { type WriteContext, writeContextOf } from '../../core/turns/rounds.ts'
import { CRASHES_MAX } from '../../core/turns/suspect-turns.ts'
import {
  ATTEMPTS_MAX,
  type ClaimChoice,
  type ClaimedTurn,
  type ClaimOptions,
  checkClaimable,
  claimTurn,
  DEATHS_MAX,
  explainMissingWorkspace,
  listFoldersWithOpenBreaker,
  listUnexplainedFolders,
  renewTurn,
  type WorkspaceAvailability,
} from '../../core/turns/turn-claim.ts'
import { TurnCost } from '../../core/turns/turn-cost.ts'
import { FAILURE_MESSAGES, STOPPED_REASON, sentenceOf, type TurnFailure } from '../../core/turns/turn-failures.ts'
import {
  endTurn,
  listRunningTurns,
  postponeTurn,
  reachOfTurn,
  releaseTurn,
  resetFailures,
  retryTurn,
  submitTurn,
  type Turn,
  type TurnEnd,
  turns,
} from '../../core/turns/turns.ts'
import { timestamp } from '../../lib/clock.ts'
import { isHostFault } from '../../lib/host-fault.ts'
import type { Log } from '../../lib/log/log.ts'
import { reading } from '../../lib/log/metric-registry.ts'
import { redact } from '../../lib/log/redact.ts'
import { Refusal, TransientRefusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { type AgentRunResult, type Job, RunFault, type Runtime } from '../../runtimes/runtime.ts'
import { isEngineError, type Tx } from '../../store/engine.ts'
import { StoreWatcher } from '../process/store-watcher.ts'
import { INTERNAL_ERROR } from '../process/suspect-handling.ts'
import { ActivityWriter } from './activity-writer.ts'
import { ChatDraft } from './chat-draft.ts'
import { DraftWriter } from './draft-writer.ts'
import { TURNS_RUNNING } from './turn-metrics.ts'
import { TurnReport } from './turn-report.ts'

const LEASE_MS = 30_000
/** Delay before the first retry of a turn; it doubles. */
const RETRY_MS = 2000
/** How long aborted turns may take when the daemon stops. */
const STOP_MS = 4000

const WRITE_RETRY_MS = 100
const WRITE_RETRY_MAX_MS = 2000
/** Interval of checks whether a folder with an open breaker has a new configuration. */
const BREAKER_CHECK_MS = 1000

/** A claimed turn, ready to run. */
export interface PreparedTurn {
  readonly runtime: Runtime
  readonly job: Omit<Job, 'signal' | 'onUsage' | 'draft' | 'calls'>
  /** Fingerprint of the configuration that the run starts with. */
  readonly configMark?: string | undefined
  /** Whether a tool call of the run failed because the store was unavailable. */
  hadOutage?(): boolean
  /** Aborted by an internal error outside of the runtime, with the error as its reason. */
  readonly fault?: AbortSignal | undefined
  close(): Promise<void>
}

interface PreparedRun {
  /** Takes the calls of tools. */
  readonly activity: ActivityWriter
  /** Aborted when the turn is no longer wanted. */
  readonly stop: AbortSignal
}

export interface TurnRunnerOptions {
  readonly host: InstanceHost
  readonly log: Log
  prepare(claimed: ClaimedTurn, run: PreparedRun): Promise<PreparedTurn>
  /** Fingerprint of the current settings of the instance; undefined if they cannot change. */
  settingsMark?(): Promise<string>
  /** Lease of a turn, renewed every third of this time. */
  readonly leaseMs?: number
  /** Undefined where every workspace is in this data directory. */
  readonly workspaces?: WorkspaceAvailability
  /** The process that claims turns. */
  readonly process?: string
  /** Which turns it claims; default: all. */
  readonly choice?: ClaimChoice | undefined
  /** Called after each check that leaves no turn running. */
  onIdle?: (() => void) | undefined
}

const STOPPED: TurnEnd = {
  outcome: 'failed',
  reason: STOPPED_REASON,
  publicReason: FAILURE_MESSAGES.stopped,
  failure: 'stopped',
}

interface RunParts {
  readonly cost: TurnCost
  readonly draft: DraftWriter
  readonly activity: ActivityWriter
  readonly signal: AbortSignal
}

type AbortReason = 'lost' | 'stopped' | 'closing'

export class TurnRunner {
  readonly #options: TurnRunnerOptions
  readonly #writeContext: WriteContext
  readonly #leaseMs: number
  readonly #running = new Map<string, { done: Promise<void>; abort: AbortController }>()
  readonly #watcher: StoreWatcher
  readonly #unsubscribe: () => void
  readonly #removeGauge: () => void
  /** A commit that routes messages is under way: claim without checking for waiting turns first. */
  #isExpecting = false
  #breakersCheckedAt = Number.NEGATIVE_INFINITY

  constructor(options: TurnRunnerOptions) {
    this.#options = options
    const { host } = options
    this.#writeContext = writeContextOf(host)
    this.#leaseMs = options.leaseMs ?? LEASE_MS
    this.#watcher = new StoreWatcher({
      host,
      work: 'turns',
      check: async () => {
        await this.#claimTurns()
        await this.#explainWaiting()
        if (this.#running.size === 0) options.onIdle?.()
      },
    })
    this.#removeGauge = host.metrics.addSource(() => [reading(TURNS_RUNNING, {}, this.#running.size)])
    this.#unsubscribe = host.preCommitSignals.on((_keys, work) => {
      if (!work.includes('turns')) return
      this.#isExpecting = true
      this.#watcher.checkSoon()
    })
  }

  /** Aborts running turns; the next process runs them again. */
  async close(): Promise<void> {
    this.#unsubscribe()
    this.#removeGauge()
    const closed = this.#watcher.close()
    for (const { abort } of this.#running.values()) abort.abort('closing' satisfies AbortReason)
    await closed
    // The last check may have started more.
    for (const { abort } of this.#running.values()) abort.abort('closing' satisfies AbortReason)
    const all = Promise.all([...this.#running.values()].map(({ done }) => done))
    await Promise.race([all, pause(STOP_MS, undefined, { ref: false })])
  }

  async #claimTurns(): Promise<void> {
    const { host } = this.#options
    let isExpected = this.#isExpecting
    this.#isExpecting = false
    if (this.#running.size > 0) await this.#abortStopped()
    for (; !this.#watcher.isClosed && this.#running.size < host.rules.turnsMax; isExpected = false) {
      if (!isExpected && !(await this.#hasClaimable())) return
      const isClaimed = await host.engine.transaction((tx) => this.#claim(tx))
      if (!isClaimed) return
      // The commit may have routed messages for more turns; it was under way if it is of this process.
      if (isExpected) return this.#watcher.checkSoon()
    }
  }

  /** Stores why messages of folders without a workspace wait. If machines share the store, another may have the workspace. */
  async #explainWaiting(): Promise<void> {
    const { host, workspaces } = this.#options
    const missing = workspaces?.missing() ?? []
    if (missing.length === 0 || host.engine.dialect.isRemote || this.#watcher.isClosed) return
    const folders = await host.engine.read((tx) => listUnexplainedFolders(tx, missing))
    if (folders.length === 0) return
    await host.engine.transaction(async (tx) => {
      for (const folder of folders) await explainMissingWorkspace(tx, folder)
    })
    host.signals.emit([], [])
  }

  /** Claims a turn and starts it with the commit; its preparation reads the store after the sync to disk. */
  async #claim(tx: Tx): Promise<boolean> {
    const { host } = this.#options
    await lockTurnOrder(tx, this.#writeContext.dialect)
    // Otherwise it would claim the turns that `close` has just released.
    if (this.#watcher.isClosed) return false
    const claimed = await claimTurn(tx, host.rules, this.#claimOptions())
    if (claimed) tx.onCommit(() => this.#start(claimed))
    return claimed !== undefined
  }

  #claimOptions(): ClaimOptions {
    const { host, workspaces, process, choice } = this.#options
    const active = [...this.#running].filter(([, { abort }]) => !abort.signal.aborted).map(([id]) => id)
    const lease = { now: host.clock.now(), leaseMs: this.#leaseMs, ownTurnIds: new Set(active), process, choice }
    return workspaces ? { ...lease, workspaces } : lease
  }

  async #hasClaimable(): Promise<boolean> {
    const { engine } = this.#options.host
    const { hasClaimable, hasOpenBreaker } = await engine.read((tx) => checkClaimable(tx, this.#claimOptions()))
    return hasClaimable || (hasOpenBreaker && (await this.#resetBreakers()))
  }

  /** Closes the breakers of folders whose configuration has changed since their turns failed; true if there were any. */
  async #resetBreakers(): Promise<boolean> {
    if (performance.now() - this.#breakersCheckedAt < BREAKER_CHECK_MS) return false
    this.#breakersCheckedAt = performance.now()
    const { engine, clock } = this.#options.host
    let hasReset = false
    for (const folder of await engine.read((tx) => listFoldersWithOpenBreaker(tx, clock.now())))
      if (await this.#resetBreaker(folder)) hasReset = true
    return hasReset
  }

  async #abortStopped(): Promise<void> {
    const stopping = await this.#options.host.engine.read((tx) => listRunningTurns(tx, { is_stopping: true }))
    for (const { id } of stopping) this.#running.get(id)?.abort.abort('stopped' satisfies AbortReason)
  }

  #start(claimed: ClaimedTurn): void {
    const abort = new AbortController()
    const { id } = claimed.turn
    // Another process had claimed the turn meanwhile, and the earlier run in this process has not ended yet.
    this.#running.get(id)?.abort.abort('lost' satisfies AbortReason)
    const done = this.#run(claimed, abort)
      .catch((error) => this.#options.host.faults.report('turn', error))
      .finally(() => {
        if (this.#running.get(id)?.abort === abort) this.#running.delete(id)
        this.#watcher.checkSoon()
      })
    this.#running.set(id, { done, abort })
  }

  async #run(claimed: ClaimedTurn, abort: AbortController): Promise<void> {
    const { turn, refusal } = claimed
    const report = new TurnReport(this.#options.host, claimed)
    if (refusal !== undefined) {
      const publicReason = describePause(timestamp(this.#options.host.clock.now()))
      return this.#end(turn, report, {
        ...{ outcome: 'refused', reason: refusal },
        ...{ publicReason, notice: sentenceOf(publicReason) },
      })
    }
    if (turn.is_stopping) return this.#end(turn, report, STOPPED)
    if ((turn.crashes ?? 0) >= CRASHES_MAX) return this.#end(turn, report, failed(ENDED_TWICE))
    if ((turn.deaths ?? 0) > DEATHS_MAX)
      return this.#end(turn, report, failed(`svc ended ${DEATHS_MAX} times while this turn was running`))
    // An earlier attempt submitted its result before it was aborted.
    if (turn.submitted !== undefined)
      return this.#end(turn, report, await this.#options.host.engine.read((tx) => submittedEnd(tx, turn.id)))
    const { turnCosts } = this.#options.host
    const cost = new TurnCost(turn, claimed.earlierCosts)
    turnCosts.set(turn.id, cost)
    const renewal = setInterval(() => void this.#renew(turn, cost, abort), this.#leaseMs / 3).unref()
    const channel = this.#openChannel(turn)
    const typing = this.#showTyping(turn, channel)
    const chat = channel && new ChatDraft(this.#options.host, turn, channel)
    const draft = new DraftWriter(this.#options.host, claimed, { chat })
    const activity = new ActivityWriter(this.#options.host, claimed)
    let configMark: string | undefined
    let end: TurnEnd | undefined
    try {
      const prepared = await this.#options.prepare(claimed, { activity, stop: abort.signal })
      configMark = prepared.configMark
      report.runtime = prepared.runtime.name
      const result = await this.#runAgent(prepared, { cost, draft, activity, signal: abort.signal })
      draft.complete()
      const hasMessage = await this.#submit(turn, cost, report, result, configMark)
      draft.end(hasMessage ? 'stored' : 'dropped')
    } catch (error) {
      end = await this.#handleFailure(turn, cost, report, error, abort.signal)
    } finally {
      clearInterval(renewal)
      typing.stop()
      activity.end()
      if (end !== STOPPED) draft.end('dropped')
      if (turnCosts.get(turn.id) === cost) turnCosts.delete(turn.id)
    }
    try {
      const partial = draft.text
      if (end) await this.#end(turn, report, { ...end, configMark, partial }, cost)
      if (partial !== '') draft.end('stored')
    } finally {
      draft.end('dropped')
    }
  }

  async #configMark(folder: string): Promise<string> {
    const settingsMark = (await this.#options.settingsMark?.()) ?? ''
    return this.#options.host.engine.read((tx) => readConfigFingerprint(tx, folder, settingsMark))
  }

  async #resetBreaker(folder: string): Promise<boolean> {
    const { engine } = this.#options.host
    const [mark, row] = [await this.#configMark(folder), await engine.read((tx) => folderTurns.find(tx, { folder }))]
    if (row?.config_mark === undefined || row.config_mark === mark) return false
    await engine.transaction((tx) => resetFailures(tx, folder))
    return true
  }

  async #runAgent(prepared: PreparedTurn, { cost, draft, activity, signal }: RunParts): Promise<AgentRunResult> {
    const { fault } = prepared
    try {
      const result = await prepared.runtime.run({
        ...prepared.job,
        draft: activity.watch(draft),
        calls: activity,
        onUsage: (used) => cost.report(used),
        signal: fault ? AbortSignal.any([signal, fault]) : signal,
      })
      fault?.throwIfAborted()
      return result
    } catch (error) {
      if (fault?.aborted && !signal.aborted) throw fault.reason
      // An agent that fails because its tools were unavailable is retried without counting the attempt.
      const isOutage = error instanceof RunFault && error.kind === 'retryable' && prepared.hadOutage?.()
      throw isOutage ? new RunFault('unavailable', error.message) : error
    } finally {
      await prepared.close()
    }
  }

  /** Records the result of a run and ends its turn in one commit. Returns whether the result is a message. */
  async #submit(
    turn: Turn,
    cost: TurnCost,
    report: TurnReport,
    { result = '', sessionId }: AgentRunResult,
    configMark: string | undefined,
  ): Promise<boolean> {
    const { rules } = this.#options.host
    const { id, fence, folder } = turn
    const { text, statuses } = filterOutput(result)
    const submission = { turn_id: id, fence, session_id: sessionId, status: 'success' as const, result: text }
    const silence = statuses.length > 0 ? 'the agent only reported its status' : undefined
    let hasMessage = false
    const end = await this.#write(async (tx) => {
      await this.#book(tx, cost)
      const submitted = await submitTurn(tx, this.#writeContext, rules, folder, submission)
      const end = { ...(await submittedEnd(tx, id, silence)), configMark }
      const ended = await endTurn(tx, this.#writeContext, rules, turn, end)
      if (ended) this.#announce(tx, turn, [...submitted, ...ended])
      hasMessage = ended !== undefined && submitted.length > 0
      return ended && end
    })
    report.attempt(!end ? 'aborted' : end.outcome === 'failed' ? 'failed' : 'completed')
    if (end) this.#logEnd(turn, report, end)
    return hasMessage
  }

  /** The end of a turn whose run failed; undefined if it continues elsewhere or later. */
  async #handleFailure(
    turn: Turn,
    cost: TurnCost,
    report: TurnReport,
    error: unknown,
    signal: AbortSignal,
  ): Promise<TurnEnd | undefined> {
    const { host, log } = this.#options
    const abortReason: AbortReason | undefined = signal.aborted ? signal.reason : undefined
    if (abortReason === 'lost' || abortReason === 'closing') report.attempt('aborted')
    if (abortReason === 'lost') return undefined
    if (abortReason === 'closing') {
      await this.#write(async (tx) => {
        await this.#book(tx, cost)
        await releaseTurn(tx, turn)
      })
      return undefined
    }
    if (abortReason === 'stopped') {
      report.attempt('failed', 'stopped')
      return STOPPED
    }
    const fault = error instanceof RunFault ? error : undefined
    const isHost = fault?.kind === 'unavailable' || isHostFault(error)
    const isExpected = fault !== undefined || isHost || error instanceof Refusal
    if (!isExpected) {
      host.faults.count('turn')
      log.error({ turn: turn.id, place: 'turn', err: error }, 'internal error')
    }
    const cause = error instanceof Error ? error.message : String(error)
    const reason = isEngineError(error) ? INTERNAL_ERROR : redact(isExpected ? cause : `internal error: ${cause}`)
    if (fault?.kind === 'session') {
      report.attempt('retried', fault.failure)
      return this.#restartSession(turn, cost, reason)
    }
    const { workspaces } = this.#options
    const isWorkspaceMissing = workspaces !== undefined && !workspaces.has(turn.folder)
    if (isHost || isWorkspaceMissing) {
      report.attempt('postponed')
      return this.#postpone(turn, cost, reason)
    }
    const isLast = fault?.kind === 'terminal' || turn.attempts >= ATTEMPTS_MAX
    report.attempt(isLast ? 'failed' : 'retried', fault?.failure)
    if (isLast) return failed(reason, fault?.failure)
    const at = host.clock.now() + RETRY_MS * 2 ** (turn.attempts - 1)
    log.warn({ turn: turn.id, folder: turn.folder, attempt: turn.attempts, reason }, 'turn failed, it is retried')
    await this.#write(async (tx) => {
      await this.#book(tx, cost)
      await retryTurn(tx, turn, at, reason)
    })
    return undefined
  }

  /** Writes what the run has cost so far, however it ends. */
  #book(tx: Tx, cost: TurnCost): Promise<void> {
    const { metrics, clock } = this.#options.host
    return cost.book(tx, metrics, timestamp(clock.now()))
  }

  /** The session cannot be resumed: retries with a new one and a note about it. */
  async #restartSession(turn: Turn, cost: TurnCost, reason: string): Promise<TurnEnd | undefined> {
    const { host } = this.#options
    const { folder, topic } = turn
    await this.#write(async (tx) => {
      await this.#book(tx, cost)
      await resetSessionOf(tx, turn, reachOfTurn(turn), timestamp(host.clock.now()))
      const note = 'The previous session could not be resumed; this is a new one.'
      await conversations.update(tx, { folder, topic }, { note })
      await retryTurn(tx, turn, host.clock.now(), reason)
    })
    return undefined
  }

  /** The fault of the host, not of the agent: retries later without counting the attempt. */
  async #postpone(turn: Turn, cost: TurnCost, reason: string): Promise<TurnEnd | undefined> {
    const { host, log } = this.#options
    log.warn({ turn: turn.id, folder: turn.folder, reason }, 'turn cannot run yet')
    await this.#write(async (tx) => {
      await this.#book(tx, cost)
      await postponeTurn(tx, turn, host.clock.now(), reason)
    })
    return undefined
  }

  async #renew(turn: Turn, cost: TurnCost, abort: AbortController): Promise<void> {
    const { host } = this.#options
    try {
      const renewed = await host.engine.transaction(async (tx) => {
        const still = await renewTurn(tx, host.rules, this.#claimOptions(), turn)
        if (still) await this.#book(tx, cost)
        return still
      })
      if (!renewed) abort.abort('lost' satisfies AbortReason)
      else if (renewed.is_stopping) abort.abort('stopped' satisfies AbortReason)
    } catch (error) {
      // The lease has not expired yet, and the next renewal may succeed.
      if (!(error instanceof Refusal)) host.faults.report('turn', error)
    }
  }

  /** Of the platform where people wait for the answer. */
  #openChannel({ jid, is_timed }: Turn): Promise<Channel | undefined> | undefined {
    return isLinkChat(jid) || !jid.includes(':') || is_timed ? undefined : this.#options.host.channels.resolve(jid)
  }

  /** Shows a typing indicator in the topic of the chat until `stop`. */
  #showTyping({ jid, chat_topic }: Turn, channel: Promise<Channel | undefined> | undefined): { stop(): void } {
    const { host } = this.#options
    if (!channel) return { stop: () => {} }
    const threadId = chat_topic === '' ? undefined : chat_topic
    const show = async (on: boolean): Promise<void> => {
      try {
        // The adapter may have started again since.
        const { actions } = (await (on ? channel : host.channels.resolve(jid))) ?? {}
        await actions?.typing?.({ jid, threadId, on })
      } catch {
        // A lost indicator does not matter.
      }
    }
    const shown = show(true)
    // In order, however long the first takes.
    return { stop: () => void shown.then(() => show(false)).catch(host.faults.handler('turn')) }
  }

  /**
   * Retries while the store is unavailable, for as long as the lease lasts. Everything written here is fenced by the turn, so
   * that a commit whose outcome is unknown may be repeated.
   */
  async #write<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const start = performance.now()
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#options.host.engine.transaction(work)
      } catch (error) {
        const timeoutMs = this.#watcher.isClosed ? STOP_MS : this.#leaseMs
        if (!(error instanceof TransientRefusal) || performance.now() - start > timeoutMs) throw error
        await pause(Math.min(WRITE_RETRY_MS * attempt, WRITE_RETRY_MAX_MS))
      }
    }
  }

  async #end(turn: Turn, report: TurnReport, partial: TurnEnd, cost?: TurnCost): Promise<void> {
    const { host } = this.#options
    const configMark =
      partial.configMark ?? (partial.outcome === 'failed' ? await this.#configMark(turn.folder) : undefined)
    const end = { ...partial, configMark }
    const isEnded = await this.#write(async (tx) => {
      if (cost) await this.#book(tx, cost)
      const keys = await endTurn(tx, this.#writeContext, host.rules, turn, end)
      if (keys) this.#announce(tx, turn, keys)
      return keys !== undefined
    })
    if (isEnded) this.#logEnd(turn, report, end)
  }

  /** This process claims the next turn anyway, and in a chat link's chat a notice needs no delivery. */
  #announce(tx: Tx, { jid }: Turn, keys: readonly string[]): void {
    const { signals } = this.#options.host
    tx.onCommit(() => signals.emit(keys, jid.startsWith('web:') ? [] : ['outbox']))
  }

  #logEnd({ id, folder, attempts }: Turn, report: TurnReport, end: TurnEnd): void {
    const { host, log } = this.#options
    report.end(end)
    host.lastSocketUse.delete(id)
    log.info({ turn: id, folder, outcome: end.outcome, attempts, ...(end.reason ? { reason: end.reason } : {}) })
  }
}

/** The end of a turn whose run has submitted a result. */
async function submittedEnd(tx: Tx, id: string, silence = 'the agent sent no reply'): Promise<TurnEnd> {
  const turn = await turns.find(tx, { id })
  if (turn?.submitted === 'error') return failed(turn.submitted_error ?? 'the agent reported a failure')
  return (turn?.replies ?? 0) > 0 ? { outcome: 'answered' } : { outcome: 'silent', reason: silence }
}

function failed(reason: string, failure: TurnFailure = 'failed'): TurnEnd {
  const publicReason = FAILURE_MESSAGES[failure]
  return { outcome: 'failed', reason: redact(reason), publicReason, failure, notice: sentenceOf(publicReason) }
}
