// Cache of the links in use: their immutable fields, rate buckets, counters and storage. It never tells whether a link still
// exists; the transaction that appends checks that. See docs/decisions.md#token-check-and-append.
import type { z } from 'zod'
import { addLinkStats, type LinkStats } from '../../core/links/link-stats.ts'
import { routeTokens, verifyContext } from '../../core/links/route-tokens.ts'
import type { StorageQuotas } from '../../core/links/storage-use.ts'
import { parseSignatureScheme, type SignatureScheme } from '../../core/links/webhook-signatures.ts'
import { hookSourceOf } from '../../core/messages/link-deliveries.ts'
import { legacyLinkFolder } from '../../core/routing/chat-folder.ts'
import { timestamp } from '../../lib/clock.ts'
import { Refusal } from '../../lib/refusal.ts'
import { type Rate, TokenBucket } from '../../lib/token-bucket.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import type { Waiter } from '../../store/lanes/lane.ts'
import { bytes, placeholders, query } from '../../store/statement.ts'
import { shortHash } from './link-request.ts'
import { chatOwnerOf, type PersonChatOwner } from './link-visitor.ts'
import { type LinkStorage, type QuotaExceededNotice, StorageTracker, type StoredByteCounts } from './storage-quota.ts'

export type TokenRow = z.output<typeof routeTokens.row>

export interface CachedLink {
  readonly hash: Uint8Array
  readonly key: string
  readonly jid: string
  /** The folder whose agent answers; undefined for an old link to none. */
  readonly folder: string | undefined
  /** Its hook path for the log, with a short hash instead of the token. */
  readonly hookPath: string
  readonly isHook: boolean
  /** Whether each visitor has a chat of their own. */
  readonly isApart: boolean
  /** The source that a hook was minted for; undefined for a chat link. */
  readonly source: string | undefined
  readonly legacyTarget: string | null
  /** The person whose chat it is. */
  readonly owner: PersonChatOwner | undefined
  readonly verify: { readonly scheme: SignatureScheme; readonly secret: Uint8Array } | undefined
  readonly bucket: TokenBucket
  readonly storage: LinkStorage
  readonly counts: Counts
}

interface Counts {
  usedAt: number
  accepted: number
  refused: Map<string, number>
  isFresh: boolean
}

export interface LinkRates {
  readonly web: Rate
  readonly hook: Rate
}

export interface LinkCacheOptions {
  readonly rates: LinkRates
  readonly quotas: StorageQuotas
  onQuotaExceeded?(notice: QuotaExceededNotice): void
}

interface StoredLink {
  readonly row: TokenRow
  readonly stored: StoredByteCounts
}

interface Lookup {
  readonly key: string
  readonly waiter: Waiter<CachedLink | undefined>
}

const FLUSH_MS = 10_000
const FLUSH_LINKS = 100
const IDLE_MS = 120_000

export class LinkCache {
  readonly #host: InstanceHost
  readonly #rates: LinkRates
  readonly #storage: StorageTracker
  readonly #links = new Map<string, CachedLink>()
  readonly #flushTimer: NodeJS.Timeout
  #pendingLookups: Lookup[] = []

  constructor(host: InstanceHost, { rates, quotas, onQuotaExceeded = () => {} }: LinkCacheOptions) {
    this.#host = host
    this.#rates = rates
    this.#storage = new StorageTracker({ quotas, onQuotaExceeded, now: () => host.clock.now() })
    this.#flushTimer = setInterval(() => void this.flush().catch(host.faults.handler('job')), FLUSH_MS).unref()
  }

  /** A link that was used recently; it may have been revoked since. */
  cached(key: string): CachedLink | undefined {
    return this.#links.get(key)
  }

  /** Reads the link from the store. */
  find(key: string): Promise<CachedLink | undefined> {
    return new Promise((resolve, reject) => this.findWithWaiter(key, { resolve, reject }))
  }

