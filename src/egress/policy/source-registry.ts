// The registry of sources. A change is written to the file, then applied, then answered; changes that arrive during a write are
// batched into the next one.
import { Refusal, refuse } from '../../lib/refusal.ts'
import { canonicalAddress, readIPv6 } from '../address/ip-address.ts'
import type { RegisteredSource } from './policy.ts'
import { allowlistWarnings, readRegistration } from './registration.ts'
import { StateFile, type Warn } from './state-file.ts'

export type RegistryChange =
  | { readonly kind: 'set'; readonly entry: RegisteredSource }
  | { readonly kind: 'remove'; readonly ip: string }

/** Applies a change; when it resolves, the next connection is decided by it. */
export type ApplyRegistryChange = (change: RegistryChange) => Promise<void>

/** Every change writes all of them. */
const SOURCES_MAX = 100_000

interface Row {
  /** Sort key. */
  readonly key: string
  readonly entry: RegisteredSource
  /** The entry as JSON, so a change does not serialize all others again. */
  readonly line: string
}

interface PendingChange {
  readonly change: RegistryChange
  /** Called with whether anything has changed. */
  done(isChanged: boolean): void
  fail(error: unknown): void
}

export class SourceRegistry {
  readonly #file: StateFile | undefined
  readonly #warn: Warn
  readonly #appliers: ApplyRegistryChange[] = []
  #rows: readonly Row[]
  #waiting: PendingChange[] = []
  #isWriting = false

  private constructor(file: StateFile | undefined, entries: readonly RegisteredSource[], warn: Warn) {
    this.#file = file
    this.#warn = warn
    this.#rows = entries.map(rowOf).sort((a, b) => (a.key < b.key ? -1 : 1))
  }

  /** Without a path, or with an empty one, the registry is kept in memory only. */
  static async open(path: string | undefined, warn: Warn): Promise<SourceRegistry> {
    if (!path) return new SourceRegistry(undefined, [], warn)
    const file = await StateFile.open(path)
    const entries = await file.read(warn)
    await file.removeTemporaryFiles(warn)
    if (entries.length > SOURCES_MAX) refuse('invalid', `the state file has more than ${SOURCES_MAX} entries`)
    return new SourceRegistry(file, entries, warn)
  }

  /** Sorted by address. */
  list(): readonly RegisteredSource[] {
    return this.#rows.map(({ entry }) => entry)
  }

  get size(): number {
    return this.#rows.length
  }

  find(ip: string): RegisteredSource | undefined {
    const key = keyOf(ip)
    const row = this.#rows[indexOf(this.#rows, key)]
    return row?.key === key ? row.entry : undefined
  }

  /** Validates the entry, replaces that of the same source, and returns what is stored. */
  async set(raw: RegisteredSource): Promise<RegisteredSource> {
    const entry = readRegistration(raw)
    for (const warning of allowlistWarnings(entry.allowlist)) this.#warn(`in the allowlist of ${entry.ip}: ${warning}`)
    await this.#change({ kind: 'set', entry })
    return entry
  }

  /** Resolves to false if it was not registered. */
  remove(ip: string): Promise<boolean> {
    return this.#change({ kind: 'remove', ip: canonicalAddress(ip) ?? ip })
  }

  /** From now on no change is answered before `apply` resolves. */
  subscribe(apply: ApplyRegistryChange): void {
    this.#appliers.push(apply)
  }

  #change(change: RegistryChange): Promise<boolean> {
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
        // No effect on changes that were already answered.
        for (const { fail } of group) fail(error)
      }
    }
    this.#isWriting = false
  }

  async #commit(group: readonly PendingChange[]): Promise<void> {
    const rows = [...this.#rows]
    const changes = group.map((waiting) => ({ ...waiting, outcome: applyTo(rows, waiting.change) }))
    for (const { outcome, done, fail } of changes) {
      if (outcome instanceof Refusal) fail(outcome)
      if (outcome === 'same') done(false)
    }
    const made = changes.filter(({ outcome }) => outcome === 'changed')
    if (made.length === 0) return
    const fault = await this.#store(rows)
    for (const waiting of made) await this.#apply(waiting, fault)
  }

  /** Memory and file agree when it returns. Throws if nothing has changed. */
  async #store(rows: readonly Row[]): Promise<Refusal | undefined> {
    const lines = rows.map(({ line }) => line)
    try {
      await this.#file?.write(lines)
    } catch (error) {
      this.#warn(error instanceof Error ? error.message : String(error))
      // The last step, the directory sync, failed: the file is already the new one.
      const isThere = await this.#file?.contentEquals(lines).catch(() => false)
      if (!isThere) refuse('unavailable', 'the registry could not be stored, so nothing has changed', SEE_LOG)
      this.#rows = rows
      return new Refusal('unavailable', 'the change is in effect, but may not outlive a power cut', SEE_LOG)
    }
    this.#rows = rows
    return undefined
  }

  async #apply({ change, done, fail }: PendingChange, fault: Refusal | undefined): Promise<void> {
    try {
      for (const apply of this.#appliers) await apply(change)
      if (fault) fail(fault)
      else done(true)
    } catch (error) {
      fail(error)
    }
  }
}

const SEE_LOG = 'see the log'

function rowOf(entry: RegisteredSource): Row {
  const { ip, id, allowlist } = entry
  return { key: keyOf(ip), entry, line: JSON.stringify({ ip, id, allowlist }) }
}

/** Numeric order, IPv4 first. */
function keyOf(ip: string): string {
  const groups = readIPv6(ip)
  if (groups) return `6 ${groups.map((group) => group.toString(16).padStart(4, '0')).join(':')}`
  const octets = ip.split('.').map((octet) => octet.padStart(3, '0'))
  return `4 ${octets.join('.')}`
}

/** Changes `rows`, or returns why not. */
function applyTo(rows: Row[], change: RegistryChange): 'changed' | 'same' | Refusal {
  const key = keyOf(change.kind === 'set' ? change.entry.ip : change.ip)
  const place = indexOf(rows, key)
  const isThere = rows[place]?.key === key
  if (change.kind === 'remove') return rows.splice(place, isThere ? 1 : 0).length > 0 ? 'changed' : 'same'
  if (!isThere && rows.length >= SOURCES_MAX) {
    return new Refusal('conflict', `${SOURCES_MAX} sources are registered, which is the limit`, 'unregister some first')
  }
  rows.splice(place, isThere ? 1 : 0, rowOf(change.entry))
  return 'changed'
}

/** The index of `key`, or where to insert it. */
function indexOf(rows: readonly Row[], key: string): number {
  let [low, high] = [0, rows.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((rows[middle]?.key ?? '') < key) low = middle + 1
    else high = middle
  }
  return low
}
