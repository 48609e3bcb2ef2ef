// Wires on strings: whatever make they are of and whichever thread they live in, a test says what they do, one call after
// the other, and sees what they tell.
import { closeSync, writeSync } from 'node:fs'
import { isMainThread, type MessagePort, parentPort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import type { Bound, Endpoint, Timer, Wire, Wires } from '../../src/egress/wire.ts'
import { EpollWires } from '../../src/egress/wires/epoll.ts'
import { openKernel } from '../../src/egress/wires/kernel.ts'
import { openNetWires } from '../../src/egress/wires/net.ts'
import { until } from './until.ts'

/** What becomes of an accepted connection: it is told of, or held before its first byte, or it goes on to another place. */
export type Fate = 'tell' | 'hold' | Endpoint

export interface Facts {
  readonly remote: Endpoint
  readonly local: Endpoint
  readonly bytesIn: number
  readonly bytesOut: number
  readonly unsent: number
  readonly hasEnded: boolean
}

/** What is done to a wire before it is connected. */
export interface Connecting {
  readonly first?: string
  readonly ends?: boolean
  readonly gives?: 'reset' | 'close'
}

type Order =
  | { readonly kind: 'listen'; readonly host: string; readonly fate: Fate }
  | { readonly kind: 'unlisten'; readonly port: number }
  | ({ readonly kind: 'connect'; readonly to: Endpoint } & Connecting)
  | { readonly kind: 'write'; readonly id: number; readonly bytes: Uint8Array }
  | { readonly kind: 'end' | 'reset' | 'close' | 'pause' | 'resume' | 'facts'; readonly id: number }
  | { readonly kind: 'pump'; readonly from: number; readonly to: number }
  | { readonly kind: 'after'; readonly ms: number; readonly name: string }
  | { readonly kind: 'cancel'; readonly name: string }
  | { readonly kind: 'stop' }

type News =
  | { readonly kind: 'open'; readonly wakeFd: number }
  | { readonly kind: 'reply'; readonly number: number; readonly value: unknown; readonly error?: string | undefined }
  | { readonly kind: 'accepted'; readonly id: number; readonly port: number }
  | { readonly kind: 'connected'; readonly id: number }
  | { readonly kind: 'ended'; readonly id: number }
  | { readonly kind: 'drained'; readonly id: number }
  | { readonly kind: 'bytes'; readonly id: number; readonly bytes: Uint8Array }
  | { readonly kind: 'closed'; readonly id: number; readonly error: string | undefined }
  | { readonly kind: 'rang'; readonly name: string; readonly ms: number }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'starved' }

/** Where the wires are. */
class Hand {
  readonly #wires: Wires
  readonly #tell: (news: News) => void
  readonly #held = new Map<number, Wire>()
  readonly #bounds = new Map<number, Bound>()
  readonly #timers = new Map<string, Timer>()
  #count = 0

  constructor(wires: Wires, tell: (news: News) => void) {
    this.#wires = wires
    this.#tell = tell
  }

