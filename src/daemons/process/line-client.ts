// Dials `/line` of daemons in other processes (`http/line-routes.ts`): a stream tells of their commits, and posts tell them of
// the commits of this process. A peer that is down costs nothing but speed: every worker also polls the store.
import { setTimeout as pause } from 'node:timers/promises'
import { issueBearer, LINE_SERVICE, lineAudience } from '../../core/access/bearers.ts'
import type { WorkKind } from '../../lib/commit-signals.ts'
import { guard } from '../../lib/fault-boundary.ts'
import type { Log } from '../../lib/log/log.ts'
import { defineCounter } from '../../lib/log/metric-registry.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { PeerMessage } from '../../supervisor/messages.ts'
import { LINE_MESSAGE_MAX, LINE_PATH, parseLineMessage, usesLines } from '../http/line-routes.ts'
import type { Peers } from '../http/peers.ts'
import { DAEMON_NAMES, type DaemonName } from '../settings.ts'
import { sendDraftsOver } from './draft-relay.ts'
import { bridgeSignals, type SignalExchange, type SignalLine } from './runner-process.ts'

/** What a daemon wants to hear of a peer, and what that peer wants to hear. */
interface LineUse extends Pick<SignalExchange, 'work' | 'hasKeys'> {
  readonly hears: readonly WorkKind[]
  /** Whether it has readers of drafts. */
  readonly hasDrafts?: boolean
}

const READERS: LineUse = { hears: ['turns'], work: [], hasKeys: true, hasDrafts: true }

/** By the daemon that dials. proxyd is never dialled: its listener is public. */
const LINES: Partial<Record<DaemonName, Partial<Record<DaemonName, LineUse>>>> = {
  routd: { webd: { hears: ['arrivals'], work: [], hasKeys: true } },
  runed: {
    webd: READERS,
    routd: { hears: ['turns'], work: ['arrivals', 'outbox'], hasKeys: false },
    dashd: READERS,
  },
}

/** Daemons that this one dials. */
export function linePeersOf(daemon: DaemonName): readonly DaemonName[] {
  return DAEMON_NAMES.filter((peer) => LINES[daemon]?.[peer] !== undefined)
}

const LINE_MESSAGES = defineCounter('svc_line_messages_total', 'Messages on the lines to daemons in other processes', {
  direction: ['received', 'sent'],
})

const RETRY_MS = 100
const RETRY_MAX_MS = 5000
const POST_TIMEOUT_MS = 5000
const BEARER_TTL_MS = 5 * 60_000

export interface LineClientOptions {
  readonly host: InstanceHost
  readonly peers: Pick<Peers, 'isLocal' | 'urls'>
  readonly log: Pick<Log, 'warn'>
  /** Ends the lines. */
  readonly stopping: AbortSignal
}

/** Dials the peers of the daemons in this process that run in others. Returns functions that stop the signals. */
export function dialLines({ host, peers, log, stopping }: LineClientOptions): (() => void)[] {
  if (!usesLines(host)) return []
  host.metrics.declare([LINE_MESSAGES])
  const local = DAEMON_NAMES.filter((name) => peers.isLocal(name))
  return [...peers.urls].flatMap(([peer, url]) => {
    const uses = local.flatMap((name) => LINES[name]?.[peer] ?? [])
    if (uses.length === 0 || peers.isLocal(peer)) return []
    const hears = [...new Set(uses.flatMap((use) => use.hears))]
    const line = new DialledLine({ host, peer, url, hears, log, stopping })
    const work = [...new Set(uses.flatMap((use) => use.work))]
    const stops = [bridgeSignals(line, host, { work, hasKeys: uses.some(({ hasKeys }) => hasKeys), isEager: true })]
    if (uses.some(({ hasDrafts = false }) => hasDrafts)) stops.push(sendDraftsOver(line, host))
    line.keepOpen().catch(host.faults.handler('job'))
    return () => {
      for (const stop of stops) stop()
    }
  })
}

interface DialledLineOptions extends Pick<LineClientOptions, 'host' | 'log' | 'stopping'> {
  readonly peer: DaemonName
  readonly url: URL
  readonly hears: readonly WorkKind[]
}

