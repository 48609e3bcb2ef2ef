// The data side as the rest of the program sees it, whichever thread it is in.
import { close as closeFile, closeSync, writeSync } from 'node:fs'
import module from 'node:module'
import { dirname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { Refusal, refuse } from '../lib/refusal.ts'
import { Core, type CoreOptions, type Listening, type NewSource, type Outside } from './core.ts'
import type { DeniedRequest } from './denial-batch.ts'
import type { Resolved } from './dns/resolver.ts'
import type { Snapshot } from './snapshot.ts'
import type { Change } from './sources.ts'
import { AcceptWatchdog, createGuardWords } from './wires/accept-guard.ts'
import type { Kernel } from './wires/kernel.ts'
import { openNetWires } from './wires/net.ts'

export interface CorePort {
  readonly listening: Listening
  /** When it returns, the next connection is judged by it. */
  apply(changes: readonly Change[]): Promise<void>
  /** Takes over `handover`, also where it refuses. */
  openSource(source: NewSource, handover: number): Promise<void>
  /** When it returns, open connections that are no longer allowed have been ended. */
  setSource(key: string, allowlist: readonly string[]): Promise<void>
  closeSource(key: string): Promise<void>
  resolved(name: string, resolved: Resolved): void
  snapshot(): Promise<Snapshot>
  /** Lets what is under way end, for as long as the limit says. */
  stop(): Promise<void>
  close(): Promise<void>
}

/** What the rest of the program does for the core. */
export interface CoreHost extends Outside {
  /** The core is gone though nobody stopped it: nothing is served any more. */
  died(error: unknown): void
}

/** Into the thread of the core. */
export type ToCore =
  | { readonly kind: 'apply'; readonly number: number; readonly changes: readonly Change[] }
  | { readonly kind: 'open-source'; readonly number: number; readonly source: NewSource; readonly handover: number }
  | {
      readonly kind: 'set-source'
      readonly number: number
      readonly key: string
      readonly allowlist: readonly string[]
    }
  | { readonly kind: 'close-source'; readonly number: number; readonly key: string }
  | { readonly kind: 'resolved'; readonly name: string; readonly resolved: Resolved }
  | { readonly kind: 'snapshot'; readonly number: number }
  | { readonly kind: 'stop'; readonly number: number }
  | { readonly kind: 'close' }

/** What the thread is started with. */
export interface ThreadInput {
  readonly options: CoreOptions
  /** Where compiled code is kept, if it is. */
  readonly compiled: string | undefined
  /** Where it puts the descriptor that wakes it, once it has one. */
  readonly wake: Int32Array
  /** Where it says that it accepts, so that it can be freed when that blocks. */
  readonly accepting: Int32Array
}

const NO_DESCRIPTOR = -1

/** Out of it. */
export type FromCore =
  | { readonly kind: 'open'; readonly listening: Listening }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string; readonly hint?: string | undefined }
  /** With a `fault`, it was not done. */
  | { readonly kind: 'done'; readonly number: number; readonly value?: Snapshot; readonly fault?: string }
  | { readonly kind: 'ask'; readonly name: string }
  | { readonly kind: 'log'; readonly lines: string }
  | { readonly kind: 'warn'; readonly sentence: string }
  | { readonly kind: 'denied'; readonly denied: DeniedRequest[] }
  /** Close a descriptor that is not a socket. */
  | { readonly kind: 'discard'; readonly fd: number }

/** In this thread, on Node's sockets. */
export async function openNetCore(options: CoreOptions, host: CoreHost): Promise<CorePort> {
  const core = new Core(openNetWires(options.maxFiles), options, host)
  const listening = await core.open()
  return {
    listening,
    apply: async (changes) => core.apply(changes),
    openSource: async (_, handover) => {
      closeSync(handover)
      refuse('unsupported', 'a listener cannot be handed over to io net')
    },
    setSource: async () => {},
    closeSource: async () => {},
    resolved: (name, resolved) => core.resolved(name, resolved),
    snapshot: async () => core.snapshot(),
    stop: () => new Promise((resolve) => core.stop(resolve)),
    close: async () => {},
  }
}

