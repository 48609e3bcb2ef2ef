// Adds the files of chats to the message rows of a prompt. A run can read those of its own chat; others are only named.
import { join } from 'node:path'
import type { Tx } from '../../store/engine.ts'
import { integer, placeholders, query, text } from '../../store/statement.ts'
import { type ChatFile, readFilesOfMessages, storedFileName } from '../files/chat-files.ts'
import type { Turn } from '../turns/turns.ts'
import type { PromptAttachment, PromptRow } from './prompt.ts'

/** A file with its path as the run sees it; undefined if it is in another chat or of another folder. */
export type VisibleFile = ChatFile & { readonly path: string | undefined }

interface RunPlace {
  readonly turn: Pick<Turn, 'folder' | 'jid'>
  /** The directory with the files of the turn's chat, as the run sees it. */
  readonly path: string
}

export async function attachChatFiles(
  tx: Tx,
  { turn, path }: RunPlace,
  rows: readonly PromptRow[],
): Promise<{ rows: PromptRow[]; filesOf: ReadonlyMap<number, readonly VisibleFile[]> }> {
  const asked = await findAskingMessages(tx, rows)
  const seqs = rows.flatMap(({ seq, replyTo }) => (replyTo?.seq === undefined ? [seq] : [seq, replyTo.seq]))
  const found = await readFilesOfMessages(tx, [...new Set([...seqs, ...[...asked.values()].flat()])])
  const toVisible = (file: ChatFile): VisibleFile => {
    const isOwn = file.folder === turn.folder && file.jid === turn.jid
    return { ...file, path: isOwn ? join(path, storedFileName(file)) : undefined }
  }
  const filesOf = new Map([...found].map(([seq, files]) => [seq, files.map(toVisible)] as const))
  if (found.size === 0) return { rows: [...rows], filesOf }
  const attached = (seq: number | undefined): PromptAttachment[] => filesOf.get(seq ?? 0)?.map(toAttachment) ?? []
  const withFiles = (row: PromptRow): PromptRow => {
    const { replyTo } = row
    const named = (asked.get(row.fromTurn ?? '') ?? []).flatMap(attached)
    const attachments = [...(row.attachments ?? []), ...attached(row.seq), ...named.map(withoutContent)]
    return { ...row, attachments, replyTo: replyTo && { ...replyTo, attachments: attached(replyTo.seq) } }
  }
  return { rows: rows.map(withFiles), filesOf }
}

function toAttachment({ path, type, name, transcript }: VisibleFile): PromptAttachment {
  return { path, mime: type, filename: name, transcript }
}

/** The agent that delegates a question decides which words of the visitor it passes on. */
function withoutContent({ mime, filename }: PromptAttachment): PromptAttachment {
  return { mime, filename }
}

/** The messages of the turns in which other agents asked the questions of these rows, by turn. */
async function findAskingMessages(tx: Tx, rows: readonly PromptRow[]): Promise<ReadonlyMap<string, number[]>> {
  const ids = [...new Set(rows.flatMap(({ fromTurn }) => fromTurn ?? []))]
  if (ids.length === 0) return new Map()
  const found = await query(
    tx,
    { turn_id: text, message_seq: integer },
    `select turn_id, message_seq from inbox where turn_id in (${placeholders(ids.length)}) order by message_seq`,
    ids,
  )
  const byTurn = Map.groupBy(found, ({ turn_id }) => turn_id)
  return new Map([...byTurn].map(([id, each]) => [id, each.map(({ message_seq }) => message_seq)]))
}
