// Drives a TCP transport of either kind, in this thread or another: a test sends commands one by one and sees the events.
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

/** What to do with an accepted connection: report it, pause it before its first byte, or relay it to another address. */
export type AcceptPolicy = 'report' | 'pause' | SocketAddress

export interface ConnectionState {
  readonly remote: SocketAddress
  readonly local: SocketAddress
  readonly bytesIn: number
  readonly bytesOut: number
  readonly unsent: number
  readonly hasEnded: boolean
}

/** Actions before the connection is established. */
export interface ConnectOptions {
  readonly data?: string
  readonly isEnded?: boolean
  readonly abort?: 'reset' | 'close'
}

type Command =
  | { readonly kind: 'listen'; readonly host: string; readonly policy: AcceptPolicy }
  | { readonly kind: 'unlisten'; readonly port: number }
  | ({ readonly kind: 'connect'; readonly to: SocketAddress } & ConnectOptions)
  | { readonly kind: 'write'; readonly id: number; readonly bytes: Uint8Array }
  | { readonly kind: 'end' | 'reset' | 'close' | 'pause' | 'resume' | 'state'; readonly id: number }
  | { readonly kind: 'pump'; readonly from: number; readonly to: number }
  | { readonly kind: 'after'; readonly ms: number; readonly name: string }
  | { readonly kind: 'cancel'; readonly name: string }
  | { readonly kind: 'stop' }

type TransportEvent =
  | { readonly kind: 'open'; readonly wakeFd: number }
  | { readonly kind: 'reply'; readonly number: number; readonly value: unknown; readonly error?: string | undefined }
  | { readonly kind: 'accepted'; readonly id: number; readonly port: number }
  | { readonly kind: 'connected'; readonly id: number }
  | { readonly kind: 'ended'; readonly id: number }
  | { readonly kind: 'drained'; readonly id: number }
  | { readonly kind: 'bytes'; readonly id: number; readonly bytes: Uint8Array }
  | { readonly kind: 'closed'; readonly id: number; readonly error: string | undefined }
  | { readonly kind: 'timer'; readonly name: string; readonly ms: number }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'starved' }

/** Executes commands on a transport, in its thread. */
class TransportDriver {
  readonly #transport: TcpTransport
  readonly #report: (event: TransportEvent) => void
  readonly #connections = new Map<number, TcpConnection>()
  readonly #listeners = new Map<number, BoundListener>()
  readonly #timers = new Map<string, Timer>()
  #count = 0

  constructor(transport: TcpTransport, report: (event: TransportEvent) => void) {
    this.#transport = transport
    this.#report = report
  }

  execute(command: Command): unknown {
    switch (command.kind) {
      case 'listen':
        return this.#listen(command.host, command.policy)
      case 'unlisten':
        return this.#listeners.get(command.port)?.close()
      case 'connect':
        return this.#connect(command.to, command)
      case 'pump':
        return this.#transport.pump(this.#connection(command.from), this.#connection(command.to))
      case 'after':
        return this.#after(command.ms, command.name)
      case 'cancel':
        return this.#timers.get(command.name)?.cancel()
      case 'write':
        return this.#connection(command.id).write(command.bytes)
      case 'state':
        return readConnectionState(this.#connection(command.id))
      case 'stop':
        return undefined
      default:
        return this.#connection(command.id)[command.kind]()
    }
  }

  closeAll(): void {
    for (const bound of this.#listeners.values()) bound.close()
    for (const connection of this.#connections.values()) connection.close()
  }

  #listen(host: string, policy: AcceptPolicy): unknown {
    const listener: { port?: number } = {}
    const accepted = (connection: TcpConnection): void => this.#accept(connection, policy, listener.port ?? 0)
    const add = (bound: BoundListener): SocketAddress => {
      listener.port = bound.port
      this.#listeners.set(bound.port, bound)
      return { address: bound.address, port: bound.port }
    }
    // Promises never settle in the thread that waits in the kernel.
    if (this.#transport instanceof EpollTransport) return add(this.#transport.listenNow({ host, port: 0 }, accepted))
    return this.#transport.listen({ host, port: 0 }, accepted).then(add)
  }

  #accept(connection: TcpConnection, policy: AcceptPolicy, port: number): void {
    if (policy === 'pause') connection.pause()
    const id = this.#add(connection)
    this.#report({ kind: 'accepted', id, port })
    if (typeof policy === 'object') this.#relay(connection, policy)
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

  #connect(to: SocketAddress, { data, isEnded, abort }: ConnectOptions): number {
    const id = ++this.#count
    const connection = this.#transport.connect(to, {
      ...this.#createOwner(id),
      connected: () => this.#report({ kind: 'connected', id }),
    })
    this.#connections.set(id, connection)
    if (data !== undefined) connection.write(Buffer.from(data, 'latin1'))
    if (isEnded) connection.end()
    if (abort) connection[abort]()
    return id
  }

