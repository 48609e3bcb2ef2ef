// What webd knows of the links in use: what never changes of each (its kind, its sender, how it is verified), its rate, its
// counts and how much is stored. Never whether it is still there: that is asked of the store, in the transaction that appends (decision L5).

import type { z } from 'zod'
import { addStats, type LinkStats } from '../../core/link-stats.ts'
import { oldReading } from '../../core/resolve.ts'
import { routeTokens, verifyContext } from '../../core/route-tokens.ts'
import { parseScheme, type Scheme } from '../../core/signatures.ts'
import type { StorageQuotas } from '../../core/storage-use.ts'
import { Bucket, type Rate } from '../../lib/bucket.ts'
import { timestamp } from '../../lib/clock.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { run } from '../../store/statement.ts'
import { type Counted, type FullNotice, type StorageRoom, StorageRooms } from './storage-room.ts'
import { hex8 } from './visit.ts'

export type TokenRow = z.output<typeof routeTokens.row>

export interface Link {
  readonly hash: Uint8Array
  readonly key: string
  readonly jid: string
  /** Its hook URL, as it may be written down. */
  readonly hookPath: string
  readonly isHook: boolean
  /** Of a hook: the source that it was minted for. */
  readonly source: string | undefined
  readonly oldTarget: string | null
  readonly verify: { readonly scheme: Scheme; readonly secret: Uint8Array } | undefined
  readonly bucket: Bucket
  readonly room: StorageRoom
  readonly counts: Counts
}

interface Counts {
  usedAt: number
  accepted: number
  refused: Map<string, number>
  isFresh: boolean
}

export interface Rates {
  readonly web: Rate
  readonly hook: Rate
}

export interface LinkBookOptions {
  readonly rates: Rates
  readonly quotas: StorageQuotas
  /** A message was refused because the storage of its link or folder is full; seldom for the same one. */
  onFull?(notice: FullNotice): void
}

interface FoundRow {
  readonly row: TokenRow
  readonly counted: Counted
}

const FLUSH_MS = 10_000
const FLUSH_LINKS = 100
const IDLE_MS = 120_000

export class LinkBook {
  readonly #host: Host
  readonly #rates: Rates
  readonly #rooms: StorageRooms
  readonly #links = new Map<string, Link>()
  readonly #flushing: NodeJS.Timeout
  #asked: { hash: Uint8Array; resolve: (found: FoundRow | undefined) => void; reject: (error: unknown) => void }[] = []

  constructor(host: Host, { rates, quotas, onFull = () => {} }: LinkBookOptions) {
    this.#host = host
    this.#rates = rates
    this.#rooms = new StorageRooms({ quotas, onFull, now: () => host.clock.now() })
    this.#flushing = setInterval(() => void this.flush().catch((error) => host.onStray?.(error)), FLUSH_MS).unref()
  }

  /** If it was used lately; it may be gone by now. */
  known(key: string): Link | undefined {
    return this.#links.get(key)
  }

  /** The link, if there is one now. */
  async find(hash: Uint8Array, key: string): Promise<Link | undefined> {
    const found = await this.#look(hash)
    if (!found) {
      this.forget(key)
      return undefined
    }
    return this.#links.get(key) ?? this.#add(found, key)
  }

  /** Those that ask in the same turn of the event loop share one read. */
  #look(hash: Uint8Array): Promise<FoundRow | undefined> {
    return new Promise((resolve, reject) => {
      this.#asked.push({ hash, resolve, reject })
      if (this.#asked.length === 1) setImmediate(() => void this.#answer())
    })
  }

