// Sources identified by a listening socket that a child process hands over: every connection to it belongs to the source. A
// socket stays in the network namespace that it was created in, so the child may run in a namespace without any other network.
import { closeSync } from 'node:fs'
import { refuse } from '../../lib/refusal.ts'
import type { AllowedEndpoint } from '../policy/policy.ts'
import { readAllowlist, readSocketSource } from '../policy/registration.ts'
import { openSocketPair } from '../transport/handover.ts'
import type { Kernel } from '../transport/kernel.ts'
import type { DataPlaneClient } from './data-plane-client.ts'

export interface SourceOptions {
  /** Shown in denials and log lines. */
  readonly id: string
  /** Host names; each also allows its subdomains. */
  readonly allowlist: readonly string[]
  /** Exact destinations in addition to the allowlist: a name or an IP address, also a private one, and a port. */
  readonly endpoints?: readonly AllowedEndpoint[] | undefined
}

export interface SocketSource {
  /** A socket for a child process: the child sends one message over it with its listening socket (SCM_RIGHTS). */
  readonly handover: number
  /** Closes this process's copy of `handover`; call it once the child has been spawned. Idempotent. */
  release(): void
  /** Replaces the allowlist; when it resolves, open connections that are no longer allowed have been closed. */
  set(allowlist: readonly string[]): Promise<void>
  /** Closes its listener and every open connection. Idempotent. */
  close(): Promise<void>
}

export class SocketSources {
  readonly #dataPlane: DataPlaneClient
  readonly #kernel: Kernel | undefined
  readonly #open = new Set<OpenSource>()
  #number = 0
  #isClosed = false

  /** Without a `kernel` every source is refused. */
  constructor(dataPlane: DataPlaneClient, kernel: Kernel | undefined) {
    this.#dataPlane = dataPlane
    this.#kernel = kernel
  }

  async open(options: SourceOptions): Promise<SocketSource> {
    const { id, allowlist, endpoints } = readSocketSource(options)
    if (!this.#kernel) refuse('unsupported', 'socket sources need Linux, a Node with node:ffi, and io auto or epoll')
    if (this.#isClosed) refuse('unavailable', 'the proxy is closed')
    const key = `socket:${++this.#number}`
    const [ours, handover] = this.#openPair(this.#kernel)
    const source = new OpenSource(this.#dataPlane, { key, handover }, () => this.#open.delete(source))
    this.#open.add(source)
    try {
      // From here on the data plane owns its end of the pair.
      await this.#dataPlane.openSource({ key, id, allowlist, endpoints }, ours)
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
      return refuse('unavailable', `cannot open a socket pair: ${error instanceof Error ? error.message : error}`)
    }
  }
}

class OpenSource implements SocketSource {
  readonly handover: number
  readonly #dataPlane: DataPlaneClient
  readonly #key: string
  readonly #onClose: () => void
  #isReleased = false
  #closing: Promise<void> | undefined

  constructor(
    dataPlane: DataPlaneClient,
    { key, handover }: { readonly key: string; readonly handover: number },
    onClose: () => void,
  ) {
    this.#dataPlane = dataPlane
    this.#key = key
    this.#onClose = onClose
    this.handover = handover
  }

  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    closeSync(this.handover)
  }

  async set(allowlist: readonly string[]): Promise<void> {
    const hosts = readAllowlist(allowlist)
    // A change may race with the end of a run: nothing is open any more, so it has taken effect.
    if (this.#closing) return this.#closing
    await this.#dataPlane.setSource(this.#key, hosts)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.release()
    await this.#dataPlane.closeSource(this.#key)
    this.#onClose()
  }
}
