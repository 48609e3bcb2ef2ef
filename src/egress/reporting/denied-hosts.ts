// Denied hosts, to show an operator what could be allowed. The number is limited, and a source that requests ever new hosts
// evicts its own entries, not those of others.
import type { AccessRecord } from './access-record.ts'
import type { DeniedHost } from './metrics-snapshot.ts'

export const DENIED_MAX = 1000
const HOST_MAX = 256

interface DeniedEntry {
  readonly ip: string
  id: string | undefined
  readonly host: string
  readonly port: number | undefined
  readonly sni: string | undefined
  readonly reason: string
  count: number
  readonly firstMs: number
  lastMs: number
  /** Sequence number of its last denial: clocks can be set back, and two denials can share a millisecond. */
  turn: number
}

export class DeniedHosts {
  /** By source; within a source the least recent first. */
  readonly #sources = new Map<string, Map<string, DeniedEntry>>()
  #size = 0
  #turn = 0

  add({ source: ip, id, host, port, sni, reason }: AccessRecord, nowMs: number): void {
    // A request without a host gives nothing to allow.
    if (host === undefined) return
    const name = host.slice(0, HOST_MAX)
    const key = `${name} ${port} ${reason} ${sni ?? ''}`
    const hosts = this.#sources.get(ip)
    const known = hosts?.get(key)
    const entry = known ?? { ip, id, host: name, port, sni, reason, count: 0, firstMs: nowMs, lastMs: nowMs, turn: 0 }
    entry.id = id
    entry.count++
    entry.lastMs = nowMs
    entry.turn = ++this.#turn
    // Reinsert at the end as the newest.
    if (hosts && known) return void (hosts.delete(key) && hosts.set(key, entry))
    if (this.#size >= DENIED_MAX) this.#evict(ip)
    const ofSource = this.#sources.get(ip) ?? new Map<string, DeniedEntry>()
    this.#sources.set(ip, ofSource.set(key, entry))
    this.#size++
  }

  /** Newest first. */
  list(): DeniedHost[] {
    const all = [...this.#sources.values()].flatMap((hosts) => [...hosts.values()])
    return all.sort((a, b) => b.turn - a.turn).map(({ turn, ...denied }) => denied)
  }

  /** Makes room for an entry of `ip`. */
  #evict(ip: string): void {
    const fair = DENIED_MAX / (this.#sources.size + (this.#sources.has(ip) ? 0 : 1))
    const own = this.#sources.get(ip)?.size ?? 0
    const from = own >= fair ? ip : this.#largest()
    const hosts = this.#sources.get(from)
    const [oldest] = hosts?.keys() ?? []
    if (!hosts || oldest === undefined) return
    hosts.delete(oldest)
    if (hosts.size === 0) this.#sources.delete(from)
    this.#size--
  }

  #largest(): string {
    let [largest, most] = ['', 0]
    for (const [ip, { size }] of this.#sources) if (size > most) [largest, most] = [ip, size]
    return largest
  }
}
