// Wires on strings: whatever make they are of and whichever thread they live in, a test says what they do, one call after
// the other, and sees what they tell.
import { closeSync, writeSync } from 'node:fs'
import { isMainThread, type MessagePort, parentPort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { EpollTransport } from '../../src/egress/transport/epoll-transport.ts'
import { openKernel } from '../../src/egress/transport/kernel.ts'
import { openNodeTransport } from '../../src/egress/transport/node-transport.ts'
import type {
  BoundListener,
  SocketAddress,
  TcpConnection,
  TcpTransport,
  Timer,
} from '../../src/egress/transport/transport.ts'
import { until } from './until.ts'

/** What becomes of an accepted connection: it is told of, or held before its first byte, or it goes on to another place. */
export type AcceptPolicy = 'tell' | 'hold' | SocketAddress

export interface Facts {
  readonly remote: SocketAddress
  readonly local: SocketAddress
  readonly bytesIn: number
  readonly bytesOut: number
  readonly unsent: number
  readonly hasEnded: boolean
}

/** What is done to a connection before it is connected. */
export interface Connecting {
  readonly first?: string
  readonly ends?: boolean
  readonly gives?: 'reset' | 'close'
}

type Order =
  | { readonly kind: 'listen'; readonly host: string; readonly fate: AcceptPolicy }
  | { readonly kind: 'unlisten'; readonly port: number }
  | ({ readonly kind: 'connect'; readonly to: SocketAddress } & Connecting)
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

/** Where the transport are. */
class Hand {
  readonly #transport: TcpTransport
  readonly #tell: (news: News) => void
  readonly #held = new Map<number, TcpConnection>()
  readonly #bounds = new Map<number, BoundListener>()
  readonly #timers = new Map<string, Timer>()
  #count = 0

  constructor(transport: TcpTransport, tell: (news: News) => void) {
    this.#transport = transport
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
        return this.#transport.pump(this.#connection(order.from), this.#connection(order.to))
      case 'after':
        return this.#after(order.ms, order.name)
      case 'cancel':
        return this.#timers.get(order.name)?.cancel()
      case 'write':
        return this.#connection(order.id).write(order.bytes)
      case 'facts':
        return factsOf(this.#connection(order.id))
      case 'stop':
        return undefined
      default:
        return this.#connection(order.id)[order.kind]()
    }
  }

  /** Everything. */
  drop(): void {
    for (const bound of this.#bounds.values()) bound.close()
    for (const connection of this.#held.values()) connection.close()
  }

  #listen(host: string, fate: AcceptPolicy): unknown {
    const bound: { port?: number } = {}
    const accepted = (connection: TcpConnection): void => this.#accept(connection, fate, bound.port ?? 0)
    const keep = (made: BoundListener): SocketAddress => {
      bound.port = made.port
      this.#bounds.set(made.port, made)
      return { address: made.address, port: made.port }
    }
    // In the thread that waits in the kernel no promise is ever kept.
    if (this.#transport instanceof EpollTransport) return keep(this.#transport.listenNow({ host, port: 0 }, accepted))
    return this.#transport.listen({ host, port: 0 }, accepted).then(keep)
  }

  #accept(connection: TcpConnection, fate: AcceptPolicy, port: number): void {
    if (fate === 'hold') connection.pause()
    const id = this.#keep(connection)
    this.#tell({ kind: 'accepted', id, port })
    if (typeof fate === 'object') this.#relay(connection, fate)
  }

  #relay(client: TcpConnection, to: SocketAddress): void {
    client.pause()
    const server = this.#transport.connect(to, {
      received: () => {},
      ended: () => {},
      drained: () => {},
      closed: () => client.reset(),
      connected: () => {
        server.owner = {
          received: () => {},
          ended: () => {},
          drained: () => {},
          closed: (error) => error && client.reset(),
        }
        this.#transport.pump(client, server)
        this.#transport.pump(server, client)
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

  #connect(to: SocketAddress, { first, ends, gives }: Connecting): number {
    const id = ++this.#count
    const connection = this.#transport.connect(to, {
      ...this.#ownerOf(id),
      connected: () => this.#tell({ kind: 'connected', id }),
    })
    this.#held.set(id, connection)
    if (first !== undefined) connection.write(Buffer.from(first, 'latin1'))
    if (ends) connection.end()
    if (gives) connection[gives]()
    return id
  }

  #keep(connection: TcpConnection): number {
    const id = ++this.#count
    this.#held.set(id, connection)
    connection.owner = this.#ownerOf(id)
    return id
  }

  #ownerOf(id: number): TcpConnection['owner'] {
    return {
      received: (bytes) => this.#tell({ kind: 'bytes', id, bytes: new Uint8Array(bytes) }),
      ended: () => this.#tell({ kind: 'ended', id }),
      drained: () => this.#tell({ kind: 'drained', id }),
      closed: (error) => this.#tell({ kind: 'closed', id, error }),
    }
  }

  #after(ms: number, name: string): void {
    const from = this.#transport.now()
    const rang = (): void => this.#tell({ kind: 'rang', name, ms: this.#transport.now() - from })
    this.#timers.set(name, this.#transport.after(ms, rang))
  }

  #connection(id: number): TcpConnection {
    const connection = this.#held.get(id)
    if (!connection) throw new Error(`there is no connection ${id}`)
    return connection
  }
}

