// From an allowed name to a connection: looked up once, judged by its addresses, and exactly those are dialled (decision X3).
import { networkInterfaces } from 'node:os'
import { classOf } from './addresses.ts'
import type { AnswerCode } from './answers.ts'
import { NameCache } from './dns/name-cache.ts'
import type { Resolved } from './dns/resolver.ts'
import type { HostPort } from './host-port.ts'
import type { Limits } from './limits.ts'
import type { Timer, Wire, WireOwner, Wires } from './wire.ts'

export interface Failure {
  readonly code: AnswerCode
  readonly detail?: string | undefined
}

export interface Dialled {
  readonly wire: Wire
  readonly address: string
}

export type Told = (result: Dialled | Failure) => void

export interface Destination extends HostPort {
  /** Chosen by the operator as one exact destination: it may be an address, and private. */
  readonly isEndpoint?: boolean
}

export interface DialRules {
  readonly denyPrivate: boolean
  readonly limits: Limits
}

/** How long one address may keep silent before the next one is tried beside it (RFC 8305). */
const STAGGER_MS = 250
/** Names that one source may wait for at a time: with names that never answer, it would have all others wait. */
const LOOKUPS_MAX = 128
/** How old the list of this machine's own addresses may be. */
const OWN_ADDRESSES_MS = 10_000