  #add(connection: TcpConnection): number {
    const id = ++this.#count
    this.#connections.set(id, connection)
    connection.owner = this.#createOwner(id)
    return id
  }

  #createOwner(id: number): TcpConnection['owner'] {
    return {
      received: (bytes) => this.#report({ kind: 'bytes', id, bytes: new Uint8Array(bytes) }),
      ended: () => this.#report({ kind: 'ended', id }),
      drained: () => this.#report({ kind: 'drained', id }),
      closed: (error) => this.#report({ kind: 'closed', id, error }),
    }
  }

  #after(ms: number, name: string): void {
    const from = this.#transport.now()
    const fire = (): void => this.#report({ kind: 'timer', name, ms: this.#transport.now() - from })
    this.#timers.set(name, this.#transport.after(ms, fire))
  }

  #connection(id: number): TcpConnection {
    const connection = this.#connections.get(id)
    if (!connection) throw new Error(`no connection with id ${id}`)
    return connection
  }
}

function readConnectionState({ remote, local, bytesIn, bytesOut, unsent, hasEnded }: TcpConnection): ConnectionState {
  return { remote, local, bytesIn, bytesOut, unsent, hasEnded }
}

/** One connection, as the test sees it. */
export class ScriptedConnection {
  readonly id: number
  readonly #transport: ScriptedTransport
  readonly pieces: Uint8Array[] = []
  isConnected = false
  endedTimes = 0
  drainedTimes = 0
  closedTimes = 0
  error: string | undefined

  constructor(transport: ScriptedTransport, id: number) {
    this.#transport = transport
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
    return (await this.#transport.execute({ kind: 'write', id: this.id, bytes: all })) === true
  }

  async perform(kind: 'end' | 'reset' | 'close' | 'pause' | 'resume'): Promise<void> {
    await this.#transport.execute({ kind, id: this.id })
  }

  async pumpTo(to: ScriptedConnection): Promise<void> {
    await this.#transport.execute({ kind: 'pump', from: this.id, to: to.id })
  }

  async readState(): Promise<ConnectionState> {
    // The reply to this command has this type.
    return (await this.#transport.execute({ kind: 'state', id: this.id })) as ConnectionState
  }
}

/** The transport, as the test sees it. */
export class ScriptedTransport {
  readonly firedTimers: { readonly name: string; readonly ms: number }[] = []
  readonly accepted: ScriptedConnection[] = []
  readonly failures: string[] = []
  starvedTimes = 0
  /** Sends a command to the driver. */
  send: (number: number, execute: Command) => void = () => {}
  readonly #transport = new Map<number, ScriptedConnection>()
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()
  #number = 0

  execute(command: Command): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#waiting.set(++this.#number, { resolve, reject })
    this.send(this.#number, command)
    return promise
  }

  async listen(host: string, policy: AcceptPolicy = 'report'): Promise<SocketAddress> {
    // The reply to this command has this type.
    return (await this.execute({ kind: 'listen', host, policy })) as SocketAddress
  }

  async unlisten({ port }: SocketAddress): Promise<void> {
    await this.execute({ kind: 'unlisten', port })
  }

  async connect(to: SocketAddress, options: ConnectOptions = {}): Promise<ScriptedConnection> {
    return this.connection(Number(await this.execute({ kind: 'connect', to, ...options })))
  }

  async after(ms: number, name: string): Promise<void> {
    await this.execute({ kind: 'after', ms, name })
  }

  async cancel(name: string): Promise<void> {
    await this.execute({ kind: 'cancel', name })
  }

  /** The `count`th connection that was accepted. */
  async acceptedConnection(count = 1): Promise<ScriptedConnection> {
    await until(() => this.accepted.length >= count)
    const connection = this.accepted[count - 1]
    if (!connection) throw new Error('no connection was accepted')
    return connection
  }

  /** Events of a connection may arrive before the reply to its `connect`. */
  connection(id: number): ScriptedConnection {
    const existing = this.#transport.get(id)
    if (existing) return existing
    const connection = new ScriptedConnection(this, id)
    this.#transport.set(id, connection)
    return connection
  }

  receive(event: TransportEvent): void {
    if (event.kind === 'reply') this.#settle(event)
    else if (event.kind === 'timer') this.firedTimers.push(event)
    else if (event.kind === 'failed') this.failures.push(event.message)
    else if (event.kind === 'starved') this.starvedTimes++
    else if (event.kind !== 'open') this.#record(event)
  }

  #record(event: Extract<TransportEvent, { readonly id: number }>): void {
    const connection = this.connection(event.id)
    if (event.kind === 'accepted') this.accepted.push(connection)
    else if (event.kind === 'connected') connection.isConnected = true
    else if (event.kind === 'bytes') connection.pieces.push(event.bytes)
    else if (event.kind === 'ended') connection.endedTimes++
    else if (event.kind === 'drained') connection.drainedTimes++
    else {
      connection.closedTimes++
      connection.error = event.error
    }
  }

  #settle({ number, value, error }: Extract<TransportEvent, { kind: 'reply' }>): void {
    const waiting = this.#waiting.get(number)
    this.#waiting.delete(number)
    if (error === undefined) waiting?.resolve(value)
    else waiting?.reject(new Error(error))
  }
}

