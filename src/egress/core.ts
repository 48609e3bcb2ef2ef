// The data side of the proxy: who may reach what, every open connection, the counters and the log. It lives in one thread
// and knows of the others by messages alone.
import { refuse } from '../lib/refusal.ts'
import type { Listen } from '../lib/settings.ts'
import { Counts } from './counts.ts'
import { DenialBatch, type DeniedRequest } from './denial-batch.ts'
import { Dialer } from './dialer.ts'
import type { Resolved } from './dns/resolver.ts'
import type { Exchange } from './exchange.ts'
import { acceptForward } from './forward.ts'
import type { Gate, Held } from './gate.ts'
import { makeViaName } from './http/head-text.ts'
import type { Limits } from './limits.ts'
import { type ListenerName, listenFault } from './listen-fault.ts'
import { LogLines } from './log-lines.ts'
import { type AllowedEndpoint, compileSource, decide, type Source } from './match.ts'
import { Refusals } from './refusals.ts'
import type { Snapshot } from './snapshot.ts'
import type { Change } from './sources.ts'
import { acceptTransparent } from './transparent.ts'
import type { Bound, Endpoint, Timer, Wire, Wires } from './wire.ts'

export interface CoreOptions {
  readonly listen?: Listen | undefined
  readonly transparent?: Listen | undefined
  readonly denyPrivate: boolean
  readonly verifySni: boolean
  readonly denyMessage?: string | undefined
  readonly limits: Limits
  /** Descriptors that connections may take in all. */
  readonly maxFiles?: number
  /** On which the rest of the program listens. */
  readonly ownPorts: readonly number[]
  /** Collect denied requests and pass them to `Outside.denied`. */
  readonly reportsDenied?: boolean
}

/** A source that is known by its listener. */
export interface NewSource {
  /** By which its connections are told from others. */
  readonly key: string
  readonly id: string
  readonly allowlist: readonly string[]
  readonly endpoints: readonly AllowedEndpoint[]
}

interface SocketSourceState {
  readonly source: NewSource
  readonly listener: { close(): void }
}

/** What the core needs of the rest of the program. */
export interface Outside {
  /** Look this name up, and say `resolved`. */
  ask(name: string): void
  /** Whole lines. */
  log(lines: string): void
  warn(sentence: string): void
  denied(denied: DeniedRequest[]): void
}

export interface Listening {
  readonly forward?: Endpoint | undefined
  readonly transparent?: Endpoint | undefined
}

/** Refused connections of one socket source that are being closed, besides those that it may have open. */
const REFUSED_MAX = 256

export class Core implements Gate {
  readonly wires: Wires
  readonly limits: Limits
  readonly refusals: Refusals
  readonly dialer: Dialer
  readonly verifySni: boolean
  readonly via: string = makeViaName()
  readonly denyMessage: string | undefined
  isStopping = false
  readonly #options: CoreOptions
  readonly #sources = new Map<string, Source>()
  readonly #held = new Map<string, Set<Held>>()
  readonly #unwelcome = new Set<Held>()
  readonly #counts = new Counts()
  readonly #log: LogLines
  readonly #denials: DenialBatch | undefined
  readonly #warn: (sentence: string) => void
  readonly #socketSources = new Map<string, SocketSourceState>()
  readonly #bounds: Bound[] = []
  readonly #asked = new Map<string, number>()
  #connections = 0
  #stopped: (() => void) | undefined

  constructor(wires: Wires, options: CoreOptions, outside: Outside) {
    this.wires = wires
    this.limits = options.limits
    this.refusals = new Refusals(options.limits.maxRefused)
    this.verifySni = options.verifySni
    this.denyMessage = options.denyMessage
    this.#options = options
    this.#log = new LogLines(wires, outside.log)
    this.#denials = options.reportsDenied ? new DenialBatch(wires, outside.denied) : undefined
    this.#warn = outside.warn
    this.dialer = new Dialer(wires, options, (name) => {
      this.#asked.set(name, wires.now())
      outside.ask(name)
    })
    for (const port of options.ownPorts) this.dialer.ownPorts.add(port)
  }

