// Runs turns: claims what waits, has a runtime answer, and sees to it that each message comes to its end (decision L14).
import { setTimeout as pause } from 'node:timers/promises'
import { isLinkChat } from '../../core/channel.ts'
import { ATTEMPTS_MAX, type ClaimedTurn, claimTurn, hasWaiting } from '../../core/claim.ts'
import { configMark } from '../../core/config-mark.ts'
import { conversations, folderTurns, resetSessions } from '../../core/conversations.ts'
import { costLog } from '../../core/costs.ts'
import { FAILURES, type Failure, sentenceOf } from '../../core/failures.ts'
import { queueUp } from '../../core/messages.ts'
import { filterOutput } from '../../core/output-filter.ts'
import { type Speaking, speakingOf } from '../../core/rounds.ts'
import {
  endTurn,
  type ModelCost,
  releaseTurn,
  renewTurn,
  resetFailures,
  retryTurn,
  submitTurn,
  type Turn,
  type TurnEnd,
  turns,
} from '../../core/turns.ts'
import { timestamp } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { redact } from '../../lib/redact.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import { type Job, type Ran, RunFault, type Runtime } from '../../runtimes/runtime.ts'
import type { Tx } from '../../store/engine.ts'
import { Lookout } from '../lookout.ts'

const LEASE_MS = 30_000
/** The pause before a turn is tried again; it doubles. */
const RETRY_MS = 2000
/** How long after a stop a turn may take to break off. */
const STOP_MS = 4000
/** So often a turn that cannot run for want of its surroundings is put off without counting as a try. */
const PUT_OFF_MS = 2000

const WRITES_MAX = 5
const WRITE_AGAIN_MS = 100

/** A claimed turn, ready to run. */
export interface Prepared {
  readonly runtime: Runtime
  readonly job: Omit<Job, 'signal'>
  /** Closes what was opened for the run. */
  close(): Promise<void>
}

export interface RunnerOptions {
  readonly host: Host
  readonly log: Log
  /** Everything that a run is told, gathered when it starts. */
  prepare(claimed: ClaimedTurn): Promise<Prepared>
  /** Stands for the settings of the instance as they are now; without it they never change. */
  settingsMark?(): Promise<string>
  /** How long a turn is held without a word of its process; it renews at a third of it. */
  readonly leaseMs?: number
}

type Why = 'lost' | 'stopped' | 'closing'

export class Runner {
  readonly #options: RunnerOptions
  readonly #speaking: Speaking
  readonly #leaseMs: number
  readonly #running = new Map<string, { done: Promise<void>; abort: AbortController }>()
  readonly #lookout: Lookout
  readonly #unheard: () => void
  /** Something is about to be routed: what the store says of what waits is already old. */
  #isExpecting = false