/** In a thread of its own, on the kernel's calls. */
export async function openThreadCore(options: CoreOptions, host: CoreHost, kernel: Kernel): Promise<CorePort> {
  const accepting = createGuardWords()
  const wake = new Int32Array(new SharedArrayBuffer(4)).fill(NO_DESCRIPTOR)
  const worker = new Worker(
    new URL(`./core-thread.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url),
    // The flags of the program around are not for this thread.
    { workerData: { options, wake, accepting, compiled: compiledFolder() } satisfies ThreadInput, execArgv: [] },
  )
  const watchdog = new AcceptWatchdog(accepting, kernel.shutdown)
  const thread = new CoreThread(worker, wake, host, watchdog)
  try {
    await thread.opened
  } catch (error) {
    await thread.ended
    throw error
  }
  return thread
}

/** Node adds a folder for its version, and would add it again. */
function compiledFolder(): string | undefined {
  const folder = module.getCompileCacheDir()
  return folder === undefined ? undefined : dirname(folder)
}

function errorOf({ code, message, hint }: Extract<FromCore, { kind: 'failed' }>): Error {
  if (code === 'unavailable') return new Refusal(code, message, hint)
  return Object.assign(new Error(message), { code })
}

const ONE = Buffer.alloc(8)
ONE.writeBigUInt64LE(1n)

/** What the thread says to a request; empty where it has ended without a word. */
interface Answer {
  readonly value?: Snapshot
  readonly fault?: string
}

class CoreThread implements CorePort {
  listening: Listening = {}
  readonly opened: Promise<void>
  readonly ended: Promise<void>
  readonly #worker: Worker
  readonly #wake: Int32Array
  readonly #host: CoreHost
  readonly #watchdog: AcceptWatchdog
  readonly #waiting = new Map<number, (answer: Answer) => void>()
  readonly #sources = new Set<string>()
  readonly #wakeUp = (): void => {
    this.#watchdog.close()
    this.#send({ kind: 'close' })
  }
  #number = 0
  #isOpen = false
  #isClosing = false
  #isGone = false

  constructor(worker: Worker, wake: Int32Array, host: CoreHost, watchdog: AcceptWatchdog) {
    this.#worker = worker
    this.#wake = wake
    this.#host = host
    this.#watchdog = watchdog
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.opened = promise
    const { promise: ended, resolve: end } = Promise.withResolvers<void>()
    this.ended = ended
    worker.on('message', (message: FromCore) => {
      if (message.kind === 'open') {
        this.listening = message.listening
        this.#isOpen = true
        this.#settleRef()
        resolve()
      } else if (message.kind === 'failed') {
        this.#isClosing = true
        reject(errorOf(message))
      } else this.#hear(message)
    })
    const died = (error: unknown): void => {
      reject(error)
      if (!this.#isClosing) host.died(error)
    }
    worker.on('error', died)
    worker.on('exit', () => {
      this.#isGone = true
      process.off('exit', this.#wakeUp)
      this.#closeWake()
      watchdog.stop()
      for (const done of this.#waiting.values()) done({})
      died(new Error('the thread of the proxy has ended'))
      end()
    })
    // A process that ends waits for its threads, and this one waits in the kernel.
    process.on('exit', this.#wakeUp)
  }

  async apply(changes: readonly Change[]): Promise<void> {
    await this.#request((number) => ({ kind: 'apply', number, changes }))
  }

  async openSource(source: NewSource, handover: number): Promise<void> {
    if (this.#isGone) {
      closeSync(handover)
      refuse('unavailable', 'the proxy has ended')
    }
    this.#sources.add(source.key)
    this.#watchdog.start()
    const { fault } = await this.#request((number) => ({ kind: 'open-source', number, source, handover }))
    if (fault !== undefined) refuse('unavailable', `the source could not be opened: ${fault}`)
    if (this.#isGone) refuse('unavailable', 'the proxy has ended')
  }

  async setSource(key: string, allowlist: readonly string[]): Promise<void> {
    await this.#request((number) => ({ kind: 'set-source', number, key, allowlist }))
  }

  async closeSource(key: string): Promise<void> {
    await this.#request((number) => ({ kind: 'close-source', number, key }))
    this.#sources.delete(key)
    if (this.#sources.size === 0) this.#watchdog.stop()
  }

  resolved(name: string, resolved: Resolved): void {
    this.#send({ kind: 'resolved', name, resolved })
  }

  async snapshot(): Promise<Snapshot> {
    const { value } = await this.#request((number) => ({ kind: 'snapshot', number }))
    if (!value) throw new Error('the thread of the proxy has ended')
    return value
  }

  async stop(): Promise<void> {
    await this.#request((number) => ({ kind: 'stop', number }))
  }

  async close(): Promise<void> {
    if (this.#isClosing) return
    this.#isClosing = true
    this.#settleRef()
    this.#send({ kind: 'close' })
    this.#isGone = true
    await this.ended
  }

  #request(message: (number: number) => ToCore): Promise<Answer> {
    if (this.#isGone) return Promise.resolve({})
    const number = ++this.#number
    const { promise, resolve } = Promise.withResolvers<Answer>()
    this.#waiting.set(number, resolve)
    this.#settleRef()
    this.#send(message(number))
    return promise
  }

  /** Without a listener, the worker keeps the process alive only while a request to it is pending. */
  #settleRef(): void {
    const { forward, transparent } = this.listening
    if (!this.#isOpen || this.#isClosing || forward || transparent || this.#waiting.size > 0) this.#worker.ref()
    else this.#worker.unref()
  }

  #send(message: ToCore): void {
    if (this.#isGone) return
    this.#worker.postMessage(message)
    // It waits in the kernel, where no message of Node's reaches it. Without a descriptor it does not wait yet, and looks.
    const wakeFd = Atomics.load(this.#wake, 0)
    if (wakeFd !== NO_DESCRIPTOR) writeSync(wakeFd, ONE)
  }

  /** Only when the thread has ended: it may see a message before it is woken for it, and an end of its own would be too early. */
  #closeWake(): void {
    const wakeFd = Atomics.exchange(this.#wake, 0, NO_DESCRIPTOR)
    if (wakeFd !== NO_DESCRIPTOR) closeSync(wakeFd)
  }

  #hear(message: FromCore): void {
    if (message.kind === 'done') {
      this.#waiting.get(message.number)?.(message)
      this.#waiting.delete(message.number)
      this.#settleRef()
    } else if (message.kind === 'ask') this.#host.ask(message.name)
    else if (message.kind === 'log') this.#host.log(message.lines)
    else if (message.kind === 'warn') this.#host.warn(message.sentence)
    else if (message.kind === 'denied') this.#host.denied(message.denied)
    else if (message.kind === 'discard') closeFile(message.fd, () => {})
  }
}
