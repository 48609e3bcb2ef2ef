// Whether a link may store more. Webd remembers how much the store said, adds what it has appended since, and reads the
// counters again now and then: no request waits for that. Of several processes each knows of the others' posts after the
// next reading, so together they may go beyond a quota by what the others append until then.
import {
  MESSAGE_OVERHEAD,
  QUOTA_KEYS,
  type StorageQuotas,
  type StorageScope,
  storageFull,
  storedBytes,
} from '../../core/storage-use.ts'
import type { Tx } from '../../store/engine.ts'

export interface FullNotice {
  readonly scope: StorageScope
  readonly name: string
  readonly bytes: number
  readonly quota: number
  /** The setting to raise. */
  readonly setting: string
}

/** How often the operator is told of the same chat or folder. */
const NOTICE_MS = 3_600_000

/** One counter, shared by all links of a chat or of a folder. */
export class StorageCell {
  readonly scope: StorageScope
  readonly name: string
  readonly quota: number
  /** As far as this process knows, with what it is appending. */
  bytes: number
  #counted: number
  #noticedAt = Number.NEGATIVE_INFINITY

  constructor(scope: StorageScope, name: string, quota: number, counted: number) {
    this.scope = scope
    this.name = name
    this.quota = quota
    this.bytes = counted
    this.#counted = counted
  }

  /**
   * What the store says now. Messages count when they are filed, which is after their answer, so the larger number is
   * the better one; a counter that went down says that the operator has made room.
   */
  recount(counted: number): void {
    this.bytes = counted < this.#counted ? counted : Math.max(counted, this.bytes)
    this.#counted = counted
  }

  hasRoom(bytes: number): boolean {
    return this.quota === 0 || this.bytes + bytes <= this.quota
  }

  /** Whether it is time to tell the operator again. */
  isNoticeDue(now: number): boolean {
    const isDue = Math.abs(now - this.#noticedAt) >= NOTICE_MS
    if (isDue) this.#noticedAt = now
    return isDue
  }
}

/** The room of one link: that of its chat and that of its folder. */
export class StorageRoom {
  readonly cells: readonly StorageCell[]
  /** What each message of the link takes besides its content. */
  readonly #overhead: number
  readonly #onFull: (cell: StorageCell) => void

  constructor(cells: readonly StorageCell[], contextBytes: number, onFull: (cell: StorageCell) => void) {
    this.cells = cells
    this.#overhead = MESSAGE_OVERHEAD + contextBytes
    this.#onFull = onFull
  }

  /** Reserves room for a message, or refuses it. */
  take(contentBytes: number): void {
    const bytes = contentBytes + this.#overhead
    const full = this.cells.find((cell) => !cell.hasRoom(bytes))
    if (full) {
      this.#onFull(full)
      throw storageFull()
    }
    for (const cell of this.cells) cell.bytes += bytes
  }

  /** The message was not appended after all. */
  giveBack(contentBytes: number): void {
    for (const cell of this.cells) cell.bytes -= contentBytes + this.#overhead
  }
}

export interface StorageRoomsOptions {
  readonly quotas: StorageQuotas
  now(): number
  onFull(notice: FullNotice): void
}

export interface RoomOf {
  readonly jid: string
  readonly folder: string | undefined
  readonly context: string | undefined
}

/** What the store says of a link, read with its row. */
export interface Counted {
  readonly chat: number
  readonly folder: number
}

export class StorageRooms {
  readonly #options: StorageRoomsOptions
  readonly #cells = new Map<string, StorageCell>()

  constructor(options: StorageRoomsOptions) {
    this.#options = options
  }

  async count(tx: Tx, jid: string, folder: string | undefined): Promise<Counted> {
    return {
      chat: await storedBytes(tx, 'chat', jid),
      folder: folder === undefined ? 0 : await storedBytes(tx, 'folder', folder),
    }
  }

  open({ jid, folder, context = '' }: RoomOf, counted: Counted): StorageRoom {
    const cells = [this.#cell('chat', jid, counted.chat)]
    if (folder !== undefined) cells.push(this.#cell('folder', folder, counted.folder))
    return new StorageRoom(cells, Buffer.byteLength(context), (cell) => this.#notice(cell))
  }

  async recount(tx: Tx, rooms: Iterable<StorageRoom>): Promise<void> {
    const cells = new Set([...rooms].flatMap((room) => room.cells))
    for (const cell of cells) if (cell.quota > 0) cell.recount(await storedBytes(tx, cell.scope, cell.name))
  }

  /** Forgets the counters of links that are forgotten. */
  keep(rooms: Iterable<StorageRoom>): void {
    const used = new Set([...rooms].flatMap((room) => room.cells))
    for (const [key, cell] of this.#cells) if (!used.has(cell)) this.#cells.delete(key)
  }

  #cell(scope: StorageScope, name: string, counted: number): StorageCell {
    const key = `${scope} ${name}`
    const known = this.#cells.get(key)
    if (known) return known
    const cell = new StorageCell(scope, name, this.#options.quotas[scope], counted)
    this.#cells.set(key, cell)
    return cell
  }

  #notice(cell: StorageCell): void {
    const { scope, name, bytes, quota } = cell
    if (cell.isNoticeDue(this.#options.now()))
      this.#options.onFull({ scope, name, bytes, quota, setting: QUOTA_KEYS[scope] })
  }
}
