// The main thread's interface to the data plane, which runs in a worker thread or in the same thread.
import { close as closeFile, closeSync, writeSync } from 'node:fs'
import module from 'node:module'
import { dirname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { type FaultHandler, guard } from '../../lib/fault-boundary.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { DnsResult } from '../dns/resolver.ts'
import type { RegistryChange } from '../policy/source-registry.ts'
import type { DeniedRequest } from '../reporting/denial-batch.ts'
import type { MetricsSnapshot } from '../reporting/metrics-snapshot.ts'
import { AcceptWatchdog, createGuardWords } from '../transport/accept-guard.ts'
import type { Kernel } from '../transport/kernel.ts'
import { openNodeTransport } from '../transport/node-transport.ts'
import {
  DataPlane,
  type DataPlaneCallbacks,
  type DataPlaneOptions,
  type ListeningAddresses,
  type SocketSourceSpec,
} from './data-plane.ts'

export interface DataPlaneClient {
  readonly listening: ListeningAddresses
  /** When it resolves, the changes apply to the next connection. */
  apply(changes: readonly RegistryChange[]): Promise<void>
  /** Closes `handover` in any case. */
  openSource(source: SocketSourceSpec, handover: number): Promise<void>
  /** When it resolves, open connections that are no longer allowed have been closed. */
  setSource(key: string, allowlist: readonly string[]): Promise<void>
  closeSource(key: string): Promise<void>
  completeLookup(name: string, resolved: DnsResult): void
  snapshot(): Promise<MetricsSnapshot>
  /** Waits for open connections to finish, up to `limits.drainMs`. */
  stop(): Promise<void>
  close(): Promise<void>
}

/** Callbacks of the data plane into the main thread. */
export interface DataPlaneHost extends DataPlaneCallbacks {
  /** An internal error that ended one connection. */
  readonly onFault: FaultHandler
  /** The data plane has ended unexpectedly: no connection is served any more. */
  died(error: unknown): void
}

/** Commands that the worker replies to. */
export type WorkerRequest =
  | { readonly kind: 'apply'; readonly changes: readonly RegistryChange[] }
  | { readonly kind: 'open-source'; readonly source: SocketSourceSpec; readonly handover: number }
  | { readonly kind: 'set-source'; readonly key: string; readonly allowlist: readonly string[] }
  | { readonly kind: 'close-source'; readonly key: string }
  | { readonly kind: 'snapshot' }
  | { readonly kind: 'stop' }

/** From the main thread to the worker. */
export type WorkerCommand =
  | (WorkerRequest & { readonly number: number })
  | { readonly kind: 'resolved'; readonly name: string; readonly resolved: DnsResult }
  | { readonly kind: 'close' }

/** Empty if the worker has ended before it replied. `fault` is set if the command failed. */
export interface WorkerReply {
  readonly value?: MetricsSnapshot
  readonly fault?: string
}

export interface WorkerInput {
  readonly options: DataPlaneOptions
  /** Folder of the compile cache. */
  readonly compileCache: string | undefined
  /** The worker stores the descriptor that wakes it here. */
  readonly wake: Int32Array
  /** Shared memory of `AcceptGuard`. */
  readonly accepting: Int32Array
}

const NO_DESCRIPTOR = -1

/** From the worker to the main thread. */
export type WorkerEvent =
  | { readonly kind: 'open'; readonly listening: ListeningAddresses }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string; readonly hint?: string | undefined }
  | ({ readonly kind: 'done'; readonly number: number } & WorkerReply)
  | { readonly kind: 'look-up'; readonly name: string }
  | { readonly kind: 'log'; readonly lines: string }
  | { readonly kind: 'warn'; readonly sentence: string }
  | { readonly kind: 'fault'; readonly message: string }
  | { readonly kind: 'denied'; readonly denied: DeniedRequest[] }
  /** Asks the main thread to close a descriptor that is not a socket. */
  | { readonly kind: 'discard'; readonly fd: number }

