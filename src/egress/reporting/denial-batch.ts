// Batches denied requests for the program that embeds the proxy. Repeats are one entry with a count, and a source that requests
// ever new hosts gets a limited number of entries per second.

import type { TcpTransport, Timer } from '../transport/transport.ts'
import type { AccessRecord } from './access-record.ts'

/** Requests of one source to one host, port and server name, denied for one reason since the previous batch. */
export interface DeniedRequest {
  /** Address of the source. */
  readonly id: string
  readonly host: string
  readonly port: number | undefined
  /** The name in a refused TLS hello; the host itself was allowed. */
  readonly sni?: string | undefined
  readonly reason: string
  /** Time of the last denial, in milliseconds since 1970. */
  readonly at: number
  readonly count: number
}

const GATHER_MS = 100
const SECOND_MS = 1000
const HOST_MAX = 256
/** Entries per source and second; the rest is dropped. The log has its own limit. */
export const DENIALS_MAX = 100

export class DenialBatch {
  readonly #wires: TcpTransport
  readonly #send: (denied: DeniedRequest[]) => void
  readonly #entries = new Map<string, DeniedRequest>()
  /** Entries in the current second, by source. */
  readonly #counts = new Map<string, number>()
  #second = 0
  #timer: Timer | undefined

  constructor(wires: TcpTransport, send: (denied: DeniedRequest[]) => void) {
    this.#wires = wires
    this.#send = send
  }

  add({ source, id, host, port, sni, reason }: AccessRecord, nowMs: number): void {
    if (id === undefined || host === undefined) return
    const name = host.slice(0, HOST_MAX)
    const key = `${source} ${name} ${port} ${reason} ${sni ?? ''}`
    const known = this.#entries.get(key)
    if (!known && !this.#hasRoom(source, nowMs)) return
    this.#entries.set(key, {
      id,
      host: name,
      port,
      ...(sni === undefined ? {} : { sni }),
      reason,
      at: nowMs,
      count: (known?.count ?? 0) + 1,
    })
    this.#timer ??= this.#wires.after(GATHER_MS, () => this.flush())
  }

  flush(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    if (this.#entries.size === 0) return
    const denied = [...this.#entries.values()]
    this.#entries.clear()
    this.#send(denied)
  }

  #hasRoom(source: string, nowMs: number): boolean {
    const second = Math.floor(nowMs / SECOND_MS)
    if (second !== this.#second) this.#counts.clear()
    this.#second = second
    const count = (this.#counts.get(source) ?? 0) + 1
    this.#counts.set(source, count)
    return count <= DENIALS_MAX
  }
}