const FAILURES: Readonly<Record<string, AnswerCode>> = {
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
  readonly #wires: Wires
  readonly #rules: DialRules
  readonly #ask: (name: string) => void
  readonly #names = new NameCache()
  readonly #waiting = new Map<string, Lookup>()
  /** How many names are being looked up, by the source that asked first. */
  readonly #lookups = new Map<string, number>()
  /** Ports on which this very proxy listens. */
  readonly ownPorts = new Set<number>()
  #own: ReadonlySet<string> = new Set()
  #ownAt = Number.NEGATIVE_INFINITY

  /** `ask` has a name looked up; the answer comes back by `resolved`. */
  constructor(wires: Wires, rules: DialRules, ask: (name: string) => void) {
    this.#wires = wires
    this.#rules = rules
    this.#ask = ask
  }

  /** Only for what a verdict allowed: a lookup is a message to the outside, too. */
  dial(source: string, destination: Destination, told: Told): { cancel(): void } {
    const { host } = destination
    const dialling = new Dialling(this.#wires, this.#rules.limits, destination.port, told)
    const start = (resolved: Resolved): void => this.#start(dialling, resolved, destination)
    if (host.kind === 'address') {
      start({ kind: 'addresses', addresses: [host.text], ttlMs: 0 })
      return dialling
    }
    const now = this.#wires.now()
    const known = this.#names.get(host.text, now)
    if (known) {
      if (this.#names.isEnding(host.text, now) && !this.#waiting.has(host.text)) this.#lookUp(source, host.text)
      start(known)
      return dialling
    }
    const lookup = this.#waiting.get(host.text) ?? this.#lookUp(source, host.text)
    if (lookup) wait(lookup, dialling, start)
    else dialling.fail({ code: 'limit-reached' })
    return dialling
  }

  resolved(name: string, resolved: Resolved): void {
    this.#names.set(name, resolved, this.#wires.now())
    const lookup = this.#waiting.get(name)
    if (!lookup) return
    this.#waiting.delete(name)
    this.#count(lookup.source, -1)
    for (const tell of lookup.tells) tell(resolved)
  }

  /** Nothing when the source has too many under way. One that nobody waits for any more counts until it is answered. */
  #lookUp(source: string, name: string): Lookup | undefined {
    if ((this.#lookups.get(source) ?? 0) >= LOOKUPS_MAX) return undefined
    const lookup: Lookup = { source, tells: new Set() }
    this.#waiting.set(name, lookup)
    this.#count(source, 1)
    this.#ask(name)
    return lookup
  }

  #count(source: string, change: number): void {
    const count = (this.#lookups.get(source) ?? 0) + change
    if (count > 0) this.#lookups.set(source, count)
    else this.#lookups.delete(source)
  }

  #start(dialling: Dialling, resolved: Resolved, { port, isEndpoint = false }: Destination): void {
    if (resolved.kind === 'failed') {
      dialling.fail({ code: resolved.code, detail: resolved.rcode })
      return
    }
    const { addresses } = resolved
    const classes = new Set<string>()
    const allowed = addresses.filter((address) => {
      if (this.#leadsHere(address, port)) return false
      const kind = this.#rules.denyPrivate && !isEndpoint ? classOf(address) : 'public'
      classes.add(kind)
      return kind === 'public'
    })
    if (allowed.length > 0) {
      dialling.start(allowed)
      return
    }
    // The class and not the address: denials must not tell a sandbox what the inside looks like.
    if (classes.size > 0) dialling.fail({ code: 'destination-ip-prohibited', detail: [...classes].join(', ') })
    else dialling.fail({ code: addresses.length > 0 ? 'proxy-loop' : 'dns-error' })
  }

  #leadsHere(address: string, port: number): boolean {
    if (!this.ownPorts.has(port)) return false
    const kind = classOf(address)
    if (kind === 'loopback' || kind === 'unspecified') return true
    const now = this.#wires.now()
    if (now - this.#ownAt > OWN_ADDRESSES_MS) {
      this.#ownAt = now
      this.#own = new Set(Object.values(networkInterfaces()).flatMap((all) => all?.map((one) => one.address) ?? []))
    }
    return this.#own.has(address)
  }
}

/** A name that is being looked up. */
interface Lookup {
  /** Who asked first. */
  readonly source: string
  /** Those who wait for it. */
  readonly tells: Set<(resolved: Resolved) => void>
}

function wait({ tells }: Lookup, dialling: Dialling, start: (resolved: Resolved) => void): void {
  const tell = (resolved: Resolved): void => {
    dialling.given = undefined
    start(resolved)
  }
  dialling.given = () => tells.delete(tell)
  tells.add(tell)
}

/** One name's addresses, each tried until one is there. */
class Dialling {
  readonly #wires: Wires
  readonly #limits: Limits
  readonly #port: number
  readonly #told: Told
  readonly #trying = new Set<Wire>()
  #timers: Timer[] = []
  #left: readonly string[] = []
  #hasOthers = false
  #isOver = false
  #failure: Failure = { code: 'connection-timeout' }
  /** Gives up the place among those who wait for the name, while there is one. */
  given: (() => void) | undefined

  constructor(wires: Wires, limits: Limits, port: number, told: Told) {
    this.#wires = wires
    this.#limits = limits
    this.#port = port
    this.#told = told
  }

  start(addresses: readonly string[]): void {
    if (this.#isOver) return
    this.#left = addresses
    this.#hasOthers = addresses.length > 1
    const { dialMs, connectMs } = this.#limits
    // With one address its own limit is the sooner one.
    const ms = this.#hasOthers ? dialMs : Math.min(dialMs, connectMs)
    this.#timers.push(this.#wires.after(ms, () => this.fail({ code: 'connection-timeout' })))
    this.#next()
  }

  fail(failure: Failure): void {
    if (this.#isOver) return
    this.cancel()
    this.#told(failure)
  }

  cancel(): void {
    this.#isOver = true
    this.given?.()
    this.given = undefined
    for (const timer of this.#timers) timer.cancel()
    for (const wire of this.#trying) wire.reset()
  }

  #next(): void {
    const [address, ...left] = this.#left
    if (address === undefined) {
      if (this.#trying.size === 0) this.fail(this.#failure)
      return
    }
    this.#left = left
    this.#try(address)
    if (left.length > 0) this.#timers.push(this.#wires.after(STAGGER_MS, () => this.#isOver || this.#next()))
  }

  #try(address: string): void {
    const owner: WireOwner & { connected(): void } = {
      bytes: () => {},
      ended: () => {},
      drained: () => {},
      connected: () => this.#succeed(wire, address),
      closed: (error = 'ECONNRESET') => this.#failed(wire, { code: FAILURES[error] ?? 'destination-unroutable' }),
    }
    const wire = this.#wires.connect({ address, port: this.#port }, owner)
    this.#trying.add(wire)
    if (!this.#hasOthers) return
    const timedOut = (): void => {
      if (!this.#trying.has(wire)) return
      wire.reset()
      this.#failed(wire, { code: 'connection-timeout' })
    }
    this.#timers.push(this.#wires.after(this.#limits.connectMs, timedOut))
  }

  #failed(wire: Wire, failure: Failure): void {
    this.#trying.delete(wire)
    if (this.#isOver) return
    this.#failure = failure
    this.#next()
  }

  #succeed(wire: Wire, address: string): void {
    if (this.#isOver) {
      wire.reset()
      return
    }
    this.#trying.delete(wire)
    this.cancel()
    this.#told({ wire, address })
  }
}
