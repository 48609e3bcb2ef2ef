// Reads from the store what the search index lacks: new messages, folders of messages routed since, and changed messages.
import { z } from 'zod'
import type { Tx, Value } from '../../store/engine.ts'
import type { IndexedDocument, IndexUpdate } from '../../store/search/full-text-protocol.ts'
import { bytes, integer, optional, placeholders, query, queryOne, text } from '../../store/statement.ts'
import { batchLength } from '../messages/messages.ts'

/** Position of the index in the store. `id` is that of the last message and detects an index of another store. */
const IndexPosition = z.object({ seq: z.int(), id: z.string(), routed: z.int(), change: z.int() })
type IndexPosition = z.output<typeof IndexPosition>

const START: IndexPosition = { seq: 0, id: '', routed: 0, change: 0 }
const MESSAGES = 500
const MOVED = 2000
const CHANGED = 100

/** The next batch after position `from`; undefined at the end, `foreign` if the index belongs to another store. */
export async function nextIndexBatch(tx: Tx, from: string): Promise<IndexUpdate | 'foreign' | undefined> {
  const known = parsePosition(from)
  if (!known || !(await isOfThisStore(tx, known))) return 'foreign'
  const changes = await readChangeRange(tx)
  // At the start all messages are read in their current state, so earlier changes are skipped.
  const position = known.seq === 0 ? { ...known, change: changes.last } : known
  if (position.change < changes.first - 1) return 'foreign'
  const last = await findBatchEnd(tx, position.seq)
  const seq = last?.seq ?? position.seq
  const added = last ? await readDocuments(tx, 'm.seq > $1 and m.seq <= $2', [position.seq, seq]) : []
  const { moved, routed } = await readMoved(tx, position, seq)
  const { changed, removed, change } = await readChanged(tx, position)
  const to = JSON.stringify({ seq, id: last?.id ?? position.id, routed, change } satisfies IndexPosition)
  return to === JSON.stringify(known) ? undefined : { from, to, added, changed, moved, removed }
}

function parsePosition(text: string): IndexPosition | undefined {
  if (text === '') return START
  try {
    return IndexPosition.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

async function isOfThisStore(tx: Tx, { seq, id }: IndexPosition): Promise<boolean> {
  if (seq === 0) return true
  const [message] = await query(tx, { id: text }, 'select id from messages where seq = $1', [seq])
  return message?.id === id
}

async function findBatchEnd(tx: Tx, after: number): Promise<{ seq: number; id: string } | undefined> {
  const rows = await query(
    tx,
    { seq: integer, id: text, size: integer },
    `select seq, id, length(content) as size from messages where seq > $1 order by seq limit ${MESSAGES}`,
    [after],
  )
  return rows[batchLength(rows.map(({ size }) => size)) - 1]
}

/** The folder is that of the inbox, else the target of the link. Status messages are not indexed. */
async function readDocuments(tx: Tx, condition: string, values: readonly Value[]): Promise<IndexedDocument[]> {
  const rows = await query(
    tx,
    { key: integer, name: text, place: text, author: text, at: text, content: bytes, path: optional(text) },
    `select m.seq as key, m.id as name, m.jid as place, m.sender as author, m.created_at as at, m.content,
       coalesce((select i.folder from inbox i where i.message_seq = m.seq), m.target_folder) as path
     from messages m where ${condition} and m.kind = 'message' order by m.seq`,
    values,
  )
  return rows.map((row) => ({ ...row, path: row.path ?? null }))
}

/** Messages may be indexed before they are routed: reads the folders of those that were routed since. */
async function readMoved(
  tx: Tx,
  position: IndexPosition,
  seq: number,
): Promise<Pick<IndexUpdate, 'moved'> & { routed: number }> {
  const [cursor] = await query(tx, { last_seq: integer }, 'select last_seq from routing where id = 1')
  const until = Math.min(cursor?.last_seq ?? 0, seq)
  if (until <= position.routed) return { moved: [], routed: position.routed }
  const rows = await query(
    tx,
    { message_seq: integer, folder: optional(text) },
    `select i.message_seq, coalesce(i.folder, m.target_folder) as folder from inbox i join messages m on m.seq = i.message_seq
     where i.message_seq > $1 and i.message_seq <= $2 order by i.message_seq limit ${MOVED}`,
    [position.routed, Math.min(until, position.seq)],
  )
  const moved = rows.map(({ message_seq, folder }) => ({ key: message_seq, path: folder ?? null }))
  return { moved, routed: rows.length < MOVED ? until : (moved.at(-1)?.key ?? until) }
}

/** Retention removes old changes; an index that has missed some is rebuilt. */
async function readChangeRange(tx: Tx): Promise<{ first: number; last: number }> {
  const ids = await queryOne(
    tx,
    { first_id: optional(integer), last_id: optional(integer) },
    `select (select min(id) from message_changes) as first_id, (select max(id) from message_changes) as last_id`,
  )
  return { first: ids.first_id ?? 0, last: ids.last_id ?? 0 }
}

async function readChanged(
  tx: Tx,
  position: IndexPosition,
): Promise<Pick<IndexUpdate, 'changed' | 'removed'> & { readonly change: number }> {
  const rows = await query(
    tx,
    { id: integer, message_seq: integer, size: optional(integer) },
    `select c.id, c.message_seq, length(m.content) as size from message_changes c
     left join messages m on m.seq = c.message_seq where c.id > $1 order by c.id limit ${CHANGED}`,
    [position.change],
  )
  const part = rows.slice(0, batchLength(rows.map(({ size }) => size ?? 0)))
  // Messages that are not indexed yet will be read in their changed state.
  const indexed = part.filter((row) => row.message_seq <= position.seq)
  const seqsOf = (exists: boolean): number[] => [
    ...new Set(indexed.filter(({ size }) => (size !== undefined) === exists).map((row) => row.message_seq)),
  ]
  const seqs = seqsOf(true)
  const changed = seqs.length === 0 ? [] : await readDocuments(tx, `m.seq in (${placeholders(seqs.length)})`, seqs)
  return { changed, removed: seqsOf(false), change: part.at(-1)?.id ?? position.change }
}