  constructor(options: RunnerOptions) {
    this.#options = options
    const { host } = options
    this.#speaking = speakingOf(host)
    this.#leaseMs = options.leaseMs ?? LEASE_MS
    this.#lookout = new Lookout({ host, look: () => this.#look() })
    this.#unheard = host.routing.on(() => {
      this.#isExpecting = true
      this.#lookout.soon()
    })
  }

  /** Breaks off what runs; it goes on in the next process. */
  async close(): Promise<void> {
    this.#unheard()
    const closed = this.#lookout.close()
    for (const { abort } of this.#running.values()) abort.abort('closing' satisfies Why)
    await closed
    // What the last look has begun.
    for (const { abort } of this.#running.values()) abort.abort('closing' satisfies Why)
    const all = Promise.all([...this.#running.values()].map(({ done }) => done))
    await Promise.race([all, pause(STOP_MS, undefined, { ref: false })])
  }

  async #look(): Promise<void> {
    const { host } = this.#options
    let isExpected = this.#isExpecting
    this.#isExpecting = false
    if (this.#running.size > 0) await this.#breakOff()
    for (; !this.#lookout.isClosed && this.#running.size < host.rules.turnsMax; isExpected = false) {
      if (!isExpected && !(await host.engine.read((tx) => hasWaiting(tx, host.clock.now())))) return
      const claimed = await host.engine.transaction((tx) => this.#claim(tx))
      if (!claimed) return
      this.#start(claimed)
    }
  }

  async #claim(tx: Tx): Promise<ClaimedTurn | undefined> {
    const { host } = this.#options
    await queueUp(tx, this.#speaking.dialect)
    return claimTurn(tx, host.rules, { now: host.clock.now(), forMs: this.#leaseMs })
  }

  /** What somebody has asked to stop. */
  async #breakOff(): Promise<void> {
    const stopping = await this.#options.host.engine.read((tx) =>
      turns.list(tx, { state: 'running', is_stopping: true }),
    )
    for (const { id } of stopping) this.#running.get(id)?.abort.abort('stopped' satisfies Why)
  }

  #start(claimed: ClaimedTurn): void {
    const abort = new AbortController()
    const { id } = claimed.turn
    // This process itself was too slow to renew, as after a sleep of the machine.
    this.#running.get(id)?.abort.abort('lost' satisfies Why)
    const done = this.#run(claimed, abort)
      .catch((error) => this.#options.host.onStray?.(error))
      .finally(() => {
        if (this.#running.get(id)?.abort === abort) this.#running.delete(id)
        this.#lookout.soon()
      })
    this.#running.set(id, { done, abort })
  }

  async #run(claimed: ClaimedTurn, abort: AbortController): Promise<void> {
    const { turn, refusal, isBroken } = claimed
    if (refusal !== undefined && !(isBroken && (await this.#isMended(turn.folder))))
      return this.#end(turn, { outcome: 'refused', reason: refusal, told: refusal, notice: sentenceOf(refusal) })
    if (turn.attempts > ATTEMPTS_MAX)
      return this.#end(turn, failed(`it was tried ${ATTEMPTS_MAX} times and broke off each time`))
    // A try before has said how it went, and broke off only after that.
    if (turn.submitted !== undefined) return this.#end(turn, await this.#standing(turn))
    const renewal = setInterval(() => void this.#renew(turn, abort), this.#leaseMs / 3).unref()
    const typing = this.#typing(turn)
    // Of the configuration that it starts with, and read beside its preparation.
    const marking = this.#configMark(turn.folder).catch(() => undefined)
    let end: TurnEnd | undefined
    try {
      const ran = await this.#perform(claimed, abort.signal)
      end = await this.#returned(turn, ran)
    } catch (error) {
      end = await this.#broke(turn, error, abort.signal)
    } finally {
      clearInterval(renewal)
      typing.stop()
    }
    if (end) await this.#end(turn, { ...end, configMark: await marking })
  }

  async #configMark(folder: string): Promise<string> {
    const settingsMark = (await this.#options.settingsMark?.()) ?? ''
    return this.#options.host.engine.read((tx) => configMark(tx, folder, settingsMark))
  }

  /** Whether the configuration has changed since the turns failed that would have this one refused. */
  async #isMended(folder: string): Promise<boolean> {
    const { engine } = this.#options.host
    const [mark, known] = [await this.#configMark(folder), await engine.read((tx) => folderTurns.find(tx, { folder }))]
    if (known?.config_mark === undefined || known.config_mark === mark) return false
    await engine.transaction((tx) => resetFailures(tx, folder))
    return true
  }

  async #perform(claimed: ClaimedTurn, signal: AbortSignal): Promise<Ran> {
    const { runtime, job, close } = await this.#options.prepare(claimed)
    try {
      return await runtime.run({ ...job, signal })
    } finally {
      await close()
    }
  }

  /** The run is over: what it left to say is said, and its end is what the store knows of it. */
  async #returned(turn: Turn, { result = '', sessionId, models }: Ran): Promise<TurnEnd | undefined> {
    const { host } = this.#options
    const { id, fence, folder } = turn
    const { text, statuses } = filterOutput(result)
    const submission = { turn_id: id, fence, session_id: sessionId, status: 'success' as const, result: text, models }
    const keys = await host.engine.transaction((tx) => submitTurn(tx, this.#speaking, host.rules, folder, submission))
    if (keys.length > 0) host.signals.emit(keys)
    return this.#standing(turn, statuses.length > 0 ? 'it only said how far it is' : undefined)
  }

  /** The end of a run that has returned, as the store knows it. */
  async #standing({ id }: Turn, silence = 'the agent had nothing to say'): Promise<TurnEnd> {
    const after = await this.#options.host.engine.read((tx) => turns.find(tx, { id }))
    if (after?.submitted === 'error') return failed(after.submitted_error ?? 'the agent says that it failed')
    if ((after?.replies ?? 0) > 0) return { outcome: 'answered' }
    return { outcome: 'silent', reason: silence }
  }

  /** How a run that threw ends; nothing where the turn goes on elsewhere or later. */
  async #broke(turn: Turn, error: unknown, signal: AbortSignal): Promise<TurnEnd | undefined> {
    const { host, log } = this.#options
    const why: Why | undefined = signal.aborted ? signal.reason : undefined
    if (why === 'lost') return undefined
    if (why === 'closing') {
      await host.engine.transaction((tx) => releaseTurn(tx, turn))
      return undefined
    }
    if (why === 'stopped') return { outcome: 'failed', reason: 'it was stopped', told: FAILURES.stopped }
    const fault = error instanceof RunFault ? error : undefined
    const isExpected = fault !== undefined || error instanceof Refusal
    if (!isExpected) log.error({ turn: turn.id, err: error }, 'internal error')
    const cause = error instanceof Error ? error.message : String(error)
    const reason = redact(isExpected ? cause : `internal error: ${cause}`)
    if (fault) await this.#recordCosts(turn, fault.models)
    if (fault?.kind === 'session') return this.#afresh(turn, reason)
    if (fault?.kind === 'unavailable') return this.#putOff(turn, reason)
    if (fault?.kind === 'terminal' || turn.attempts >= ATTEMPTS_MAX) return failed(reason, fault?.failure)
    const at = host.clock.now() + RETRY_MS * 2 ** (turn.attempts - 1)
    log.warn({ turn: turn.id, folder: turn.folder, attempt: turn.attempts, reason }, 'the turn is tried again')
    await host.engine.transaction((tx) => retryTurn(tx, turn, at, reason))
    return undefined
  }

  /** A try that failed has cost what it has cost. */
  async #recordCosts({ id, fence, folder, jid, user_sub }: Turn, models: readonly ModelCost[]): Promise<void> {
    if (models.length === 0) return
    const recorded_at = timestamp(this.#options.host.clock.now())
    await this.#write(async (tx) => {
      for (const { model, ...cost } of models)
        await costLog.insertIfMissing(tx, {
          folder,
          // The turn itself stands for the try that succeeds.
          turn_id: `${id}#${fence}`,
          model,
          user_sub,
          chat_jid: jid,
          ...cost,
          recorded_at,
        })
    })
  }

  /** The session is gone: the same messages again, with a fresh one and a word about it. */
  async #afresh(turn: Turn, reason: string): Promise<TurnEnd | undefined> {
    const { host } = this.#options
    const { folder, topic } = turn
    await host.engine.transaction(async (tx) => {
      await resetSessions(tx, folder, topic, timestamp(host.clock.now()))
      const note = 'The session before could not be gone on with; this is a fresh one.'
      await conversations.update(tx, { folder, topic }, { note })
      await retryTurn(tx, turn, host.clock.now(), reason)
    })
    return undefined
  }

  /** Not the agent's failure: it is tried again later, and that is no try of the agent. */
  async #putOff(turn: Turn, reason: string): Promise<TurnEnd | undefined> {
    const { host, log } = this.#options
    log.warn({ turn: turn.id, folder: turn.folder, reason }, 'the turn cannot run yet')
    const at = host.clock.now() + PUT_OFF_MS
    await host.engine.transaction(async (tx) => {
      await turns.update(tx, { id: turn.id, fence: turn.fence, state: 'running' }, { attempts: turn.attempts - 1 })
      await retryTurn(tx, turn, at, reason)
    })
    return undefined
  }

  async #renew(turn: Turn, abort: AbortController): Promise<void> {
    const { host } = this.#options
    try {
      const until = host.clock.now() + this.#leaseMs
      const held = await host.engine.transaction((tx) => renewTurn(tx, turn, until))
      if (!held) abort.abort('lost' satisfies Why)
      else if (held.is_stopping) abort.abort('stopped' satisfies Why)
    } catch (error) {
      // The lease runs on for a while, and the next renewal may succeed.
      if (!(error instanceof Refusal)) host.onStray?.(error)
    }
  }

  /** Shows in the chat that somebody is at work, for as long as that is so. */
  #typing({ jid, is_timed }: Turn): { stop(): void } {
    const { host } = this.#options
    if (isLinkChat(jid) || !jid.includes(':') || is_timed) return { stop: () => {} }
    const show = async (on: boolean): Promise<void> => {
      try {
        const channel = await host.channels.of(jid)
        await channel?.actions.typing?.({ jid, on })
      } catch {
        // A sign of life that does not get through is not worth a word.
      }
    }
    const shown = show(true)
    // In this order, however long the first takes.
    return { stop: () => void shown.then(() => show(false)) }
  }

  /** What has happened is written down, even where the store has no time for a moment. */
  async #write<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#options.host.engine.transaction(work)
      } catch (error) {
        const isBusy = error instanceof Refusal && error.code === 'unavailable'
        if (!isBusy || attempt === WRITES_MAX) throw error
        await pause(WRITE_AGAIN_MS * attempt)
      }
    }
  }

  async #end(turn: Turn, given: TurnEnd): Promise<void> {
    const { host, log } = this.#options
    const configMark =
      given.configMark ?? (given.outcome === 'failed' ? await this.#configMark(turn.folder) : undefined)
    const end = { ...given, configMark }
    const keys = await this.#write((tx) => endTurn(tx, this.#speaking, host.rules, turn, end))
    if (!keys) return
    const { id, folder, attempts } = turn
    host.alive.delete(id)
    log.info({ turn: id, folder, outcome: end.outcome, attempts, ...(end.reason ? { reason: end.reason } : {}) })
    host.signals.emit(keys)
  }
}

function failed(reason: string, failure: Failure = 'failed'): TurnEnd {
  const told = FAILURES[failure]
  return { outcome: 'failed', reason: redact(reason), told, notice: sentenceOf(told) }
}