  obey(order: Order): unknown {
    switch (order.kind) {
      case 'listen':
        return this.#listen(order.host, order.fate)
      case 'unlisten':
        return this.#bounds.get(order.port)?.close()
      case 'connect':
        return this.#connect(order.to, order)
      case 'pump':
        return this.#wires.pump(this.#wire(order.from), this.#wire(order.to))
      case 'after':
        return this.#after(order.ms, order.name)
      case 'cancel':
        return this.#timers.get(order.name)?.cancel()
      case 'write':
        return this.#wire(order.id).write(order.bytes)
      case 'facts':
        return factsOf(this.#wire(order.id))
      case 'stop':
        return undefined
      default:
        return this.#wire(order.id)[order.kind]()
    }
  }

  /** Everything. */
  drop(): void {
    for (const bound of this.#bounds.values()) bound.close()
    for (const wire of this.#held.values()) wire.close()
  }

  #listen(host: string, fate: Fate): unknown {
    const bound: { port?: number } = {}
    const accepted = (wire: Wire): void => this.#accept(wire, fate, bound.port ?? 0)
    const keep = (made: Bound): Endpoint => {
      bound.port = made.port
      this.#bounds.set(made.port, made)
      return { address: made.address, port: made.port }
    }
    // In the thread that waits in the kernel no promise is ever kept.
    if (this.#wires instanceof EpollWires) return keep(this.#wires.listenNow({ host, port: 0 }, accepted))
    return this.#wires.listen({ host, port: 0 }, accepted).then(keep)
  }

  #accept(wire: Wire, fate: Fate, port: number): void {
    if (fate === 'hold') wire.pause()
    const id = this.#keep(wire)
    this.#tell({ kind: 'accepted', id, port })
    if (typeof fate === 'object') this.#relay(wire, fate)
  }

  #relay(client: Wire, to: Endpoint): void {
    client.pause()
    const server = this.#wires.connect(to, {
      bytes: () => {},
      ended: () => {},
      drained: () => {},
      closed: () => client.reset(),
      connected: () => {
        server.owner = {
          bytes: () => {},
          ended: () => {},
          drained: () => {},
          closed: (error) => error && client.reset(),
        }
        this.#wires.pump(client, server)
        this.#wires.pump(server, client)
      },
    })
    const { owner } = client
    client.owner = {
      ...owner,
      closed: (error) => {
        owner.closed(error)
        if (error) server.reset()
      },
    }
  }

  #connect(to: Endpoint, { first, ends, gives }: Connecting): number {
    const id = ++this.#count
    const wire = this.#wires.connect(to, {
      ...this.#ownerOf(id),
      connected: () => this.#tell({ kind: 'connected', id }),
    })
    this.#held.set(id, wire)
    if (first !== undefined) wire.write(Buffer.from(first, 'latin1'))
    if (ends) wire.end()
    if (gives) wire[gives]()
    return id
  }

  #keep(wire: Wire): number {
    const id = ++this.#count
    this.#held.set(id, wire)
    wire.owner = this.#ownerOf(id)
    return id
  }

  #ownerOf(id: number): Wire['owner'] {
    return {
      bytes: (bytes) => this.#tell({ kind: 'bytes', id, bytes: new Uint8Array(bytes) }),
      ended: () => this.#tell({ kind: 'ended', id }),
      drained: () => this.#tell({ kind: 'drained', id }),
      closed: (error) => this.#tell({ kind: 'closed', id, error }),
    }
  }

  #after(ms: number, name: string): void {
    const from = this.#wires.now()
    const rang = (): void => this.#tell({ kind: 'rang', name, ms: this.#wires.now() - from })
    this.#timers.set(name, this.#wires.after(ms, rang))
  }

  #wire(id: number): Wire {
    const wire = this.#held.get(id)
    if (!wire) throw new Error(`there is no wire ${id}`)
    return wire
  }
}

function factsOf({ remote, local, bytesIn, bytesOut, unsent, hasEnded }: Wire): Facts {
  return { remote, local, bytesIn, bytesOut, unsent, hasEnded }
}

/** One wire, as the test sees it. */
export class PuppetWire {
  readonly id: number
  readonly #puppet: Puppet
  readonly pieces: Uint8Array[] = []
  isConnected = false
  endedTimes = 0
  drainedTimes = 0
  closedTimes = 0
  error: string | undefined

  constructor(puppet: Puppet, id: number) {
    this.#puppet = puppet
    this.id = id
  }

  get bytes(): Buffer {
    return Buffer.concat(this.pieces)
  }

  get text(): string {
    return this.bytes.toString('latin1')
  }

  get isClosed(): boolean {
    return this.closedTimes > 0
  }

  async write(bytes: string | Uint8Array): Promise<boolean> {
    const all = typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes
    return (await this.#puppet.order({ kind: 'write', id: this.id, bytes: all })) === true
  }

  async do(kind: 'end' | 'reset' | 'close' | 'pause' | 'resume'): Promise<void> {
    await this.#puppet.order({ kind, id: this.id })
  }

  async pumpTo(to: PuppetWire): Promise<void> {
    await this.#puppet.order({ kind: 'pump', from: this.id, to: to.id })
  }

  async facts(): Promise<Facts> {
    // The hand answers this order with nothing else.
    return (await this.#puppet.order({ kind: 'facts', id: this.id })) as Facts
  }
}

/** The wires, as the test sees them. */
export class Puppet {
  readonly rung: { readonly name: string; readonly ms: number }[] = []
  readonly accepted: PuppetWire[] = []
  readonly faults: string[] = []
  starvedTimes = 0
  /** How an order gets to the hand. */
  send: (number: number, order: Order) => void = () => {}
  readonly #wires = new Map<number, PuppetWire>()
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()
  #number = 0

  order(order: Order): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#waiting.set(++this.#number, { resolve, reject })
    this.send(this.#number, order)
    return promise
  }

  async listen(host: string, fate: Fate = 'tell'): Promise<Endpoint> {
    // The hand answers this order with nothing else.
    return (await this.order({ kind: 'listen', host, fate })) as Endpoint
  }

  async unlisten({ port }: Endpoint): Promise<void> {
    await this.order({ kind: 'unlisten', port })
  }

  async connect(to: Endpoint, connecting: Connecting = {}): Promise<PuppetWire> {
    return this.wire(Number(await this.order({ kind: 'connect', to, ...connecting })))
  }

  async after(ms: number, name: string): Promise<void> {
    await this.order({ kind: 'after', ms, name })
  }

  async cancel(name: string): Promise<void> {
    await this.order({ kind: 'cancel', name })
  }

  /** The `count`th connection that was accepted. */
  async acceptedWire(count = 1): Promise<PuppetWire> {
    await until(() => this.accepted.length >= count)
    const wire = this.accepted[count - 1]
    if (!wire) throw new Error('nothing was accepted')
    return wire
  }

  /** News of a wire may come before the order that made it is answered. */
  wire(id: number): PuppetWire {
    const known = this.#wires.get(id)
    if (known) return known
    const wire = new PuppetWire(this, id)
    this.#wires.set(id, wire)
    return wire
  }

  hear(news: News): void {
    if (news.kind === 'reply') this.#answer(news)
    else if (news.kind === 'rang') this.rung.push(news)
    else if (news.kind === 'failed') this.faults.push(news.message)
    else if (news.kind === 'starved') this.starvedTimes++
    else if (news.kind !== 'open') this.#note(news)
  }

  #note(news: Extract<News, { readonly id: number }>): void {
    const wire = this.wire(news.id)
    if (news.kind === 'accepted') this.accepted.push(wire)
    else if (news.kind === 'connected') wire.isConnected = true
    else if (news.kind === 'bytes') wire.pieces.push(news.bytes)
    else if (news.kind === 'ended') wire.endedTimes++
    else if (news.kind === 'drained') wire.drainedTimes++
    else {
      wire.closedTimes++
      wire.error = news.error
    }
  }

  #answer({ number, value, error }: Extract<News, { kind: 'reply' }>): void {
    const waiting = this.#waiting.get(number)
    this.#waiting.delete(number)
    if (error === undefined) waiting?.resolve(value)
    else waiting?.reject(new Error(error))
  }
}