class DialledLine implements SignalLine {
  readonly #options: DialledLineOptions
  #receive: (message: PeerMessage) => void = () => undefined
  #isOpen = false
  #bearer: { readonly text: string; readonly renewAtMs: number } | undefined
  /** The last reason that was logged. */
  #warning: string | undefined

  constructor(options: DialledLineOptions) {
    this.#options = options
  }

  readonly onPeerMessage: SignalLine['onPeerMessage'] = (listener, onFault) => {
    this.#receive = guard(onFault, listener)
  }

  /** Resolves after the response. Sends nothing to a peer that is down. */
  async sendToPeer(message: PeerMessage): Promise<void> {
    if (!this.#isOpen) return
    try {
      const signal = AbortSignal.timeout(POST_TIMEOUT_MS)
      const response = await this.#request('', signal, { method: 'POST', body: JSON.stringify(message) })
      await response.body?.cancel()
      if (response.ok) this.#options.host.metrics.add(LINE_MESSAGES, { direction: 'sent' })
    } catch {
      // The peer polls.
    }
  }

  /** Until shutdown. */
  async keepOpen(): Promise<void> {
    const { hears, stopping } = this.#options
    for (let pauseMs = RETRY_MS; !stopping.aborted; ) {
      const started = performance.now()
      try {
        const response = await this.#request(`?work=${hears.join(',')}`, stopping)
        if (response.ok && response.body) {
          this.#isOpen = true
          await this.#read(response.body)
        }
      } catch {
        // The peer is down, or this process is stopping.
      }
      this.#isOpen = false
      // A peer that accepts lines and ends them immediately is not dialled more often than one that is down.
      if (performance.now() - started > RETRY_MAX_MS) pauseMs = RETRY_MS
      await pause(pauseMs, undefined, { ref: false, signal: stopping }).catch(() => undefined)
      pauseMs = Math.min(2 * pauseMs, RETRY_MAX_MS)
    }
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder()
    let rest = ''
    for await (const chunk of body) {
      const lines = `${rest}${decoder.decode(chunk, { stream: true })}`.split('\n')
      rest = lines.pop() ?? ''
      if (rest.length > LINE_MESSAGE_MAX) return
      for (const message of lines.map(parseLineMessage)) {
        if (!message) continue
        this.#options.host.metrics.add(LINE_MESSAGES, { direction: 'received' })
        this.#receive(message)
      }
    }
  }

  async #request(search: string, signal: AbortSignal, init: RequestInit = {}): Promise<Response> {
    const { url, stopping } = this.#options
    const headers = { Authorization: `Bearer ${await this.#currentBearer()}`, 'Content-Type': 'application/json' }
    const target = Object.assign(new URL(url), { pathname: `${url.pathname.replace(/\/$/, '')}${LINE_PATH}`, search })
    const ended = AbortSignal.any([signal, stopping])
    // A redirect would send the bearer to another server.
    const response = await fetch(target, { ...init, headers, redirect: 'error', signal: ended })
    if (response.ok) this.#warning = undefined
    else {
      await response.body?.cancel()
      this.#bearer = undefined
      // A peer that stops or whose store is down is available again later.
      if (response.status < 500) this.#warnOnce(`it answered ${response.status}`)
    }
    return response
  }

  /** Renewed after half of its lifetime. */
  async #currentBearer(): Promise<string> {
    const { host, stopping } = this.#options
    const nowMs = host.clock.now()
    if (this.#bearer && nowMs < this.#bearer.renewAtMs) return this.#bearer.text
    const request = { sub: LINE_SERVICE, kind: 'service', audience: lineAudience(host), ttlMs: BEARER_TTL_MS } as const
    try {
      this.#bearer = { text: await issueBearer(host, request), renewAtMs: nowMs + BEARER_TTL_MS / 2 }
      return this.#bearer.text
    } catch (error) {
      if (!stopping.aborted) this.#warnOnce(`cannot sign a bearer: ${error instanceof Error ? error.message : error}`)
      throw error
    }
  }

  /** Until the reason changes or a request succeeds. */
  #warnOnce(reason: string): void {
    const { log, peer } = this.#options
    if (reason !== this.#warning)
      log.warn({ peer, reason }, 'there is no line to another daemon: both notice their commits by polling')
    this.#warning = reason
  }
}
