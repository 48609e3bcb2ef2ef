// The counters, kept where connections are served: a number is added and nothing is made. No host and no source is ever a
// label, so that nobody outside can make series.
import { DeniedHosts } from './denied-hosts.ts'
import type { Exchange, Mode } from './exchange.ts'
import { BOUNDS_S, type Durations, type Snapshot } from './snapshot.ts'

/** What is known best by whoever holds the connections. */
export type Present = Pick<Snapshot, 'connections' | 'tunnels' | 'droppedLines'> & {
  /** Of exchanges that are not over. */
  readonly bytesUp: number
  readonly bytesDown: number
}

/** Reasons and codes are words of ours; should one ever be made of a client's, it is this. */
const OTHER = 'other'
const WORDS_MAX = 64

export class Counts {
  readonly #allowed = new Map<Mode, Words>()
  readonly #denied = new Map<Mode, Words>()
  readonly #errors = new Words()
  readonly #dial = new Histogram()
  readonly #dns = new Histogram()
  readonly #hosts = new DeniedHosts()
  #bytesUp = 0
  #bytesDown = 0

  /** An exchange that is over. */
  add(exchange: Exchange, nowMs: number): void {
    const { mode, verdict, reason, bytesUp, bytesDown, dialMs } = exchange
    this.#bytesUp += bytesUp
    this.#bytesDown += bytesDown
    if (dialMs !== undefined) this.#dial.add(dialMs)
    if (verdict === 'error') return void this.#errors.add(reason)
    wordsOf(verdict === 'allow' ? this.#allowed : this.#denied, mode).add(reason)
    if (verdict === 'deny') this.#hosts.add(exchange, nowMs)
  }

  /** A name was looked up, whatever came of it. */
  addLookup(ms: number): void {
    this.#dns.add(ms)
  }

  snapshot({ connections, tunnels, droppedLines, bytesUp, bytesDown }: Present): Snapshot {
    const of = (verdict: 'allow' | 'deny', words: ReadonlyMap<Mode, Words>) =>
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

/** How often each word was said; never more than so many words. */
class Words {
  readonly #counts = new Map<string, { count: number }>()

  add(word: string): void {
    const known = this.#counts.get(word)
    if (known) known.count++
    else if (this.#counts.size < WORDS_MAX || word === OTHER) this.#counts.set(word, { count: 1 })
    else this.add(OTHER)
  }

  list(): [string, number][] {
    return [...this.#counts].map(([word, { count }]) => [word, count])
  }
}

class Histogram {
  readonly #counts = new Float64Array(BOUNDS_S.length + 1)
  #sumS = 0

  add(ms: number): void {
    const seconds = ms / 1000
    let place = 0
    while (place < BOUNDS_S.length && seconds > (BOUNDS_S[place] ?? 0)) place++
    this.#counts[place] = (this.#counts[place] ?? 0) + 1
    this.#sumS += seconds
  }

  read(): Durations {
    return { counts: [...this.#counts], sumS: this.#sumS }
  }
}

function wordsOf(all: Map<Mode, Words>, mode: Mode): Words {
  const known = all.get(mode)
  if (known) return known
  const words = new Words()
  all.set(mode, words)
  return words
}