function factsOf({ remote, local, bytesIn, bytesOut, unsent, hasEnded }: TcpConnection): Facts {
  return { remote, local, bytesIn, bytesOut, unsent, hasEnded }
}

/** One connection, as the test sees it. */
export class ScriptedConnection {
  readonly id: number
  readonly #puppet: ScriptedTransport
  readonly pieces: Uint8Array[] = []
  isConnected = false
  endedTimes = 0
  drainedTimes = 0
  closedTimes = 0
  error: string | undefined

  constructor(puppet: ScriptedTransport, id: number) {
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

  async pumpTo(to: ScriptedConnection): Promise<void> {
    await this.#puppet.order({ kind: 'pump', from: this.id, to: to.id })
  }

  async facts(): Promise<Facts> {
    // The hand answers this order with nothing else.
    return (await this.#puppet.order({ kind: 'facts', id: this.id })) as Facts
  }
}

/** The transport, as the test sees them. */
export class ScriptedTransport {
  readonly rung: { readonly name: string; readonly ms: number }[] = []
  readonly accepted: ScriptedConnection[] = []
  readonly faults: string[] = []
  starvedTimes = 0
  /** How an order gets to the hand. */
  send: (number: number, order: Order) => void = () => {}
  readonly #transport = new Map<number, ScriptedConnection>()
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()
  #number = 0

  order(order: Order): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#waiting.set(++this.#number, { resolve, reject })
    this.send(this.#number, order)
    return promise
  }

  async listen(host: string, fate: AcceptPolicy = 'tell'): Promise<SocketAddress> {
    // The hand answers this order with nothing else.
    return (await this.order({ kind: 'listen', host, fate })) as SocketAddress
  }

  async unlisten({ port }: SocketAddress): Promise<void> {
    await this.order({ kind: 'unlisten', port })
  }

  async connect(to: SocketAddress, connecting: Connecting = {}): Promise<ScriptedConnection> {
    return this.connection(Number(await this.order({ kind: 'connect', to, ...connecting })))
  }

  async after(ms: number, name: string): Promise<void> {
    await this.order({ kind: 'after', ms, name })
  }

  async cancel(name: string): Promise<void> {
    await this.order({ kind: 'cancel', name })
  }

  /** The `count`th connection that was accepted. */
  async acceptedConnection(count = 1): Promise<ScriptedConnection> {
    await until(() => this.accepted.length >= count)
    const connection = this.accepted[count - 1]
    if (!connection) throw new Error('nothing was accepted')
    return connection
  }

  /** News of a connection may come before the order that made it is answered. */
  connection(id: number): ScriptedConnection {
    const known = this.#transport.get(id)
    if (known) return known
    const connection = new ScriptedConnection(this, id)
    this.#transport.set(id, connection)
    return connection
  }

  hear(news: News): void {
    if (news.kind === 'reply') this.#answer(news)
    else if (news.kind === 'rang') this.rung.push(news)
    else if (news.kind === 'failed') this.faults.push(news.message)
    else if (news.kind === 'starved') this.starvedTimes++
    else if (news.kind !== 'open') this.#note(news)
  }

  #note(news: Extract<News, { readonly id: number }>): void {
    const connection = this.connection(news.id)
    if (news.kind === 'accepted') this.accepted.push(connection)
    else if (news.kind === 'connected') connection.isConnected = true
    else if (news.kind === 'bytes') connection.pieces.push(news.bytes)
    else if (news.kind === 'ended') connection.endedTimes++
    else if (news.kind === 'drained') connection.drainedTimes++
    else {
      connection.closedTimes++
      connection.error = news.error
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
export interface AsyncCleanupScope {
  after(work: () => Promise<void> | void): void
}

export function openScriptedTransport(make: Make, t: AsyncCleanupScope): Promise<ScriptedTransport> {
  return make === 'net' ? Promise.resolve(openNetPuppet(t)) : openEpollPuppet(t)
}

function openNetPuppet(t: AsyncCleanupScope): ScriptedTransport {
  const puppet = new ScriptedTransport()
  const hand = new Hand(openNodeTransport(), (news) => puppet.hear(news))
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

async function openEpollPuppet(t: AsyncCleanupScope): Promise<ScriptedTransport> {
  const puppet = new ScriptedTransport()
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
  const transport = new EpollTransport(kernel, {
    woken: () => {
      for (let got = receiveMessageOnPort(port); got; got = receiveMessageOnPort(port)) obey(got.message)
    },
    failed: (error) => tell({ kind: 'failed', message: `${error}` }),
    starved: () => tell({ kind: 'starved' }),
  })
  const hand = new Hand(transport, tell)
  const obey = ({ number, order }: { readonly number: number; readonly order: Order }): void => {
    if (order.kind === 'stop') {
      transport.stop()
      return
    }
    try {
      tell({ kind: 'reply', number, value: hand.obey(order) })
    } catch (error) {
      tell({ kind: 'reply', number, value: undefined, error: `${error}` })
    }
  }
  tell({ kind: 'open', wakeFd: transport.wakeFd })
  transport.run()
  transport.close()
  port.close()
}

if (!isMainThread && parentPort) runHand(parentPort)