export type TransportKind = 'epoll' | 'net'

/** Runs clean-up work at the end of a test. */
export interface AsyncCleanupScope {
  after(work: () => Promise<void> | void): void
}

export function openScriptedTransport(kind: TransportKind, t: AsyncCleanupScope): Promise<ScriptedTransport> {
  return kind === 'net' ? Promise.resolve(openNetTransport(t)) : openEpollTransport(t)
}

function openNetTransport(t: AsyncCleanupScope): ScriptedTransport {
  const scripted = new ScriptedTransport()
  const driver = new TransportDriver(openNodeTransport(), (event) => scripted.receive(event))
  t.after(() => driver.closeAll())
  scripted.send = (number, command) => {
    const done = (value: unknown): void => scripted.receive({ kind: 'reply', number, value })
    const failed = (error: unknown): void =>
      scripted.receive({ kind: 'reply', number, value: undefined, error: `${error}` })
    // As with a thread, the reply comes after this call returns.
    new Promise((resolve) => resolve(driver.execute(command))).then(done, failed)
  }
  return scripted
}

const WAKE_COUNT = Buffer.alloc(8)
WAKE_COUNT.writeBigUInt64LE(1n)

async function openEpollTransport(t: AsyncCleanupScope): Promise<ScriptedTransport> {
  const scripted = new ScriptedTransport()
  const worker = new Worker(new URL(import.meta.url))
  const ended = new Promise<void>((resolve) => worker.on('exit', () => resolve()))
  const { promise: opened, resolve: open, reject } = Promise.withResolvers<number>()
  worker.on('error', reject)
  worker.on('message', (event: TransportEvent) =>
    event.kind === 'open' ? open(event.wakeFd) : scripted.receive(event),
  )
  const wakeFd = await opened
  scripted.send = (number, command) => {
    worker.postMessage({ number, command })
    writeSync(wakeFd, WAKE_COUNT)
  }
  t.after(async () => {
    scripted.send(0, { kind: 'stop' })
    await ended
    closeSync(wakeFd)
  })
  return scripted
}

/** Runs in the thread. */
function runDriver(port: MessagePort): void {
  const report = (event: TransportEvent): void => port.postMessage(event)
  const kernel = openKernel()
  if (!kernel) throw new Error('this version of Node cannot call the kernel')
  const transport = new EpollTransport(kernel, {
    woken: () => {
      for (let got = receiveMessageOnPort(port); got; got = receiveMessageOnPort(port)) run(got.message)
    },
    failed: (error) => report({ kind: 'failed', message: `${error}` }),
    starved: () => report({ kind: 'starved' }),
  })
  const driver = new TransportDriver(transport, report)
  const run = ({ number, command }: { readonly number: number; readonly command: Command }): void => {
    if (command.kind === 'stop') {
      transport.stop()
      return
    }
    try {
      report({ kind: 'reply', number, value: driver.execute(command) })
    } catch (error) {
      report({ kind: 'reply', number, value: undefined, error: `${error}` })
    }
  }
  report({ kind: 'open', wakeFd: transport.wakeFd })
  transport.run()
  transport.close()
  port.close()
}

if (!isMainThread && parentPort) runDriver(parentPort)
