// The thread under a lane: takes a batch, writes it in one transaction, answers, and tidies up behind.
import { parentPort, workerData } from 'node:worker_threads'
import { Refusal } from '../../lib/refusal.ts'
import type { Tx } from '../engine.ts'
import type { Packed, Tidied, Work } from '../lane.ts'
import { RunningTx } from '../running.ts'
import { Tidying, writeBatch } from '../tidying.ts'
import { openConnection } from './connection.ts'
import { sqliteDialect } from './dialect.ts'
import { fault, isDiskError } from './faults.ts'
import type { Failed, Orders, Reply } from './thread.ts'

/** Nobody else waits on this thread, so it may stand still for another process. */
const BUSY_MS = 4000
/** Messages are filed all over the store: with SQLite's own 2 MiB each page would be read again every time. */
const CACHE_KIB = 32_768

// Only ever started by a thread of ours, with what that gives it.
const { path, module } = workerData as Orders
const port = parentPort
if (!port) throw new Error('this is the entry of a thread')

const { work } = (await import(module)) as { work: Work<unknown, unknown> }
const connection = openConnection(path, BUSY_MS)
connection.query(`pragma busy_timeout = ${BUSY_MS}`, [])
connection.query(`pragma cache_size = -${CACHE_KIB}`, [])

async function write<T>(run: (tx: Tx) => Promise<T>): Promise<T> {
  if (broken !== undefined) throw broken
  const tx = new RunningTx(connection)
  try {
    connection.exec('begin immediate')
    const value = await tx.enclose(run)
    connection.exec('commit')
    return value
  } catch (error) {
    const first = tx.failure ?? error
    if (isDiskError(first)) broken ??= first
    try {
      if (connection.isInTransaction) connection.exec('rollback')
    } catch {
      // The first error is the one that says why.
    }
    throw first
  }
}

/** After the disk has failed nothing is written any more: what is in memory is perhaps not what is on it. */
let broken: unknown

function failed(error: unknown): Failed {
  const told = fault(path, error)
  const isFatal = isDiskError(error)
  if (isFatal) broken ??= error
  if (told instanceof Refusal) return { code: told.code, message: told.message, hint: told.hint, isFatal }
  return {
    code: undefined,
    message: error instanceof Error ? (error.stack ?? error.message) : String(error),
    hint: undefined,
    isFatal,
  }
}

const say = (reply: Reply): void => port.postMessage(reply)

// One thing at a time: a batch waits for the tidying that has begun.
let last: Promise<unknown> = Promise.resolve()
function inTurn<T>(run: () => Promise<T>): Promise<T> {
  const next = last.then(run, run)
  last = next.catch(() => {})
  return next
}

async function tidy(): Promise<Tidied> {
  try {
    const tidied = await write((tx) => work.tidy(tx, sqliteDialect))
    shortenLog()
    return tidied
  } catch (error) {
    // Nobody waits for this, but a disk that failed here failed for all.
    if (isDiskError(error)) say({ broken: failed(error) })
    throw error
  }
}

const SHORTEN_MS = 1000

/** Behind the answer: what was acknowledged is in the log. Also for those who write elsewhere in this process. */
function shortenLog(): void {
  if (broken !== undefined || connection.isInTransaction) return
  try {
    connection.shortenLog()
  } catch (error) {
    if (isDiskError(error)) say({ broken: failed(error) })
  }
}

const shortening = setInterval(shortenLog, SHORTEN_MS).unref()

const tidying = new Tidying(
  () => inTurn(tidy),
  (tidied) => say({ tidied }),
)

port.on('message', (packed: Packed | null) => {
  if (packed === null) return void end()
  void inTurn(async () => {
    try {
      const items = work.unpack(packed)
      say(await writeBatch(tidying, { work, items, dialect: sqliteDialect, write }))
      shortenLog()
    } catch (error) {
      say({ failed: failed(error) })
    }
  })
})

async function end(): Promise<void> {
  clearInterval(shortening)
  await tidying.close()
  await last
  // The log is left as it is where the disk failed: closing would shorten it.
  if (broken === undefined) connection.close()
  port?.close()
}