/** Runs it in this thread on Node's sockets. */
export async function openInProcessDataPlane(options: DataPlaneOptions, host: DataPlaneHost): Promise<DataPlaneClient> {
  const dataPlane = new DataPlane(openNodeTransport(options.maxFiles, host.onFault), options, host)
  const listening = await dataPlane.open()
  return {
    listening,
    apply: async (changes) => dataPlane.apply(changes),
    openSource: async (_, handover) => {
      closeSync(handover)
      refuse('unsupported', 'io net cannot receive a listener')
    },
    setSource: async () => {},
    closeSource: async () => {},
    completeLookup: (name, resolved) => dataPlane.completeLookup(name, resolved),
    snapshot: async () => dataPlane.snapshot(),
    stop: () => new Promise((resolve) => dataPlane.stop(resolve)),
    close: async () => {},
  }
}

/** Runs it in a worker thread on Linux system calls. */
export async function openWorkerDataPlane(
  options: DataPlaneOptions,
  host: DataPlaneHost,
  kernel: Kernel,
): Promise<DataPlaneClient> {
  const accepting = createGuardWords()
  const wake = new Int32Array(new SharedArrayBuffer(4)).fill(NO_DESCRIPTOR)
  const worker = new Worker(
    new URL(`./worker-main.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url),
    {
      workerData: { options, wake, accepting, compileCache: compileCacheFolder() } satisfies WorkerInput,
      // Without the command-line flags of the process; only the warning about node:ffi is disabled.
      execArgv: ['--disable-warning=ExperimentalWarning'],
    },
  )
  const watchdog = new AcceptWatchdog(accepting, kernel.shutdown, host.onFault)
  const client = new WorkerDataPlane(worker, wake, host, watchdog)
  try {
    await client.opened
  } catch (error) {
    await client.ended
    throw error
  }
  return client
}

/** Node appends a folder for its version, and would append it again in the worker. */
function compileCacheFolder(): string | undefined {
  const folder = module.getCompileCacheDir()
  return folder === undefined ? undefined : dirname(folder)
}

function errorOf({ code, message, hint }: Extract<WorkerEvent, { kind: 'failed' }>): Error {
  if (code === 'unavailable') return new Refusal(code, message, hint)
  return Object.assign(new Error(message), { code })
}

const WAKE = Buffer.alloc(8)
WAKE.writeBigUInt64LE(1n)

class WorkerDataPlane implements DataPlaneClient {
  listening: ListeningAddresses = {}
  readonly opened: Promise<void>
  readonly ended: Promise<void>
  readonly #worker: Worker
  readonly #wake: Int32Array
  readonly #host: DataPlaneHost
  readonly #watchdog: AcceptWatchdog
  readonly #pending = new Map<number, (reply: WorkerReply) => void>()
  readonly #sources = new Set<string>()
  readonly #onExit = (): void => {
    this.#watchdog.close()
    this.#send({ kind: 'close' })
  }
  #number = 0
  #isOpen = false
  #isClosing = false
  #hasEnded = false

  constructor(worker: Worker, wake: Int32Array, host: DataPlaneHost, watchdog: AcceptWatchdog) {
    this.#worker = worker
    this.#wake = wake
    this.#host = host
    this.#watchdog = watchdog
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.opened = promise
    const { promise: ended, resolve: end } = Promise.withResolvers<void>()
    this.ended = ended
    const receive = (message: WorkerEvent): void => {
      if (message.kind === 'open') {
        this.listening = message.listening
        this.#isOpen = true
        this.#updateRef()
        resolve()
      } else if (message.kind === 'failed') {
        this.#isClosing = true
        reject(errorOf(message))
      } else this.#handle(message)
    }
    worker.on('message', guard(host.onFault, receive))
    const died = (error: unknown): void => {
      reject(error)
      if (!this.#isClosing) host.died(error)
    }
    worker.on('error', guard(host.onFault, died))
    const onEnded = (): void => {
      this.#hasEnded = true
      process.off('exit', this.#onExit)
      this.#closeWake()
      watchdog.stop()
      for (const resolveReply of this.#pending.values()) resolveReply({})
      died(new Error('the worker thread of the proxy has ended'))
      end()
    }
    worker.on('exit', guard(host.onFault, onEnded))
    // A process that exits waits for its threads, and this one blocks in epoll_wait.
    process.on('exit', this.#onExit)
  }

  async apply(changes: readonly RegistryChange[]): Promise<void> {
    await this.#request({ kind: 'apply', changes })
  }

  async openSource(source: SocketSourceSpec, handover: number): Promise<void> {
    if (this.#hasEnded) {
      closeSync(handover)
      refuse('unavailable', 'the proxy has ended')
    }
    this.#sources.add(source.key)
    this.#watchdog.start()
    const { fault } = await this.#request({ kind: 'open-source', source, handover })
    if (fault !== undefined) refuse('unavailable', `cannot open the source: ${fault}`)
    if (this.#hasEnded) refuse('unavailable', 'the proxy has ended')
  }

  async setSource(key: string, allowlist: readonly string[]): Promise<void> {
    await this.#request({ kind: 'set-source', key, allowlist })
  }

  async closeSource(key: string): Promise<void> {
    await this.#request({ kind: 'close-source', key })
    this.#sources.delete(key)
    if (this.#sources.size === 0) this.#watchdog.stop()
  }

  completeLookup(name: string, resolved: DnsResult): void {
    this.#send({ kind: 'resolved', name, resolved })
  }

  async snapshot(): Promise<MetricsSnapshot> {
    const { value } = await this.#request({ kind: 'snapshot' })
    if (!value) throw new Error('the worker thread of the proxy has ended')
    return value
  }

  async stop(): Promise<void> {
    await this.#request({ kind: 'stop' })
  }

  async close(): Promise<void> {
    if (this.#isClosing) return
    this.#isClosing = true
    this.#updateRef()
    this.#send({ kind: 'close' })
    this.#hasEnded = true
    await this.ended
  }

  #request(request: WorkerRequest): Promise<WorkerReply> {
    if (this.#hasEnded) return Promise.resolve({})
    const number = ++this.#number
    const { promise, resolve } = Promise.withResolvers<WorkerReply>()
    this.#pending.set(number, resolve)
    this.#updateRef()
    this.#send({ ...request, number })
    return promise
  }

  /** Without a listener, the worker keeps the process alive only while a request to it is pending. */
  #updateRef(): void {
    const { forward, transparent } = this.listening
    if (!this.#isOpen || this.#isClosing || forward || transparent || this.#pending.size > 0) this.#worker.ref()
    else this.#worker.unref()
  }

  #send(message: WorkerCommand): void {
    if (this.#hasEnded) return
    this.#worker.postMessage(message)
    // Node's messages do not wake a thread that blocks in epoll_wait. Before it blocks it fetches them without a wake-up.
    const wakeFd = Atomics.load(this.#wake, 0)
    if (wakeFd !== NO_DESCRIPTOR) writeSync(wakeFd, WAKE)
  }

  /** Call only after the worker has ended, because it may fetch a message before it is woken for it. */
  #closeWake(): void {
    const wakeFd = Atomics.exchange(this.#wake, 0, NO_DESCRIPTOR)
    if (wakeFd !== NO_DESCRIPTOR) closeSync(wakeFd)
  }

  #handle(message: WorkerEvent): void {
    if (message.kind === 'done') {
      this.#pending.get(message.number)?.(message)
      this.#pending.delete(message.number)
      this.#updateRef()
    } else if (message.kind === 'look-up') this.#host.lookUp(message.name)
    else if (message.kind === 'log') this.#host.log(message.lines)
    else if (message.kind === 'warn') this.#host.warn(message.sentence)
    else if (message.kind === 'fault') this.#host.onFault(new Error(message.message))
    else if (message.kind === 'denied') this.#host.reportDenied(message.denied)
    else if (message.kind === 'discard') closeFile(message.fd, () => {})
  }
}
