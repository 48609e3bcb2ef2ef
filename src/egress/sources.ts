// Who may reach what: the registry. A change is first in its file, then in effect, then answered; while one is being written
// the next ones wait, and go together as the next write.
import { Refusal, refuse } from '../lib/refusal.ts'
import { canonicalAddress, readIPv6 } from './address-text.ts'
import type { Entry } from './match.ts'
import { readRegistration, warningsOf } from './registration.ts'
import { StateFile, type Warn } from './state-file.ts'

export type Change = { readonly kind: 'set'; readonly entry: Entry } | { readonly kind: 'remove'; readonly ip: string }

/** Puts a change into effect; when it returns, the next connection is judged by it. */
export type Apply = (change: Change) => Promise<void>

/** Every change writes all of them. */
export const SOURCES_MAX = 100_000

interface Row {
  /** What it is sorted by. */
  readonly key: string
  readonly entry: Entry
  /** The entry as JSON, so that a change does not make all the others anew. */
  readonly line: string
}

interface Waiting {
  readonly change: Change
  /** Told whether anything is different now. */
  done(isChanged: boolean): void
  fail(error: unknown): void
}

export class Sources {
  readonly #file: StateFile | undefined
  readonly #warn: Warn
  readonly #appliers: Apply[] = []
  #rows: readonly Row[]
  #waiting: Waiting[] = []
  #isWriting = false

  private constructor(file: StateFile | undefined, entries: readonly Entry[], warn: Warn) {
    this.#file = file
    this.#warn = warn
    this.#rows = entries.map(rowOf).sort((a, b) => (a.key < b.key ? -1 : 1))
  }

  /** Without a path, or with an empty one, the registry lives in memory alone. */
  static async open(path: string | undefined, warn: Warn): Promise<Sources> {
    if (!path) return new Sources(undefined, [], warn)
    const file = await StateFile.open(path)
    const entries = await file.read(warn)
    await file.sweep(warn)
    if (entries.length > SOURCES_MAX) refuse('invalid', `the state file has more than ${SOURCES_MAX} entries`)
    return new Sources(file, entries, warn)
  }

  /** Sorted by address. */
  list(): readonly Entry[] {
    return this.#rows.map(({ entry }) => entry)
  }

  get size(): number {
    return this.#rows.length
  }

  find(ip: string): Entry | undefined {
    const key = keyOf(ip)
    const row = this.#rows[placeOf(this.#rows, key)]
    return row?.key === key ? row.entry : undefined
  }

  /** Checks the entry and puts it in the place of the one that this source had. Answers what is stored. */
  async set(raw: Entry): Promise<Entry> {
    const entry = readRegistration(raw)
    for (const warning of warningsOf(entry.allowlist)) this.#warn(`in the allowlist of ${entry.ip}: ${warning}`)
    await this.#change({ kind: 'set', entry })
    return entry
  }

  /** False when it was not there. */
  remove(ip: string): Promise<boolean> {
    return this.#change({ kind: 'remove', ip: canonicalAddress(ip) ?? ip })
  }

  /** From now on no change is answered before `apply` has returned. */
  listen(apply: Apply): void {
    this.#appliers.push(apply)
  }

  #change(change: Change): Promise<boolean> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    this.#waiting.push({ change, done: resolve, fail: reject })
    if (!this.#isWriting) void this.#work()
    return promise
  }

  async #work(): Promise<void> {
    this.#isWriting = true
    while (this.#waiting.length > 0) {
      const group = this.#waiting
      this.#waiting = []
      try {
        await this.#commit(group)
      } catch (error) {
        // Whoever has been told already does not hear this.
        for (const { fail } of group) fail(error)
      }
    }
    this.#isWriting = false
  }

  async #commit(group: readonly Waiting[]): Promise<void> {
    const rows = [...this.#rows]
    const changes = group.map((waiting) => ({ ...waiting, outcome: alter(rows, waiting.change) }))
    for (const { outcome, done, fail } of changes) {
      if (outcome instanceof Refusal) fail(outcome)
      if (outcome === 'same') done(false)
    }
    const made = changes.filter(({ outcome }) => outcome === 'changed')
    if (made.length === 0) return
    const fault = await this.#store(rows)
    for (const waiting of made) await this.#apply(waiting, fault)
  }

  /** Memory and file are the same again when it returns. Throws when nothing has changed. */
  async #store(rows: readonly Row[]): Promise<Refusal | undefined> {
    const lines = rows.map(({ line }) => line)
    try {
      await this.#file?.write(lines)
    } catch (error) {
      this.#warn(error instanceof Error ? error.message : String(error))
      // The last step failed, of which only a power cut would tell: the file is the new one.
      const isThere = await this.#file?.holds(lines).catch(() => false)
      if (!isThere) refuse('unavailable', 'the registry could not be stored, so nothing has changed', SEE_LOG)
      this.#rows = rows
      return new Refusal('unavailable', 'the change is in effect, but may not outlive a power cut', SEE_LOG)
    }
    this.#rows = rows
    return undefined
  }

  async #apply({ change, done, fail }: Waiting, fault: Refusal | undefined): Promise<void> {
    try {
      for (const apply of this.#appliers) await apply(change)
      if (fault) fail(fault)
      else done(true)
    } catch (error) {
      fail(error)
    }
  }
}

const SEE_LOG = 'the log says why'

function rowOf(entry: Entry): Row {
  const { ip, id, allowlist } = entry
  return { key: keyOf(ip), entry, line: JSON.stringify({ ip, id, allowlist }) }
}

/** In the order of the numbers, IPv4 first. */
function keyOf(ip: string): string {
  const groups = readIPv6(ip)
  if (groups) return `6 ${groups.map((group) => group.toString(16).padStart(4, '0')).join(':')}`
  const octets = ip.split('.').map((octet) => octet.padStart(3, '0'))
  return `4 ${octets.join('.')}`
}

/** Changes `rows`, or says why not. */
function alter(rows: Row[], change: Change): 'changed' | 'same' | Refusal {
  const key = keyOf(change.kind === 'set' ? change.entry.ip : change.ip)
  const place = placeOf(rows, key)
  const isThere = rows[place]?.key === key
  if (change.kind === 'remove') return rows.splice(place, isThere ? 1 : 0).length > 0 ? 'changed' : 'same'
  if (!isThere && rows.length >= SOURCES_MAX) {
    return new Refusal('conflict', `${SOURCES_MAX} sources are registered, and no more can be`, 'unregister some first')
  }
  rows.splice(place, isThere ? 1 : 0, rowOf(change.entry))
  return 'changed'
}

/** Where `key` is, or would have to be. */
function placeOf(rows: readonly Row[], key: string): number {
  let [low, high] = [0, rows.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((rows[middle]?.key ?? '') < key) low = middle + 1
    else high = middle
  }
  return low
}
