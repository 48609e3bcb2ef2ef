// What the index of what was said does not hold yet: the next messages, where earlier ones were routed to, and which of
// them were changed since.
import { z } from 'zod'
import type { Tx, Value } from '../store/engine.ts'
import type { Document, Filling } from '../store/full-text.ts'
import { run } from '../store/statement.ts'
import { piece } from './messages.ts'

/** How far the index follows the store, as text. The id of the last message tells one store from another. */
const Mark = z.object({ seq: z.int(), id: z.string(), routed: z.int(), change: z.int() })
type Mark = z.output<typeof Mark>

const NOWHERE: Mark = { seq: 0, id: '', routed: 0, change: 0 }
const MESSAGES = 500
const MOVED = 2000
const CHANGED = 100

/** The next piece after `from`; nothing where that is all. `foreign` where the index is not of this store. */
export async function nextFilling(tx: Tx, from: string): Promise<Filling | 'foreign' | undefined> {
  const mark = readMark(from)
  if (!mark || !(await isOfThisStore(tx, mark))) return 'foreign'
  const last = await lastOfPiece(tx, mark.seq)
  const seq = last?.seq ?? mark.seq
  const fresh = last ? await documents(tx, 'm.seq > $1 and m.seq <= $2', [mark.seq, seq]) : []
  const { moved, routed } = await movedSince(tx, mark, seq)
  const { changed, change } = await changedSince(tx, mark)
  const to = JSON.stringify({ seq, id: last?.id ?? mark.id, routed, change } satisfies Mark)
  return to === JSON.stringify(mark) ? undefined : { from, to, fresh, changed, moved }
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
  const { rows } = await run(tx, 'select id from messages where seq = $1', [seq])
  return rows[0]?.id === id
}

/** As many as are read at once without a burden. */
async function lastOfPiece(tx: Tx, after: number): Promise<{ seq: number; id: string } | undefined> {
  const { rows } = await run(
    tx,
    `select seq, id, length(content) as size from messages where seq > $1 order by seq limit ${MESSAGES}`,
    [after],
  )
  const last = rows[piece(rows.map(({ size }) => Number(size))) - 1]
  return last && { seq: Number(last.seq), id: String(last.id) }
}

/** Whose message it is: who has it, else where its link leads. What only tells how far a turn is, is not searched. */
async function documents(tx: Tx, condition: string, values: readonly Value[]): Promise<Document[]> {
  const { rows } = await run(
    tx,
    `select m.seq, m.id, m.jid, m.sender, m.created_at, m.content, coalesce(i.folder, m.target_folder) as folder
     from messages m left join inbox i on i.message_seq = m.seq
     where ${condition} and m.kind = 'message' order by m.seq`,
    values,
  )
  return rows.map(({ seq, id, jid, sender, created_at, content, folder }) => ({
    key: Number(seq),
    name: String(id),
    place: String(jid),
    path: folder === null || folder === undefined ? null : String(folder),
    author: String(sender),
    at: String(created_at),
    content: content instanceof Uint8Array ? content : new Uint8Array(),
  }))
}

/** A message is indexed when it is committed, and routed behind that. What is read now is routed as far as anything is. */
async function movedSince(tx: Tx, mark: Mark, seq: number): Promise<Pick<Filling, 'moved'> & { routed: number }> {
  const { rows: cursor } = await run(tx, 'select last_seq from routing where id = 1')
  const until = Math.min(Number(cursor[0]?.last_seq ?? 0), seq)
  if (until <= mark.routed) return { moved: [], routed: mark.routed }
  const { rows } = await run(
    tx,
    `select i.message_seq, coalesce(i.folder, m.target_folder) as folder from inbox i join messages m on m.seq = i.message_seq
     where i.message_seq > $1 and i.message_seq <= $2 order by i.message_seq limit ${MOVED}`,
    [mark.routed, Math.min(until, mark.seq)],
  )
  const moved = rows.map(({ message_seq, folder }) => ({
    key: Number(message_seq),
    path: folder === null || folder === undefined ? null : String(folder),
  }))
  return { moved, routed: rows.length < MOVED ? until : (moved.at(-1)?.key ?? until) }
}

async function changedSince(tx: Tx, mark: Mark): Promise<Pick<Filling, 'changed'> & { change: number }> {
  const { rows } = await run(
    tx,
    `select c.id, c.message_seq, length(m.content) as size from message_changes c join messages m on m.seq = c.message_seq
     where c.id > $1 order by c.id limit ${CHANGED}`,
    [mark.change],
  )
  const part = rows.slice(0, piece(rows.map(({ size }) => Number(size))))
  // What comes later is read with its change.
  const seqs = [...new Set(part.map((row) => Number(row.message_seq)))].filter((seq) => seq <= mark.seq)
  const marks = seqs.map((_, at) => `$${at + 1}`).join(', ')
  const changed = seqs.length === 0 ? [] : await documents(tx, `m.seq in (${marks})`, seqs)
  return { changed, change: Number(part.at(-1)?.id ?? mark.change) }
}
