// Denied requests on their way to the program around the proxy, gathered and handed over many at a time. Repeats are one
// entry with a count, and a source that asks for ever new hosts has only so many entries a second.
import type { Exchange } from './exchange.ts'
import type { Timer, Wires } from './wire.ts'

/** Requests of one source to one host, port and server name that were denied for one reason, since the batch before. */
export interface DeniedRequest {
  /** Of the source. */
  readonly id: string
  readonly host: string
  readonly port: number | undefined
  /** The name in a TLS hello that was refused; the host itself was allowed. */
  readonly sni?: string | undefined
  readonly reason: string
  /** When the last of them was denied, in milliseconds since 1970. */
  readonly at: number
  /** How many there were. */
  readonly count: number
}

const GATHER_MS = 100
const SECOND_MS = 1000
const HOST_MAX = 256
/** Entries of one source in one second. Further ones are dropped; the log has its own limit. */
export const DENIALS_MAX = 100

export class DenialBatch {
  readonly #wires: Wires
  readonly #send: (denied: DeniedRequest[]) => void
  readonly #entries = new Map<string, DeniedRequest>()
  /** Entries of the current second, by source. */
  readonly #counts = new Map<string, number>()
  #second = 0
  #timer: Timer | undefined

  constructor(wires: Wires, send: (denied: DeniedRequest[]) => void) {
    this.#wires = wires
    this.#send = send
  }

  add({ source, id, host, port, sni, reason }: Exchange, nowMs: number): void {
    if (id === undefined || host === undefined) return
    const shown = host.slice(0, HOST_MAX)
    const key = `${source} ${shown} ${port} ${reason} ${sni ?? ''}`
    const known = this.#entries.get(key)
    if (!known && !this.#hasRoom(source, nowMs)) return
    this.#entries.set(key, {
      id,
      host: shown,
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