  /** Like `find`, without a promise. Lookups of one turn of the event loop share one read. */
  findWithWaiter(key: string, waiter: Waiter<CachedLink | undefined>): void {
    if (this.#pendingLookups.push({ key, waiter }) === 1)
      setImmediate(() => void this.#runLookups().catch(this.#host.faults.handler('connection')))
  }

  async #runLookups(): Promise<void> {
    const lookups = this.#pendingLookups
    this.#pendingLookups = []
    let rows: ReadonlyMap<string, StoredLink>
    try {
      rows = await this.#host.engine.read((tx) => this.#readAll(tx, lookups))
    } catch (error) {
      for (const { waiter } of lookups) this.#reject(waiter, error)
      return
    }
    for (const { key, waiter } of lookups) {
      try {
        waiter.resolve(this.#refresh(key, rows.get(key)))
      } catch (error) {
        this.#reject(waiter, error)
      }
    }
  }

  /** An exception of one waiter must not keep the others waiting. */
  #reject(waiter: Waiter<CachedLink | undefined>, reason: unknown): void {
    try {
      waiter.reject(reason)
    } catch (error) {
      this.#host.faults.report('connection', error)
    }
  }

  async #readAll(tx: Tx, lookups: readonly Lookup[]): Promise<ReadonlyMap<string, StoredLink>> {
    const rows = new Map<string, StoredLink>()
    for (const key of await findExisting(tx, lookups)) {
      const row = await routeTokens.find(tx, { token_hash: Buffer.from(key, 'latin1') })
      if (row) rows.set(key, { row, stored: await this.#storage.count(tx, row.jid, linkFolder(row)) })
    }
    return rows
  }

  #refresh(key: string, row: StoredLink | undefined): CachedLink | undefined {
    if (row) return this.#links.get(key) ?? this.#add(row, key)
    this.evict(key)
    return undefined
  }

  evict(key: string): void {
    this.#links.delete(key)
  }

  #add({ row, stored }: StoredLink, key: string): CachedLink {
    const { jid, token_hash, source_label, target_folder, context } = row
    const isHook = jid.startsWith('hook:')
    const now = this.#host.clock.now()
    const link: CachedLink = {
      hash: token_hash,
      key,
      jid,
      folder: linkFolder(row),
      hookPath: `/hook/${shortHash(token_hash)}`,
      isHook,
      isApart: row.visitors === 'apart',
      source: isHook ? (source_label ?? hookSourceOf(jid)) : undefined,
      legacyTarget: target_folder === undefined ? (legacyLinkFolder(jid) ?? null) : null,
      owner: chatOwnerOf(row),
      verify: this.#verify(row),
      bucket: new TokenBucket(isHook ? this.#rates.hook : this.#rates.web, now),
      storage: this.#storage.open({ jid, folder: linkFolder(row), context }, stored),
      counts: { usedAt: now, accepted: 0, refused: new Map(), isFresh: false },
    }
    this.#links.set(key, link)
    return link
  }

  #verify({ verify, verify_secret, token_hash }: TokenRow): CachedLink['verify'] {
    if (verify === undefined) return undefined
    const sealed = verify_secret ?? new Uint8Array()
    return { scheme: parseSignatureScheme(verify), secret: this.#host.keyring.open(sealed, verifyContext(token_hash)) }
  }

  countAccepted(link: CachedLink): void {
    const { counts } = link
    counts.accepted++
    counts.usedAt = this.#host.clock.now()
    counts.isFresh = true
  }

  countRefused(link: CachedLink, reason: string): void {
    const { counts } = link
    counts.refused.set(reason, (counts.refused.get(reason) ?? 0) + 1)
    counts.usedAt = this.#host.clock.now()
    counts.isFresh = true
  }

  /** Writes the counters in batches, reads the stored bytes, and evicts idle links. */
  async flush(): Promise<void> {
    const now = this.#host.clock.now()
    const fresh = [...this.#links.values()].filter(({ counts }) => counts.isFresh)
    for (let from = 0; from < fresh.length; from += FLUSH_LINKS) {
      const batch = fresh.slice(from, from + FLUSH_LINKS)
      const taken = batch.map(takeCounts)
      try {
        const { engine } = this.#host
        await engine.transaction((tx) => addLinkStats(tx, engine.dialect, taken))
      } catch (error) {
        // Keep the counts for the next flush.
        for (const [index, stats] of taken.entries()) restoreCounts(batch[index], stats)
        throw error
      }
    }
    const used = fresh.map(({ storage }) => storage)
    if (used.length > 0) await this.#host.engine.read((tx) => this.#storage.recount(tx, used))
    for (const [key, { counts, bucket }] of this.#links) {
      if (!counts.isFresh && now - counts.usedAt > IDLE_MS && bucket.isFull(now)) this.#links.delete(key)
    }
    this.#storage.retain([...this.#links.values()].map(({ storage }) => storage))
  }

  async close(): Promise<void> {
    clearInterval(this.#flushTimer)
    try {
      await this.flush()
    } catch (error) {
      // An unavailable store must not fail the shutdown.
      if (!(error instanceof Refusal)) throw error
    }
  }
}

/** Few statement sizes, so that each is prepared once. */
const LOOKUP_STATEMENTS = [1, 4, 16, 64].map((length) => ({
  length,
  sql: `select token_hash from route_tokens where token_hash in (${placeholders(length)})`,
}))

const LARGEST_LOOKUP = LOOKUP_STATEMENTS[LOOKUP_STATEMENTS.length - 1] ?? { length: 0, sql: '' }
const NO_HASH = new Uint8Array()

/** The keys that exist. Most lookups are for guessed tokens, so a cheap query comes before the rows are read. */
async function findExisting(tx: Tx, lookups: readonly Lookup[]): Promise<ReadonlySet<string>> {
  const existing = new Set<string>()
  for (let from = 0; from < lookups.length; ) {
    const left = lookups.length - from
    const { length, sql } = LOOKUP_STATEMENTS.find((size) => size.length >= left) ?? LARGEST_LOOKUP
    const hashes: Uint8Array[] = []
    for (let at = from; at < from + Math.min(left, length); at++)
      hashes.push(Buffer.from(lookups[at]?.key ?? '', 'latin1'))
    while (hashes.length < length) hashes.push(NO_HASH)
    for (const { token_hash } of await query(tx, { token_hash: bytes }, sql, hashes)) existing.add(latin1(token_hash))
    from += length
  }
  return existing
}

/** Rows without a target derive it from the JID. See docs/decisions.md#legacy-links. */
export function linkFolder({ jid, target_folder }: TokenRow): string | undefined {
  return target_folder ?? legacyLinkFolder(jid)
}

export function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

function takeCounts({ hash, counts }: CachedLink): LinkStats {
  const taken = {
    token_hash: hash,
    last_used_at: timestamp(counts.usedAt),
    accepted: counts.accepted,
    refused: Object.fromEntries(counts.refused),
  }
  counts.accepted = 0
  counts.refused = new Map()
  counts.isFresh = false
  return taken
}

function restoreCounts(link: CachedLink | undefined, { accepted, refused }: LinkStats): void {
  if (!link) return
  const { counts } = link
  counts.accepted += accepted
  for (const [reason, count] of Object.entries(refused))
    counts.refused.set(reason, (counts.refused.get(reason) ?? 0) + count)
  counts.isFresh = true
}
