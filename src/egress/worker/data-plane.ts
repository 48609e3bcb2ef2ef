// The data plane: policy, open connections, counters and access log. It runs in one thread and communicates with the main
// thread by messages only.
import { refuse } from '../../lib/refusal.ts'
import type { ListenEndpoint } from '../../lib/settings.ts'
import { Dialer } from '../connection/dialer.ts'
import type { ClientSession, EgressContext } from '../connection/egress-context.ts'
import type { ProxyLimits } from '../connection/limits.ts'
import { LingerLimit } from '../connection/linger-limit.ts'
import type { DnsResult } from '../dns/resolver.ts'
import { makeViaName } from '../http/head-writer.ts'
import { acceptForward } from '../listeners/forward-listener.ts'
import { acceptTransparent } from '../listeners/transparent-listener.ts'
import { type AllowedEndpoint, type CompiledSource, compileSource, evaluatePolicy } from '../policy/policy.ts'
import type { RegistryChange } from '../policy/source-registry.ts'
import { AccessLog } from '../reporting/access-log.ts'
import type { AccessRecord } from '../reporting/access-record.ts'
import { RequestCounters } from '../reporting/counters.ts'
import { DenialBatch, type DeniedRequest } from '../reporting/denial-batch.ts'
import type { MetricsSnapshot } from '../reporting/metrics-snapshot.ts'
import { type ListenerName, listenError } from '../transport/listen-error.ts'
import type { BoundListener, SocketAddress, TcpConnection, TcpTransport, Timer } from '../transport/transport.ts'

export interface DataPlaneOptions {
  readonly listen?: ListenEndpoint | undefined
  readonly transparent?: ListenEndpoint | undefined
  readonly denyPrivate: boolean
  readonly verifySni: boolean
  readonly denyMessage?: string | undefined
  readonly limits: ProxyLimits
  /** Maximum of descriptors for connections. */
  readonly maxFiles?: number
  /** Ports of the process's other listeners. */
  readonly ownPorts: readonly number[]
  /** Whether to pass denied requests to `reportDenied`. */
  readonly reportsDenied?: boolean
}

/** A source identified by its listener. */
export interface SocketSourceSpec {
  /** Used as the source address of its connections. */
  readonly key: string
  readonly id: string
  readonly allowlist: readonly string[]
  readonly endpoints: readonly AllowedEndpoint[]
}

interface SocketSourceState {
  readonly source: SocketSourceSpec
  readonly listener: { close(): void }
}

export interface DataPlaneCallbacks {
  /** Starts a DNS lookup; its result goes to `completeLookup`. */
  lookUp(name: string): void
  /** Complete lines. */
  log(lines: string): void
  warn(sentence: string): void
  reportDenied(denied: DeniedRequest[]): void
}

export interface ListeningAddresses {
  readonly forward?: SocketAddress | undefined
  readonly transparent?: SocketAddress | undefined
}

/** Refused connections of one socket source that may linger, in addition to its open ones. */
const REFUSED_MAX = 256

export class DataPlane implements EgressContext {
  readonly transport: TcpTransport
  readonly limits: ProxyLimits
  readonly refusals: LingerLimit
  readonly dialer: Dialer
  readonly verifySni: boolean
  readonly via: string = makeViaName()
  readonly denyMessage: string | undefined
  isStopping = false
  readonly #options: DataPlaneOptions
  readonly #sources = new Map<string, CompiledSource>()
  readonly #sessions = new Map<string, Set<ClientSession>>()
  readonly #rejected = new Set<ClientSession>()
  readonly #counts = new RequestCounters()
  readonly #log: AccessLog
  readonly #denials: DenialBatch | undefined
  readonly #warn: (sentence: string) => void
  readonly #socketSources = new Map<string, SocketSourceState>()
  readonly #listeners: BoundListener[] = []
  readonly #lookupStartedAt = new Map<string, number>()
  #connections = 0
  #onStopped: (() => void) | undefined

  constructor(transport: TcpTransport, options: DataPlaneOptions, callbacks: DataPlaneCallbacks) {
    this.transport = transport
    this.limits = options.limits
    this.refusals = new LingerLimit(options.limits.maxRefused)
    this.verifySni = options.verifySni
    this.denyMessage = options.denyMessage
    this.#options = options
    this.#log = new AccessLog(transport, callbacks.log)
    this.#denials = options.reportsDenied ? new DenialBatch(transport, callbacks.reportDenied) : undefined
    this.#warn = callbacks.warn
    this.dialer = new Dialer(transport, options, (name) => {
      this.#lookupStartedAt.set(name, transport.now())
      callbacks.lookUp(name)
    })
    for (const port of options.ownPorts) this.dialer.ownPorts.add(port)
  }

