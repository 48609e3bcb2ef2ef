// Sources that are known by the socket their connections come in by: a child process sends its listening socket, and whatever
// connects to that socket belongs to the source. A socket keeps the network namespace that it was made in, so the child may
// live in a namespace without any other way out.
import { closeSync } from 'node:fs'
import { refuse } from '../lib/refusal.ts'
import type { CorePort } from './core-port.ts'
import type { AllowedEndpoint } from './match.ts'
import { readAllowlist, readSocketSource } from './registration.ts'
import { openSocketPair } from './wires/handover.ts'
import type { Kernel } from './wires/kernel.ts'

export interface SourceOptions {
  /** Named in denials and log lines. */
  readonly id: string
  /** Host names, each of which also allows the names below it. */
  readonly allowlist: readonly string[]
  /** Exact destinations besides the list: a name or an IP address, and a port. They may be private addresses. */
  readonly endpoints?: readonly AllowedEndpoint[] | undefined
}

export interface SocketSource {
  /** A socket for a child process: the child sends one message over it with its listening socket (SCM_RIGHTS). */
  readonly handover: number
  /** Closes this process's copy of `handover`; call it once the child has been spawned. Idempotent. */
  release(): void
  /** Replaces the allowlist; when it resolves, open connections that are no longer allowed have been ended. */
  set(allowlist: readonly string[]): Promise<void>
  /** Ends its listener and every open connection. Idempotent. */
  close(): Promise<void>
}

export class SocketSources {
  readonly #core: CorePort
  readonly #kernel: Kernel | undefined
  readonly #open = new Set<OpenSource>()
  #number = 0
  #isClosed = false

  /** Without a `kernel` every source is refused. */
  constructor(core: CorePort, kernel: Kernel | undefined) {
    this.#core = core
    this.#kernel = kernel
  }

  async open(options: SourceOptions): Promise<SocketSource> {
    const { id, allowlist, endpoints } = readSocketSource(options)
    if (!this.#kernel) refuse('unsupported', 'socket sources need Linux, a Node with node:ffi, and io auto or epoll')
    if (this.#isClosed) refuse('unavailable', 'the proxy is closed')
    const key = `socket:${++this.#number}`
    const [ours, handover] = this.#openPair(this.#kernel)
    const source = new OpenSource(this.#core, { key, handover }, () => this.#open.delete(source))
    this.#open.add(source)
    try {
      // From here on the core owns its end of the pair.
      await this.#core.openSource({ key, id, allowlist, endpoints }, ours)
    } catch (error) {
      await source.close()
      throw error
    }
    return source
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#open].map((source) => source.close()))
  }

  #openPair(kernel: Kernel): readonly [number, number] {
    try {
      return openSocketPair(kernel)
    } catch (error) {
      return refuse(
        'unavailable',
        `a pair of sockets could not be opened: ${error instanceof Error ? error.message : error}`,
      )
    }
  }
}

class OpenSource implements SocketSource {
  readonly handover: number
  readonly #core: CorePort
  readonly #key: string
  readonly #closed: () => void
  #isReleased = false
  #closing: Promise<void> | undefined

  constructor(
    core: CorePort,
    { key, handover }: { readonly key: string; readonly handover: number },
    closed: () => void,
  ) {
    this.#core = core
    this.#key = key
    this.#closed = closed
    this.handover = handover
  }

  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    closeSync(this.handover)
  }

  async set(allowlist: readonly string[]): Promise<void> {
    const hosts = readAllowlist(allowlist)
    // A change may cross the end of a run: nothing is open any more, so it is in force.
    if (this.#closing) return this.#closing
    await this.#core.setSource(this.#key, hosts)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.release()
    await this.#core.closeSource(this.#key)
    this.#closed()
  }
}
