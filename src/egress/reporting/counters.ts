// Counters in the thread that serves connections: counting allocates nothing. Hosts and sources are never labels, so clients
// cannot create series.

import type { AccessRecord, ProxyMode } from './access-record.ts'
import { DeniedHosts } from './denied-hosts.ts'
import { BUCKET_BOUNDS_S, type DurationHistogram, type MetricsSnapshot } from './metrics-snapshot.ts'

/** Values that the owner of the connections provides. */
export type CurrentGauges = Pick<MetricsSnapshot, 'connections' | 'tunnels' | 'droppedLines'> & {
  /** Bytes of requests in progress. */
  readonly bytesUp: number
  readonly bytesDown: number
}

/** Labels are words of ours; should one ever come from a client, the excess is counted under this. */
const OTHER = 'other'
const LABELS_MAX = 64

export class RequestCounters {
  readonly #allowed = new Map<ProxyMode, LabelCounter>()
  readonly #denied = new Map<ProxyMode, LabelCounter>()
  readonly #errors = new LabelCounter()
  readonly #dial = new Histogram()
  readonly #dns = new Histogram()
  readonly #hosts = new DeniedHosts()
  #bytesUp = 0
  #bytesDown = 0

  /** Counts a finished request. */
  add(exchange: AccessRecord, nowMs: number): void {
    const { mode, verdict, reason, bytesUp, bytesDown, dialMs } = exchange
    this.#bytesUp += bytesUp
    this.#bytesDown += bytesDown
    if (dialMs !== undefined) this.#dial.add(dialMs)
    if (verdict === 'error') return void this.#errors.add(reason)
    counterOf(verdict === 'allow' ? this.#allowed : this.#denied, mode).add(reason)
    if (verdict === 'deny') this.#hosts.add(exchange, nowMs)
  }

  /** Counts a DNS lookup, whatever its outcome. */
  addLookup(ms: number): void {
    this.#dns.add(ms)
  }

  snapshot({ connections, tunnels, droppedLines, bytesUp, bytesDown }: CurrentGauges): MetricsSnapshot {
    const of = (verdict: 'allow' | 'deny', words: ReadonlyMap<ProxyMode, LabelCounter>) =>
      [...words].flatMap(([mode, counted]) =>
        counted.list().map(([reason, count]) => ({ mode, verdict, reason, count })),
      )
    return {
      decisions: [...of('allow', this.#allowed), ...of('deny', this.#denied)],
      errors: this.#errors.list().map(([code, count]) => ({ code, count })),
      connections,
      tunnels,
      droppedLines,
      bytesUp: this.#bytesUp + bytesUp,
      bytesDown: this.#bytesDown + bytesDown,
      dial: this.#dial.read(),
      dns: this.#dns.read(),
      denied: this.#hosts.list(),
    }
  }
}

/** Counts labels, up to a fixed number of them. */
class LabelCounter {
  readonly #counts = new Map<string, { count: number }>()

  add(word: string): void {
    const known = this.#counts.get(word)
    if (known) known.count++
    else if (this.#counts.size < LABELS_MAX || word === OTHER) this.#counts.set(word, { count: 1 })
    else this.add(OTHER)
  }

  list(): [string, number][] {
    return [...this.#counts].map(([word, { count }]) => [word, count])
  }
}

class Histogram {
  readonly #counts = new Float64Array(BUCKET_BOUNDS_S.length + 1)
  #sumS = 0

  add(ms: number): void {
    const seconds = ms / 1000
    let bucket = 0
    while (bucket < BUCKET_BOUNDS_S.length && seconds > (BUCKET_BOUNDS_S[bucket] ?? 0)) bucket++
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sumS += seconds
  }

  read(): DurationHistogram {
    return { counts: [...this.#counts], sumS: this.#sumS }
  }
}

function counterOf(all: Map<ProxyMode, LabelCounter>, mode: ProxyMode): LabelCounter {
  const known = all.get(mode)
  if (known) return known
  const words = new LabelCounter()
  all.set(mode, words)
  return words
}
