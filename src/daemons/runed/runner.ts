// Runs rounds: claims those that wait, has a runtime answer them, and sees to it that each comes to an end (decision L14).
import { setTimeout as pause } from 'node:timers/promises'
import { oldReading } from '../../core/resolve.ts'
import {
  type Claimed,
  claimRounds,
  type Ending,
  endRound,
  hasWaiting,
  releaseRound,
  renewRound,
  say,
} from '../../core/rounds.ts'
import type { Log } from '../../lib/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { Runtime, Turn } from '../../runtimes/runtime.ts'

const LEASE_MS = 10_000
const RENEW_MS = 3000
const LOOK_MS = 1000
const ATTEMPTS_MAX = 3
/** How long after a stop a turn may take to break off. */
const STOP_MS = 2000

export interface RunnerOptions {
  readonly host: Host
  readonly log: Log
  readonly runtime: Runtime
  /** How many turns run at once. */
  readonly turnsMax: number
}

export class Runner {
  readonly #options: RunnerOptions
  readonly #running = new Set<Promise<void>>()
  readonly #stop = new AbortController()
  readonly #stops: (() => void)[] = []
  #looking: Promise<void> | undefined
  #isStale = false

  constructor(options: RunnerOptions) {
    this.#options = options
    const { engine, signals } = options.host
    const look = setInterval(() => this.#lookSoon(), LOOK_MS).unref()
    this.#stops.push(
      () => clearInterval(look),
      signals.on(() => this.#lookSoon()),
      engine.listen(() => this.#lookSoon()),
    )
    this.#lookSoon()
  }

  /** Breaks off what runs; it goes on in the next process. */
  async close(): Promise<void> {
    for (const stop of this.#stops) stop()
    this.#stop.abort()
    await this.#looking
    await Promise.race([Promise.all(this.#running), pause(STOP_MS, undefined, { ref: false })])
  }

  #lookSoon(): void {
    this.#isStale = true
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
      if (this.#isStale && !this.#stop.signal.aborted && this.#running.size < this.#options.turnsMax) this.#lookSoon()
    })
  }

  async #look(): Promise<void> {
    this.#isStale = false
    const { host, turnsMax } = this.#options
    const room = turnsMax - this.#running.size
    if (room <= 0 || this.#stop.signal.aborted) return
    try {
      const lease = { now: host.clock.now(), forMs: LEASE_MS }
      const hasAny = await host.engine.read((tx) => hasWaiting(tx, lease.now))
      if (!hasAny) return
      const claimed = await host.engine.transaction((tx) => claimRounds(tx, lease, room))
      for (const round of claimed) this.#start(round)
      if (claimed.length === room) this.#isStale = true
    } catch (error) {
      if (!(error instanceof Refusal)) host.onStray?.(error)
    }
  }

  #start(claimed: Claimed): void {
    const running = this.#run(claimed)
      .catch((error) => this.#options.host.onStray?.(error))
      .finally(() => {
        this.#running.delete(running)
        this.#lookSoon()
      })
    this.#running.add(running)
  }

  async #run(claimed: Claimed): Promise<void> {
    const { host, log, runtime } = this.#options
    const { round } = claimed
    if (round.attempts > ATTEMPTS_MAX)
      return this.#end(claimed, { status: 'failed', error: `given up after ${ATTEMPTS_MAX} tries` })
    const lost = new AbortController()
    const renewal = setInterval(() => void this.#renew(claimed, lost), RENEW_MS).unref()
    let ending: Ending = { status: 'success' }
    try {
      await runtime.run(this.#turn(claimed, lost))
    } catch (error) {
      if (lost.signal.aborted) return
      if (this.#stop.signal.aborted) return await host.engine.transaction((tx) => releaseRound(tx, claimed))
      if (!(error instanceof Refusal)) log.error({ round: round.id, err: error }, 'internal error')
      const sentence = error instanceof Refusal ? error.message : 'something went wrong while it was answered'
      ending = { status: 'failed', error: sentence }
    } finally {
      clearInterval(renewal)
    }
    await this.#end(claimed, ending)
  }

  #turn(claimed: Claimed, lost: AbortController): Turn {
    const { host, runtime } = this.#options
    const { round, message } = claimed
    const speaking = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
    const signal = AbortSignal.any([lost.signal, this.#stop.signal])
    return {
      id: round.id,
      folder: round.target_folder ?? oldReading(round.jid) ?? '',
      jid: round.jid,
      topic: round.topic,
      messages: [message],
      said: round.last_seq,
      signal,
      say: async (kind, content) => {
        signal.throwIfAborted()
        try {
          await host.engine.transaction((tx) => say(tx, speaking, claimed, { kind, content, sender: runtime.name }))
        } catch (error) {
          // Somebody else has it, or the store does not answer: either way it is not for this try to say how it ended.
          lost.abort()
          if (!(error instanceof Refusal)) host.onStray?.(error)
          throw error
        }
        host.signals.emit([round.id, round.jid])
      },
    }
  }

  async #renew(claimed: Claimed, lost: AbortController): Promise<void> {
    const { host } = this.#options
    try {
      const until = host.clock.now() + LEASE_MS
      if (!(await host.engine.transaction((tx) => renewRound(tx, claimed, until)))) lost.abort()
    } catch (error) {
      // The lease runs on for a while, and the next renewal may succeed.
      if (!(error instanceof Refusal)) host.onStray?.(error)
    }
  }

  async #end(claimed: Claimed, ending: Ending): Promise<void> {
    const { host } = this.#options
    const speaking = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
    const hasEnded = await host.engine.transaction((tx) => endRound(tx, speaking, claimed, ending))
    if (hasEnded) host.signals.emit([claimed.id, claimed.round.jid])
  }
}
