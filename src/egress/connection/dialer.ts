// Connects to an allowed host: resolves the name once, checks its addresses and dials exactly those.
// See docs/decisions.md#name-resolution.
import { networkInterfaces } from 'node:os'
import { addressClassOf } from '../address/address-class.ts'
import type { HostPort } from '../address/host-port.ts'
import { NameCache } from '../dns/name-cache.ts'
import type { DnsResult } from '../dns/resolver.ts'
import type { ConnectionOwner, TcpConnection, TcpTransport, Timer } from '../transport/transport.ts'
import type { ProxyErrorCode } from './error-responses.ts'
import type { ProxyLimits } from './limits.ts'

export interface DialFailure {
  readonly code: ProxyErrorCode
  readonly detail?: string | undefined
}

export interface DialSuccess {
  readonly connection: TcpConnection
  readonly address: string
}

export type DialCallback = (result: DialSuccess | DialFailure) => void

export interface Destination extends HostPort {
  /** An exact destination chosen by the operator: may be an IP address, also a private one. */
  readonly isEndpoint?: boolean
}

export interface DialRules {
  readonly denyPrivate: boolean
  readonly limits: ProxyLimits
}

/** Delay before the next address is tried in parallel (RFC 8305). */
const STAGGER_MS = 250
/** Pending lookups per source: names that never resolve would otherwise block the lookups of other sources. */
const LOOKUPS_MAX = 128
/** Maximum age of the list of this machine's own addresses. */
const OWN_ADDRESSES_MS = 10_000

const FAILURES: Readonly<Record<string, ProxyErrorCode>> = {
  ECONNREFUSED: 'connection-refused',
  ECONNRESET: 'connection-refused',
  ETIMEDOUT: 'connection-timeout',
  EMFILE: 'out-of-files',
  ENFILE: 'out-of-files',
  ENOBUFS: 'limit-reached',
  ENOMEM: 'limit-reached',
  ENOSPC: 'limit-reached',
  EADDRINUSE: 'limit-reached',
}

export class Dialer {
  readonly #transport: TcpTransport
  readonly #rules: DialRules
  readonly #lookUp: (name: string) => void
  readonly #names = new NameCache()
  readonly #pendingLookups = new Map<string, Lookup>()
  /** Number of pending lookups by the source that started them. */
  readonly #lookupCounts = new Map<string, number>()
  /** Ports on which this proxy listens. */
  readonly ownPorts = new Set<number>()
  #ownAddresses: ReadonlySet<string> = new Set()
  #ownAddressesAt = Number.NEGATIVE_INFINITY

  /** `lookUp` starts a DNS lookup whose result is passed to `completeLookup`. */
  constructor(transport: TcpTransport, rules: DialRules, lookUp: (name: string) => void) {
    this.#transport = transport
    this.#rules = rules
    this.#lookUp = lookUp
  }

