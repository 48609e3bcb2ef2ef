// Enforces storage quotas without a read per request: webd caches the stored bytes, adds its own appends, and rereads the
// counters periodically. Several processes together may exceed a quota by what they append between two reads.
import {
  MESSAGE_OVERHEAD_BYTES,
  QUOTA_SETTINGS,
  type StorageQuotas,
  type StorageScope,
  storageFullRefusal,
  storedBytes,
} from '../../core/links/storage-use.ts'
import type { Tx } from '../../store/engine.ts'

export interface QuotaExceededNotice {
  readonly scope: StorageScope
  readonly name: string
  readonly bytes: number
  readonly quota: number
  /** Name of the setting to raise. */
  readonly setting: string
}

/** Interval of log warnings about the same chat or folder. */
const NOTICE_MS = 3_600_000

/** Bytes of one chat or folder, shared by all its links. */
export class StorageCounter {
  readonly scope: StorageScope
  readonly name: string
  readonly quota: number
  /** The stored bytes as far as this process knows, including appends in progress. */
  bytes: number
  #stored: number
  #noticedAt = Number.NEGATIVE_INFINITY

  constructor(scope: StorageScope, name: string, quota: number, stored: number) {
    this.scope = scope
    this.name = name
    this.quota = quota
    this.bytes = stored
    this.#stored = stored
  }

  /**
   * Takes over the counter of the store. It lags, because messages count when they are filed, so the larger number is
   * right, unless the counter went down: then the operator has deleted messages.
   */
  recount(stored: number): void {
    this.bytes = stored < this.#stored ? stored : Math.max(stored, this.bytes)
    this.#stored = stored
  }

  hasSpace(bytes: number): boolean {
    return this.quota === 0 || this.bytes + bytes <= this.quota
  }

  isNoticeDue(now: number): boolean {
    const isDue = Math.abs(now - this.#noticedAt) >= NOTICE_MS
    if (isDue) this.#noticedAt = now
    return isDue
  }
}

/** Storage of one link: the counters of its chat and its folder. */
export class LinkStorage {
  readonly counters: readonly StorageCounter[]
  /** Bytes of each message besides its content. */
  readonly #overhead: number
  readonly #onFull: (counter: StorageCounter) => void

  constructor(counters: readonly StorageCounter[], contextBytes: number, onFull: (counter: StorageCounter) => void) {
    this.counters = counters
    this.#overhead = MESSAGE_OVERHEAD_BYTES + contextBytes
    this.#onFull = onFull
  }

  /** Reserves space for a message or refuses it. */
  reserve(contentBytes: number): void {
    this.mustHaveSpace(contentBytes)
    for (const counter of this.counters) counter.bytes += contentBytes + this.#overhead
  }

  mustHaveSpace(contentBytes: number): void {
    const bytes = contentBytes + this.#overhead
    const full = this.counters.find((counter) => !counter.hasSpace(bytes))
    if (full) {
      this.#onFull(full)
      throw storageFullRefusal()
    }
  }

  /** Undoes `reserve` for a message that was not appended. */
  release(contentBytes: number): void {
    for (const counter of this.counters) counter.bytes -= contentBytes + this.#overhead
  }
}

export interface StorageTrackerOptions {
  readonly quotas: StorageQuotas
  now(): number
  onQuotaExceeded(notice: QuotaExceededNotice): void
}

export interface StorageOwner {
  readonly jid: string
  readonly folder: string | undefined
  readonly context: string | undefined
}

export interface StoredByteCounts {
  readonly chat: number
  readonly folder: number
}

export class StorageTracker {
  readonly #options: StorageTrackerOptions
  readonly #counters = new Map<string, StorageCounter>()

  constructor(options: StorageTrackerOptions) {
    this.#options = options
  }

  async count(tx: Tx, jid: string, folder: string | undefined): Promise<StoredByteCounts> {
    return {
      chat: await storedBytes(tx, 'chat', jid),
      folder: folder === undefined ? 0 : await storedBytes(tx, 'folder', folder),
    }
  }

  open({ jid, folder, context = '' }: StorageOwner, stored: StoredByteCounts): LinkStorage {
    const counters = [this.#counter('chat', jid, stored.chat)]
    if (folder !== undefined) counters.push(this.#counter('folder', folder, stored.folder))
    return new LinkStorage(counters, Buffer.byteLength(context), (counter) => this.#notify(counter))
  }

  async recount(tx: Tx, storages: Iterable<LinkStorage>): Promise<void> {
    const counters = new Set([...storages].flatMap((storage) => storage.counters))
    for (const counter of counters)
      if (counter.quota > 0) counter.recount(await storedBytes(tx, counter.scope, counter.name))
  }

  /** Drops the counters that no cached link uses. */
  retain(storages: Iterable<LinkStorage>): void {
    const used = new Set([...storages].flatMap((storage) => storage.counters))
    for (const [key, counter] of this.#counters) if (!used.has(counter)) this.#counters.delete(key)
  }

  #counter(scope: StorageScope, name: string, stored: number): StorageCounter {
    const key = `${scope} ${name}`
    const existing = this.#counters.get(key)
    if (existing) return existing
    const counter = new StorageCounter(scope, name, this.#options.quotas[scope], stored)
    this.#counters.set(key, counter)
    return counter
  }

  #notify(counter: StorageCounter): void {
    const { scope, name, bytes, quota } = counter
    if (counter.isNoticeDue(this.#options.now()))
      this.#options.onQuotaExceeded({ scope, name, bytes, quota, setting: QUOTA_SETTINGS[scope] })
  }
}
