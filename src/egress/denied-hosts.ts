// The hosts that were asked for and denied, so that an operator sees what to allow. Only so many are kept, and a source that
// asks for ever new ones pushes out its own, not those of the others.
import type { Exchange } from './exchange.ts'
import type { DeniedHost } from './snapshot.ts'

export const DENIED_MAX = 1000
const HOST_MAX = 256

interface Kept {
  readonly ip: string
  id: string | undefined
  readonly host: string
  readonly port: number | undefined
  readonly sni: string | undefined
  readonly reason: string
  count: number
  readonly firstMs: number
  lastMs: number
  /** Which of all denials was its last: the clock may be set, and two may fall into one millisecond. */
  turn: number
}

export class DeniedHosts {
  /** By source; within it the one that was asked for longest ago comes first. */
  readonly #sources = new Map<string, Map<string, Kept>>()
  #size = 0
  #turn = 0

  add({ source: ip, id, host, port, sni, reason }: Exchange, nowMs: number): void {
    // Whoever did not even name a host gives nothing that could be allowed.
    if (host === undefined) return
    const shown = host.slice(0, HOST_MAX)
    const key = `${shown} ${port} ${reason} ${sni ?? ''}`
    const kept = this.#sources.get(ip)
    const known = kept?.get(key)
    const entry = known ?? { ip, id, host: shown, port, sni, reason, count: 0, firstMs: nowMs, lastMs: nowMs, turn: 0 }
    entry.id = id
    entry.count++
    entry.lastMs = nowMs
    entry.turn = ++this.#turn
    // Behind all others, for it is the newest now.
    if (kept && known) return void (kept.delete(key) && kept.set(key, entry))
    if (this.#size >= DENIED_MAX) this.#forget(ip)
    const place = this.#sources.get(ip) ?? new Map<string, Kept>()
    this.#sources.set(ip, place.set(key, entry))
    this.#size++
  }

  /** The newest first. */
  list(): DeniedHost[] {
    const all = [...this.#sources.values()].flatMap((kept) => [...kept.values()])
    return all.sort((a, b) => b.turn - a.turn).map(({ turn, ...denied }) => denied)
  }

  /** Makes room for one of `ip`. */
  #forget(ip: string): void {
    const fair = DENIED_MAX / (this.#sources.size + (this.#sources.has(ip) ? 0 : 1))
    const own = this.#sources.get(ip)?.size ?? 0
    const from = own >= fair ? ip : this.#largest()
    const kept = this.#sources.get(from)
    const [oldest] = kept?.keys() ?? []
    if (!kept || oldest === undefined) return
    kept.delete(oldest)
    if (kept.size === 0) this.#sources.delete(from)
    this.#size--
  }

  #largest(): string {
    let [largest, most] = ['', 0]
    for (const [ip, { size }] of this.#sources) if (size > most) [largest, most] = [ip, size]
    return largest
  }
}