  async open(): Promise<Listening> {
    const { listen, transparent } = this.#options
    return {
      forward: listen && (await this.#listen('forward', listen, (wire) => acceptForward(this, wire))),
      transparent:
        transparent && (await this.#listen('transparent', transparent, (wire) => acceptTransparent(this, wire))),
    }
  }

  apply(changes: readonly Change[]): void {
    for (const change of changes) {
      const ip = change.kind === 'set' ? change.entry.ip : change.ip
      if (change.kind === 'set') this.#sources.set(ip, compileSource(change.entry))
      else this.#sources.delete(ip)
      this.#revoke(ip)
    }
  }

  /** Takes over `handover`, by which the listener of the source is to come. */
  openSource(source: NewSource, handover: number): void {
    const { key, id, allowlist, endpoints } = source
    if (!this.wires.receiveListener) refuse('unsupported', 'these wires cannot take a listener over')
    const from = { key, maxOpen: this.#maxOf(true) + REFUSED_MAX }
    const listener = this.wires.receiveListener(handover, from, {
      accepted: (wire) => acceptForward(this, wire),
      failed: (why) => this.#warn(`the source ${JSON.stringify(id)} ${why}, so it reaches nothing`),
    })
    this.#sources.set(key, compileSource({ ip: key, id, allowlist }, endpoints))
    this.#socketSources.set(key, { source, listener })
  }

  /** Its endpoints stay. */
  setSource(key: string, allowlist: readonly string[]): void {
    const state = this.#socketSources.get(key)
    if (!state) return
    const { id, endpoints } = state.source
    this.#sources.set(key, compileSource({ ip: key, id, allowlist }, endpoints))
    this.#revoke(key)
  }

  closeSource(key: string): void {
    const state = this.#socketSources.get(key)
    if (!state) return
    this.#socketSources.delete(key)
    for (const held of [...(this.#held.get(key) ?? [])]) held.stop()
    // Those that were refused and are being closed are left.
    state.listener.close()
    this.#sources.delete(key)
    this.#denials?.flush()
  }

  resolved(name: string, resolved: Resolved): void {
    const since = this.#asked.get(name)
    this.#asked.delete(name)
    if (since !== undefined) this.#counts.addLookup(this.wires.now() - since)
    this.dialer.resolved(name, resolved)
  }

  get isCrowded(): boolean {
    return this.#connections > this.limits.maxConnections / 2
  }

  find(address: string): Source | undefined {
    return this.#sources.get(address)
  }

  enter(address: string, held: Held): boolean {
    const all = this.#held.get(address)
    const { maxConnections } = this.limits
    const most = this.#maxOf(this.#socketSources.has(address))
    // Those that are about to be refused do not count, or one source could fill the proxy with them.
    const isRoom = this.#connections - this.#unwelcome.size < maxConnections && (all?.size ?? 0) < most
    this.#connections++
    if (!isRoom) this.#unwelcome.add(held)
    if (all) all.add(held)
    else this.#held.set(address, new Set([held]))
    return isRoom
  }

  leave(address: string, held: Held): void {
    const all = this.#held.get(address)
    if (!all?.delete(held)) return
    this.#unwelcome.delete(held)
    this.#connections--
    if (all.size === 0) this.#held.delete(address)
    if (this.#connections === 0) this.#stopped?.()
  }

  done(exchange: Exchange): void {
    const now = Date.now()
    this.#counts.add(exchange, now)
    this.#log.add(exchange, now)
    if (exchange.verdict === 'deny') this.#denials?.add(exchange, now)
  }

  snapshot(): Snapshot {
    const all = this.#all()
    return this.#counts.snapshot({
      connections: this.#connections,
      tunnels: all.filter(({ isTunnel }) => isTunnel).length,
      droppedLines: 0,
      bytesUp: all.reduce((sum, { moved }) => sum + moved.up, 0),
      bytesDown: all.reduce((sum, { moved }) => sum + moved.down, 0),
    })
  }

  /** What was gathered of the log goes out now. */
  flush(): void {
    this.#denials?.flush()
    this.#log.close()
  }

  /** No new connections; those that are there may end by themselves for a while. Told when all are gone. */
  stop(stopped: () => void): void {
    this.isStopping = true
    for (const bound of this.#bounds) bound.close()
    for (const key of [...this.#socketSources.keys()]) this.closeSource(key)
    let timer: Timer | undefined
    const end = (): void => {
      // A program that goes on without the proxy is not kept alive by it.
      timer?.cancel()
      this.#stopped = undefined
      this.flush()
      stopped()
    }
    this.#stopped = end
    if (this.#connections === 0) {
      end()
      return
    }
    timer = this.wires.after(this.limits.drainMs, () => {
      for (const held of this.#all()) held.stop()
      this.#stopped?.()
    })
    for (const held of this.#all()) held.drain()
  }

  /** How many connections one source may have. A socket source is not trusted to leave room for the others. */
  #maxOf(isSocketSource: boolean): number {
    const { maxConnections, maxPerSource } = this.limits
    return isSocketSource ? Math.min(maxPerSource, Math.ceil(maxConnections / 2)) : maxPerSource
  }

  #all(): Held[] {
    return [...this.#held.values()].flatMap((set) => [...set])
  }

  /** Open connections to what is no longer allowed are ended, however they began. */
  #revoke(ip: string): void {
    const source = this.#sources.get(ip)
    for (const held of [...(this.#held.get(ip) ?? [])])
      if (held.reaches.some(({ host, port }) => !decide(source, host, port).allow)) held.revoke()
  }

  async #listen(name: ListenerName, at: Listen, accepted: (wire: Wire) => void): Promise<Endpoint> {
    const bound = await this.wires.listen(at, accepted).catch((error: unknown) => {
      throw listenFault(name, at, error)
    })
    this.#bounds.push(bound)
    this.dialer.ownPorts.add(bound.port)
    return { address: bound.address, port: bound.port }
  }
}