  async #answer(): Promise<void> {
    const asked = this.#asked
    this.#asked = []
    try {
      const rows = await this.#host.engine.read(async (tx) => {
        const there = await presentOf(
          tx,
          asked.map(({ hash }) => hash),
        )
        const found: (FoundRow | undefined)[] = []
        for (const { hash } of asked) found.push(there.has(latin1(hash)) ? await this.#read(tx, hash) : undefined)
        return found
      })
      for (const [index, { resolve }] of asked.entries()) resolve(rows[index])
    } catch (error) {
      for (const { reject } of asked) reject(error)
    }
  }

  async #read(tx: Tx, token_hash: Uint8Array): Promise<FoundRow | undefined> {
    const row = await routeTokens.find(tx, { token_hash })
    return row && { row, counted: await this.#rooms.count(tx, row.jid, folderOf(row)) }
  }

  forget(key: string): void {
    this.#links.delete(key)
  }

  #add({ row, counted }: FoundRow, key: string): Link {
    const { jid, token_hash, source_label, target_folder, context } = row
    const isHook = jid.startsWith('hook:')
    const now = this.#host.clock.now()
    const link: Link = {
      hash: token_hash,
      key,
      jid,
      hookPath: `/hook/${hex8(token_hash)}`,
      isHook,
      source: isHook ? (source_label ?? jid.slice(jid.lastIndexOf('/') + 1).replace(/^hook:/, '')) : undefined,
      oldTarget: target_folder === undefined ? (oldReading(jid) ?? null) : null,
      verify: this.#verify(row),
      bucket: new Bucket(isHook ? this.#rates.hook : this.#rates.web, now),
      room: this.#rooms.open({ jid, folder: folderOf(row), context }, counted),
      counts: { usedAt: now, accepted: 0, refused: new Map(), isFresh: false },
    }
    this.#links.set(key, link)
    return link
  }

  #verify({ verify, verify_secret, token_hash }: TokenRow): Link['verify'] {
    if (verify === undefined) return undefined
    const sealed = verify_secret ?? new Uint8Array()
    return { scheme: parseScheme(verify), secret: this.#host.keyring.open(sealed, verifyContext(token_hash)) }
  }

  accepted(link: Link): void {
    const { counts } = link
    counts.accepted++
    counts.usedAt = this.#host.clock.now()
    counts.isFresh = true
  }

  refused(link: Link, reason: string): void {
    const { counts } = link
    counts.refused.set(reason, (counts.refused.get(reason) ?? 0) + 1)
    counts.usedAt = this.#host.clock.now()
    counts.isFresh = true
  }

  /** Writes what was counted, a few links at a time, reads how much is stored, and drops what is idle. */
  async flush(): Promise<void> {
    const now = this.#host.clock.now()
    const fresh = [...this.#links.values()].filter(({ counts }) => counts.isFresh)
    for (let from = 0; from < fresh.length; from += FLUSH_LINKS) {
      const some = fresh.slice(from, from + FLUSH_LINKS)
      const taken = some.map(takeCounts)
      try {
        const { engine } = this.#host
        await engine.transaction((tx) => addStats(tx, engine.dialect, taken))
      } catch (error) {
        // They count the next time.
        for (const [index, stats] of taken.entries()) giveCounts(some[index], stats)
        throw error
      }
    }
    const rooms = fresh.map(({ room }) => room)
    if (rooms.length > 0) await this.#host.engine.read((tx) => this.#rooms.recount(tx, rooms))
    for (const [key, { counts, bucket }] of this.#links) {
      if (!counts.isFresh && now - counts.usedAt > IDLE_MS && bucket.isFull(now)) this.#links.delete(key)
    }
    this.#rooms.keep([...this.#links.values()].map(({ room }) => room))
  }

  async close(): Promise<void> {
    clearInterval(this.#flushing)
    try {
      await this.flush()
    } catch (error) {
      // Counts are no reason to fail a stop.
      if (!(error instanceof Refusal)) throw error
    }
  }
}

/** How many are asked about in one statement: few lengths, so that each is prepared once. */
const ASKED = [1, 2, 4, 8, 16, 32, 64]

/** Which of them are there: most who ask about a link that webd does not know ask about one that nobody knows. */
async function presentOf(tx: Tx, hashes: readonly Uint8Array[]): Promise<ReadonlySet<string>> {
  const present = new Set<string>()
  for (let from = 0; from < hashes.length; ) {
    const left = hashes.length - from
    const size = ASKED.find((length) => length >= left) ?? 64
    const some = Array.from(
      { length: size },
      (_, at) => hashes[Math.min(from + at, hashes.length - 1)] ?? new Uint8Array(),
    )
    const marks = some.map((_, at) => `$${at + 1}`).join(', ')
    const { rows } = await run(tx, `select token_hash from route_tokens where token_hash in (${marks})`, some)
    for (const { token_hash } of rows) if (token_hash instanceof Uint8Array) present.add(latin1(token_hash))
    from += size
  }
  return present
}

/** Where a link delivers. */
function folderOf({ jid, target_folder }: TokenRow): string | undefined {
  return target_folder ?? oldReading(jid)
}

export function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

function takeCounts({ hash, counts }: Link): LinkStats {
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

function giveCounts(link: Link | undefined, { accepted, refused }: LinkStats): void {
  if (!link) return
  const { counts } = link
  counts.accepted += accepted
  for (const [reason, count] of Object.entries(refused))
    counts.refused.set(reason, (counts.refused.get(reason) ?? 0) + count)
  counts.isFresh = true
}