  async open(): Promise<ListeningAddresses> {
    const { listen, transparent } = this.#options
    return {
      forward: listen && (await this.#listen('forward', listen, (connection) => acceptForward(this, connection))),
      transparent:
        transparent &&
        (await this.#listen('transparent', transparent, (connection) => acceptTransparent(this, connection))),
    }
  }

  apply(changes: readonly RegistryChange[]): void {
    for (const change of changes) {
      const ip = change.kind === 'set' ? change.entry.ip : change.ip
      if (change.kind === 'set') this.#sources.set(ip, compileSource(change.entry))
      else this.#sources.delete(ip)
      this.#revoke(ip)
    }
  }

  /** Takes ownership of `handover`, over which the listener of the source is received. */
  openSource(source: SocketSourceSpec, handover: number): void {
    const { key, id, allowlist, endpoints } = source
    if (!this.transport.receiveListener) refuse('unsupported', 'this transport cannot receive a listener')
    const listenerSource = { key, maxOpen: this.#maxSessions(true) + REFUSED_MAX }
    const listener = this.transport.receiveListener(handover, listenerSource, {
      accepted: (connection) => acceptForward(this, connection),
      failed: (why) => this.#warn(`the source ${JSON.stringify(id)} ${why}, so it cannot connect to anything`),
    })
    this.#sources.set(key, compileSource({ ip: key, id, allowlist }, endpoints))
    this.#socketSources.set(key, { source, listener })
  }

  /** Replaces the allowlist but not the endpoints. */
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
    for (const session of [...(this.#sessions.get(key) ?? [])]) session.stop()
    // Only lingering refused connections are left.
    state.listener.close()
    this.#sources.delete(key)
    this.#denials?.flush()
  }

  completeLookup(name: string, resolved: DnsResult): void {
    const since = this.#lookupStartedAt.get(name)
    this.#lookupStartedAt.delete(name)
    if (since !== undefined) this.#counts.addLookup(this.transport.now() - since)
    this.dialer.completeLookup(name, resolved)
  }

  get isNearCapacity(): boolean {
    return this.#connections > this.limits.maxConnections / 2
  }

  findSource(address: string): CompiledSource | undefined {
    return this.#sources.get(address)
  }

  addSession(address: string, session: ClientSession): boolean {
    const sessions = this.#sessions.get(address)
    const { maxConnections } = this.limits
    const limit = this.#maxSessions(this.#socketSources.has(address))
    // Sessions about to be refused do not count, or one source could use up the capacity with them.
    const hasRoom = this.#connections - this.#rejected.size < maxConnections && (sessions?.size ?? 0) < limit
    this.#connections++
    if (!hasRoom) this.#rejected.add(session)
    if (sessions) sessions.add(session)
    else this.#sessions.set(address, new Set([session]))
    return hasRoom
  }

  removeSession(address: string, session: ClientSession): void {
    const sessions = this.#sessions.get(address)
    if (!sessions?.delete(session)) return
    this.#rejected.delete(session)
    this.#connections--
    if (sessions.size === 0) this.#sessions.delete(address)
    if (this.#connections === 0) this.#onStopped?.()
  }

  recordAccess(record: AccessRecord): void {
    const now = Date.now()
    this.#counts.add(record, now)
    this.#log.add(record, now)
    if (record.verdict === 'deny') this.#denials?.add(record, now)
  }

  snapshot(): MetricsSnapshot {
    const all = this.#allSessions()
    return this.#counts.snapshot({
      connections: this.#connections,
      tunnels: all.filter(({ isTunnel }) => isTunnel).length,
      droppedLines: 0,
      bytesUp: all.reduce((sum, { moved }) => sum + moved.up, 0),
      bytesDown: all.reduce((sum, { moved }) => sum + moved.down, 0),
    })
  }

  /** Writes buffered log lines and denials. */
  flush(): void {
    this.#denials?.flush()
    this.#log.close()
  }

  /** Stops accepting and lets open connections finish for a while. `onStopped` is called when all are closed. */
  stop(onStopped: () => void): void {
    this.isStopping = true
    for (const listener of this.#listeners) listener.close()
    for (const key of [...this.#socketSources.keys()]) this.closeSource(key)
    let timer: Timer | undefined
    const end = (): void => {
      // The timer must not keep the process alive after the proxy has stopped.
      timer?.cancel()
      this.#onStopped = undefined
      this.flush()
      onStopped()
    }
    this.#onStopped = end
    if (this.#connections === 0) {
      end()
      return
    }
    timer = this.transport.after(this.limits.drainMs, () => {
      for (const session of this.#allSessions()) session.stop()
      this.#onStopped?.()
    })
    for (const session of this.#allSessions()) session.drain()
  }

  /** Maximum of connections per source; a socket source never gets more than half of the total. */
  #maxSessions(isSocketSource: boolean): number {
    const { maxConnections, maxPerSource } = this.limits
    return isSocketSource ? Math.min(maxPerSource, Math.ceil(maxConnections / 2)) : maxPerSource
  }

  #allSessions(): ClientSession[] {
    return [...this.#sessions.values()].flatMap((set) => [...set])
  }

  /** Closes open connections to destinations that are no longer allowed. */
  #revoke(ip: string): void {
    const source = this.#sources.get(ip)
    for (const session of [...(this.#sessions.get(ip) ?? [])])
      if (session.destinations.some(({ host, port }) => !evaluatePolicy(source, host, port).allow)) session.revoke()
  }

  async #listen(
    name: ListenerName,
    at: ListenEndpoint,
    accepted: (connection: TcpConnection) => void,
  ): Promise<SocketAddress> {
    const bound = await this.transport.listen(at, accepted).catch((error: unknown) => {
      throw listenError(name, at, error)
    })
    this.#listeners.push(bound)
    this.dialer.ownPorts.add(bound.port)
    return { address: bound.address, port: bound.port }
  }
}