export type Make = 'epoll' | 'net'

/** Ends with the test. */
export interface PuppetEnding {
  after(work: () => Promise<void> | void): void
}

export function openPuppet(make: Make, t: PuppetEnding): Promise<Puppet> {
  return make === 'net' ? Promise.resolve(openNetPuppet(t)) : openEpollPuppet(t)
}

function openNetPuppet(t: PuppetEnding): Puppet {
  const puppet = new Puppet()
  const hand = new Hand(openNetWires(), (news) => puppet.hear(news))
  t.after(() => hand.drop())
  puppet.send = (number, order) => {
    const done = (value: unknown): void => puppet.hear({ kind: 'reply', number, value })
    const failed = (error: unknown): void => puppet.hear({ kind: 'reply', number, value: undefined, error: `${error}` })
    // As in a thread: nothing is answered before the order has returned.
    new Promise((resolve) => resolve(hand.obey(order))).then(done, failed)
  }
  return puppet
}

const ONE = Buffer.alloc(8)
ONE.writeBigUInt64LE(1n)

async function openEpollPuppet(t: PuppetEnding): Promise<Puppet> {
  const puppet = new Puppet()
  const worker = new Worker(new URL(import.meta.url))
  const ended = new Promise<void>((resolve) => worker.on('exit', () => resolve()))
  const { promise: opened, resolve: open, reject } = Promise.withResolvers<number>()
  worker.on('error', reject)
  worker.on('message', (news: News) => (news.kind === 'open' ? open(news.wakeFd) : puppet.hear(news)))
  const wakeFd = await opened
  puppet.send = (number, order) => {
    worker.postMessage({ number, order })
    writeSync(wakeFd, ONE)
  }
  t.after(async () => {
    puppet.send(0, { kind: 'stop' })
    await ended
    closeSync(wakeFd)
  })
  return puppet
}

/** In the thread. */
function runHand(port: MessagePort): void {
  const tell = (news: News): void => port.postMessage(news)
  const kernel = openKernel()
  if (!kernel) throw new Error('this Node cannot call the kernel')
  const wires = new EpollWires(kernel, {
    woken: () => {
      for (let got = receiveMessageOnPort(port); got; got = receiveMessageOnPort(port)) obey(got.message)
    },
    failed: (error) => tell({ kind: 'failed', message: `${error}` }),
    starved: () => tell({ kind: 'starved' }),
  })
  const hand = new Hand(wires, tell)
  const obey = ({ number, order }: { readonly number: number; readonly order: Order }): void => {
    if (order.kind === 'stop') {
      wires.stop()
      return
    }
    try {
      tell({ kind: 'reply', number, value: hand.obey(order) })
    } catch (error) {
      tell({ kind: 'reply', number, value: undefined, error: `${error}` })
    }
  }
  tell({ kind: 'open', wakeFd: wires.wakeFd })
  wires.run()
  wires.close()
  port.close()
}

if (!isMainThread && parentPort) runHand(parentPort)
