// Notices that commits are missing which were on the disk before: SQLite opens a store whose write-ahead log was lost or cut as
// if nothing had happened. While the store is served, the counters of its tables are written to a small file beside it, after
// the commits are on the disk and at most once a second. A store whose counters are lower has lost rows.
import { appendFile, type FileHandle, open, rm } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { timestamp } from '../../lib/clock.ts'
import { type FaultHandler, guard } from '../../lib/fault-boundary.ts'
import { errnoCode, readText, refuseDisk } from '../../lib/files/atomic-file.ts'
import { inheritOwner } from '../../lib/files/owner.ts'
import { Refusal } from '../../lib/refusal.ts'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import type { Engine, LossWatch } from '../engine.ts'
import { integer, optional, query, text } from '../statement.ts'
import { MARK_SUFFIXES } from './store-file.ts'

const EVERY_MS = 1000
const MARK_BYTES_MAX = 65_536
/** A mark is written over the one before, so it is padded to whole blocks. */
const BLOCK_BYTES = 1024
const LOSSES_BYTES_MAX = 1024 * 1024

/** The last used value of each auto-increment key, by table. */
type Counters = ReadonlyMap<string, number>

const COUNTERS = `select t.name, s.seq from sqlite_schema t left join sqlite_sequence s on s.name = t.name
  where t.type = 'table' and t.sql like '%autoincrement%' order by t.name`

interface LossWatchOptions {
  readonly path: string
  readonly engine: Pick<Engine, 'read' | 'listen'>
  readonly onFault: FaultHandler
}

export class SqliteLossWatch implements LossWatch {
  readonly #options: LossWatchOptions
  /** One sentence per line. */
  readonly #losses: string

  constructor(options: LossWatchOptions) {
    this.#options = options
    this.#losses = `${options.path}-losses`
  }

  async find(): Promise<readonly string[]> {
    const lost = await this.#compare()
    return [...(await this.#readLosses()), ...(lost === undefined ? [] : [lost])]
  }

  async start(now: number): Promise<() => Promise<void>> {
    const lost = await this.#compare()
    // A new mark would hide a loss that cannot be noted, such as on a full disk.
    if (lost !== undefined && !(await this.#note(`${timestamp(now)}: ${lost}\n`))) return async () => {}
    const { path, engine, onFault } = this.#options
    const mark = new MarkFile(`${path}-mark`)
    let writing: Promise<void> | undefined
    let timer: NodeJS.Timeout | undefined
    const write = async (): Promise<void> => mark.write(await this.#readCounters())
    const writeSoon = (): void => {
      timer ??= setTimeout(
        guard(onFault, () => {
          timer = undefined
          // The store may be closed or fail; then there is nothing to note.
          writing = write().catch(ignoreRefusal)
          return writing
        }),
        EVERY_MS,
      ).unref()
    }
    await write().catch(ignoreRefusal)
    const unsubscribe = engine.listen(writeSoon)
    return async () => {
      unsubscribe()
      clearTimeout(timer)
      await writing
      await write().catch(ignoreRefusal)
      await mark.close()
    }
  }

  async forget(): Promise<void> {
    for (const suffix of MARK_SUFFIXES) {
      const file = this.#options.path + suffix
      await rm(file, { force: true }).catch((error) => refuseDisk(error, 'remove', file))
    }
  }

  /** Reads the mark before the counters, which another process may be raising. */
  async #compare(): Promise<string | undefined> {
    const mark = await readMark(`${this.#options.path}-mark`)
    if (!mark) return undefined
    const counters = await this.#readCounters()
    const lower = [...mark].flatMap(([name, reached]) => {
      const left = counters.get(name) ?? reached
      return left < reached ? [`${name} ends at number ${left}, but had reached ${reached}`] : []
    })
    return lower.length === 0 ? undefined : lower.join(', ')
  }

  /** A read resolves when all that it saw is on the disk. */
  #readCounters(): Promise<Counters> {
    return this.#options.engine.read(async (tx) => {
      const [known] = await query(tx, {}, `select 1 as one from sqlite_schema where name = 'sqlite_sequence'`)
      const rows = known ? await query(tx, { name: text, seq: optional(integer) }, COUNTERS) : []
      return new Map(rows.map(({ name, seq = 0 }) => [name, seq]))
    })
  }

  async #note(line: string): Promise<boolean> {
    try {
      await appendFile(this.#losses, line, { mode: 0o600 })
      inheritOwner(this.#losses)
      return true
    } catch {
      return false
    }
  }

  async #readLosses(): Promise<string[]> {
    try {
      return (await readText(this.#losses, LOSSES_BYTES_MAX)).split('\n').filter((line) => line !== '')
    } catch (error) {
      if (error instanceof Refusal && error.code === 'not_found') return []
      throw error
    }
  }
}

function ignoreRefusal(error: unknown): void {
  if (!(error instanceof Refusal)) throw error
}

/** Not synced: the system writes it within seconds, and commits must not wait for it. */
class MarkFile {
  readonly #path: string
  #file: FileHandle | undefined
  #written = ''

  constructor(path: string) {
    this.#path = path
  }

  async write(counters: Counters): Promise<void> {
    const line = formatMark(counters)
    if (line === this.#written) return
    try {
      this.#file ??= await openMark(this.#path)
      await this.#file.write(line.padEnd(Math.ceil(line.length / BLOCK_BYTES) * BLOCK_BYTES), 0)
    } catch (error) {
      refuseDisk(error, 'write', this.#path)
    }
    this.#written = line
  }

  async close(): Promise<void> {
    await this.#file?.close()
  }
}

/** Keeps the content, which counts until the first write. */
async function openMark(path: string): Promise<FileHandle> {
  return open(path, 'r+').catch(async (error) => {
    if (errnoCode(error) !== 'ENOENT') throw error
    const file = await open(path, 'w+', 0o600)
    inheritOwner(path, file.fd)
    return file
  })
}

/** With a checksum, because a power cut may leave parts of two marks. */
function formatMark(counters: Counters): string {
  const json = JSON.stringify(Object.fromEntries(counters))
  return `${crc32(json).toString(16).padStart(8, '0')} ${json}`
}

/** Undefined without a whole mark. */
async function readMark(path: string): Promise<Counters | undefined> {
  const line = (await readText(path, MARK_BYTES_MAX).catch(() => '')).trimEnd()
  const found = tryParseJson(line.slice(9))
  if (!isObject(found)) return undefined
  const counters = new Map(
    Object.entries(found).flatMap(([name, value]) => (typeof value === 'number' ? [[name, value] as const] : [])),
  )
  return formatMark(counters) === line ? counters : undefined
}
