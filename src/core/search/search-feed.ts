// What the index of what was said does not hold yet: the next messages, where earlier ones were routed to, and which of
// them were changed since.
import { z } from 'zod'
import type { Tx, Value } from '../../store/engine.ts'
import type { IndexedDocument, IndexUpdate } from '../../store/search/full-text-protocol.ts'
import { bytes, integer, optional, placeholders, query, queryOne, text } from '../../store/statement.ts'
import { batchLength } from '../messages/messages.ts'

/** How far the index follows the store, as text. The id of the last message tells one store from another. */
const Mark = z.object({ seq: z.int(), id: z.string(), routed: z.int(), change: z.int() })
type Mark = z.output<typeof Mark>

const NOWHERE: Mark = { seq: 0, id: '', routed: 0, change: 0 }
const MESSAGES = 500
const MOVED = 2000
const CHANGED = 100

/** The next piece after `from`; nothing where that is all. `foreign` where the index is not of this store. */
export async function nextIndexBatch(tx: Tx, from: string): Promise<IndexUpdate | 'foreign' | undefined> {
  const known = readMark(from)
  if (!known || !(await isOfThisStore(tx, known))) return 'foreign'
  const changes = await changesKept(tx)
  // What is read from the beginning is read as it is now.
  const mark = known.seq === 0 ? { ...known, change: changes.last } : known
  if (mark.change < changes.first - 1) return 'foreign'
  const last = await lastOfPiece(tx, mark.seq)
  const seq = last?.seq ?? mark.seq
  const added = last ? await documents(tx, 'm.seq > $1 and m.seq <= $2', [mark.seq, seq]) : []
  const { moved, routed } = await movedSince(tx, mark, seq)
  const { changed, removed, change } = await changedSince(tx, mark)
  const to = JSON.stringify({ seq, id: last?.id ?? mark.id, routed, change } satisfies Mark)
  return to === JSON.stringify(known) ? undefined : { from, to, added, changed, moved, removed }
}

function readMark(text: string): Mark | undefined {
  if (text === '') return NOWHERE
  try {
    return Mark.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

async function isOfThisStore(tx: Tx, { seq, id }: Mark): Promise<boolean> {
  if (seq === 0) return true
  const [message] = await query(tx, { id: text }, 'select id from messages where seq = $1', [seq])
  return message?.id === id
}

/** As many as are read at once without a burden. */
async function lastOfPiece(tx: Tx, after: number): Promise<{ seq: number; id: string } | undefined> {
  const rows = await query(
    tx,
    { seq: integer, id: text, size: integer },
    `select seq, id, length(content) as size from messages where seq > $1 order by seq limit ${MESSAGES}`,
    [after],
  )
  return rows[batchLength(rows.map(({ size }) => size)) - 1]
}

/** Whose message it is: who has it, else where its link leads. What only tells how far a turn is, is not searched. */
async function documents(tx: Tx, condition: string, values: readonly Value[]): Promise<IndexedDocument[]> {
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

/** A message is indexed when it is committed, and routed behind that. What is read now is routed as far as anything is. */
async function movedSince(tx: Tx, mark: Mark, seq: number): Promise<Pick<IndexUpdate, 'moved'> & { routed: number }> {
  const [cursor] = await query(tx, { last_seq: integer }, 'select last_seq from routing where id = 1')
  const until = Math.min(cursor?.last_seq ?? 0, seq)
  if (until <= mark.routed) return { moved: [], routed: mark.routed }
  const rows = await query(
    tx,
    { message_seq: integer, folder: optional(text) },
    `select i.message_seq, coalesce(i.folder, m.target_folder) as folder from inbox i join messages m on m.seq = i.message_seq
     where i.message_seq > $1 and i.message_seq <= $2 order by i.message_seq limit ${MOVED}`,
    [mark.routed, Math.min(until, mark.seq)],
  )
  const moved = rows.map(({ message_seq, folder }) => ({ key: message_seq, path: folder ?? null }))
  return { moved, routed: rows.length < MOVED ? until : (moved.at(-1)?.key ?? until) }
}

/** Changes are removed with the messages of their time: an index that has missed some is made anew. */
async function changesKept(tx: Tx): Promise<{ first: number; last: number }> {
  const ids = await queryOne(
    tx,
    { first_id: optional(integer), last_id: optional(integer) },
    `select (select min(id) from message_changes) as first_id, (select max(id) from message_changes) as last_id`,
  )
  return { first: ids.first_id ?? 0, last: ids.last_id ?? 0 }
}

async function changedSince(
  tx: Tx,
  mark: Mark,
): Promise<Pick<IndexUpdate, 'changed' | 'removed'> & { readonly change: number }> {
  const rows = await query(
    tx,
    { id: integer, message_seq: integer, size: optional(integer) },
    `select c.id, c.message_seq, length(m.content) as size from message_changes c
     left join messages m on m.seq = c.message_seq where c.id > $1 order by c.id limit ${CHANGED}`,
    [mark.change],
  )
  const part = rows.slice(0, batchLength(rows.map(({ size }) => size ?? 0)))
  // What comes later is read with its change.
  const known = part.filter((row) => row.message_seq <= mark.seq)
  const seqsOf = (isThere: boolean): number[] => [
    ...new Set(known.filter(({ size }) => (size !== undefined) === isThere).map((row) => row.message_seq)),
  ]
  const seqs = seqsOf(true)
  const changed = seqs.length === 0 ? [] : await documents(tx, `m.seq in (${placeholders(seqs.length)})`, seqs)
  return { changed, removed: seqsOf(false), change: part.at(-1)?.id ?? mark.change }
}