  /** Call only after the policy check: a DNS lookup already sends data to the outside. */
  dial(source: string, destination: Destination, callback: DialCallback): { cancel(): void } {
    const { host } = destination
    const operation = new DialOperation(this.#transport, this.#rules.limits, destination.port, callback)
    const start = (resolved: DnsResult): void => this.#start(operation, resolved, destination)
    if (host.kind === 'address') {
      start({ kind: 'addresses', addresses: [host.text], ttlMs: 0 })
      return operation
    }
    const now = this.#transport.now()
    const cached = this.#names.get(host.text, now)
    if (cached) {
      if (this.#names.isExpiringSoon(host.text, now) && !this.#pendingLookups.has(host.text))
        this.#startLookup(source, host.text)
      start(cached)
      return operation
    }
    const lookup = this.#pendingLookups.get(host.text) ?? this.#startLookup(source, host.text)
    if (lookup) waitForLookup(lookup, operation, start)
    else operation.fail({ code: 'limit-reached' })
    return operation
  }

  completeLookup(name: string, resolved: DnsResult): void {
    this.#names.set(name, resolved, this.#transport.now())
    const lookup = this.#pendingLookups.get(name)
    if (!lookup) return
    this.#pendingLookups.delete(name)
    this.#count(lookup.source, -1)
    for (const listener of lookup.listeners) listener(resolved)
  }

  /** Undefined when the source has too many pending lookups. A lookup counts until it completes, even if no dial waits for it. */
  #startLookup(source: string, name: string): Lookup | undefined {
    if ((this.#lookupCounts.get(source) ?? 0) >= LOOKUPS_MAX) return undefined
    const lookup: Lookup = { source, listeners: new Set() }
    this.#pendingLookups.set(name, lookup)
    this.#count(source, 1)
    this.#lookUp(name)
    return lookup
  }

  #count(source: string, change: number): void {
    const count = (this.#lookupCounts.get(source) ?? 0) + change
    if (count > 0) this.#lookupCounts.set(source, count)
    else this.#lookupCounts.delete(source)
  }

  #start(operation: DialOperation, resolved: DnsResult, { port, isEndpoint = false }: Destination): void {
    if (resolved.kind === 'failed') {
      operation.fail({ code: resolved.code, detail: resolved.rcode })
      return
    }
    const { addresses } = resolved
    const classes = new Set<string>()
    const allowed = addresses.filter((address) => {
      if (this.#isOwnAddress(address, port)) return false
      const kind = this.#rules.denyPrivate && !isEndpoint ? addressClassOf(address) : 'public'
      classes.add(kind)
      return kind === 'public'
    })
    if (allowed.length > 0) {
      operation.start(allowed)
      return
    }
    // Names the address class but not the address, so that a denial does not reveal the internal network.
    if (classes.size > 0) operation.fail({ code: 'destination-ip-prohibited', detail: [...classes].join(', ') })
    else operation.fail({ code: addresses.length > 0 ? 'proxy-loop' : 'dns-error' })
  }

  #isOwnAddress(address: string, port: number): boolean {
    if (!this.ownPorts.has(port)) return false
    const kind = addressClassOf(address)
    if (kind === 'loopback' || kind === 'unspecified') return true
    const now = this.#transport.now()
    if (now - this.#ownAddressesAt > OWN_ADDRESSES_MS) {
      this.#ownAddressesAt = now
      this.#ownAddresses = new Set(
        Object.values(networkInterfaces()).flatMap((all) => all?.map((one) => one.address) ?? []),
      )
    }
    return this.#ownAddresses.has(address)
  }
}

/** A pending DNS lookup. */
interface Lookup {
  /** The source that started it. */
  readonly source: string
  readonly listeners: Set<(resolved: DnsResult) => void>
}

function waitForLookup({ listeners }: Lookup, operation: DialOperation, start: (resolved: DnsResult) => void): void {
  const listener = (resolved: DnsResult): void => {
    operation.leaveLookup = undefined
    start(resolved)
  }
  operation.leaveLookup = () => listeners.delete(listener)
  listeners.add(listener)
}

/** Connects to the first of several addresses that answers. */
class DialOperation {
  readonly #transport: TcpTransport
  readonly #limits: ProxyLimits
  readonly #port: number
  readonly #callback: DialCallback
  readonly #attempts = new Set<TcpConnection>()
  #timers: Timer[] = []
  #remaining: readonly string[] = []
  #hasOthers = false
  #isDone = false
  #failure: DialFailure = { code: 'connection-timeout' }
  /** Removes it from the lookup that it waits for. */
  leaveLookup: (() => void) | undefined

  constructor(transport: TcpTransport, limits: ProxyLimits, port: number, callback: DialCallback) {
    this.#transport = transport
    this.#limits = limits
    this.#port = port
    this.#callback = callback
  }

  start(addresses: readonly string[]): void {
    if (this.#isDone) return
    this.#remaining = addresses
    this.#hasOthers = addresses.length > 1
    const { dialMs, connectMs } = this.#limits
    // With one address `connectMs` is the only limit.
    const ms = this.#hasOthers ? dialMs : Math.min(dialMs, connectMs)
    this.#timers.push(this.#transport.after(ms, () => this.fail({ code: 'connection-timeout' })))
    this.#next()
  }

  fail(failure: DialFailure): void {
    if (this.#isDone) return
    this.cancel()
    this.#callback(failure)
  }

  cancel(): void {
    this.#isDone = true
    this.leaveLookup?.()
    this.leaveLookup = undefined
    for (const timer of this.#timers) timer.cancel()
    for (const connection of this.#attempts) connection.reset()
  }

  #next(): void {
    const [address, ...remaining] = this.#remaining
    if (address === undefined) {
      if (this.#attempts.size === 0) this.fail(this.#failure)
      return
    }
    this.#remaining = remaining
    this.#try(address)
    if (remaining.length > 0) this.#timers.push(this.#transport.after(STAGGER_MS, () => this.#isDone || this.#next()))
  }

  #try(address: string): void {
    const owner: ConnectionOwner & { connected(): void } = {
      received: () => {},
      ended: () => {},
      drained: () => {},
      connected: () => this.#succeed(connection, address),
      closed: (error = 'ECONNRESET') => this.#failed(connection, { code: FAILURES[error] ?? 'destination-unroutable' }),
    }
    const connection = this.#transport.connect({ address, port: this.#port }, owner)
    this.#attempts.add(connection)
    if (!this.#hasOthers) return
    const timedOut = (): void => {
      if (!this.#attempts.has(connection)) return
      connection.reset()
      this.#failed(connection, { code: 'connection-timeout' })
    }
    this.#timers.push(this.#transport.after(this.#limits.connectMs, timedOut))
  }

  #failed(connection: TcpConnection, failure: DialFailure): void {
    this.#attempts.delete(connection)
    if (this.#isDone) return
    this.#failure = failure
    this.#next()
  }

  #succeed(connection: TcpConnection, address: string): void {
    if (this.#isDone) {
      connection.reset()
      return
    }
    this.#attempts.delete(connection)
    this.cancel()
    this.#callback({ connection, address })
  }
}
