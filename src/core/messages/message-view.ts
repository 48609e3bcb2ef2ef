// Messages of a chat as tools show them, with contents shortened to fit into one response.
import { isUtf8 } from 'node:buffer'
import type { Tx } from '../../store/engine.ts'
import { bytes, type DecodedRow, flag, integer, optional, placeholders, query, text } from '../../store/statement.ts'
import { readFilesOfMessages } from '../files/chat-files.ts'
import { contentStart, decodeContent, fairShare } from './messages.ts'

export interface MessageView {
  readonly id: string
  readonly platform_id?: string
  readonly chat_jid: string
  readonly direction: 'in' | 'out'
  readonly sender: string
  readonly sender_name?: string
  readonly content: string
  /** Set if the content is not UTF-8: invalid bytes are shown as U+FFFD. */
  readonly invalid_utf8?: true
  readonly edited?: true
  readonly deleted?: true
  /** The start of an answer that was stopped. */
  readonly partial?: true
  readonly timestamp: string
  readonly topic?: string
  readonly verb?: string
  readonly reply_to_id?: string
  readonly turn_id?: string
  /** State of the inbox row, or of the outbox row for a sent message. */
  readonly status: string
  readonly error?: string
  /** Names of its files. */
  readonly files?: readonly string[]
}

/** Bytes of all contents together, as JSON. A tool's response contains them twice, once within a text. */
const CONTENTS_MAX = 288 * 1024

/** Returns the messages in the order of `seqs`. */
export async function viewMessages(tx: Tx, seqs: readonly number[]): Promise<MessageView[]> {
  if (seqs.length === 0) return []
  const marks = placeholders(seqs.length)
  const sizes = await query(
    tx,
    { size: integer },
    `select length(content) as size from messages where seq in (${marks})`,
    seqs,
  )
  const bytesMax = fairShare(
    CONTENTS_MAX,
    sizes.map(({ size }) => size),
  )
  const rows = await query(tx, VIEW, viewSql(seqs.length + 1, marks), [...seqs, bytesMax])
  const bySeq = new Map(rows.map((row) => [row.seq, { row, content: decodeHead(row) }]))
  const found = seqs.map((seq) => bySeq.get(seq)).filter((each) => each !== undefined)
  const jsonMax = fairShare(
    CONTENTS_MAX,
    found.map(({ content }) => jsonBytes(content.text)),
  )
  const files = await readFilesOfMessages(tx, seqs)
  return found.map(({ row, content }) => {
    const names = files.get(row.seq)?.map(({ name }) => name)
    return { ...toView(row, content, jsonMax), ...(names ? { files: names } : {}) }
  })
}

/** Reads no more of a content than can be shown. */
const viewSql = (
  bytesMax: number,
  seqs: string,
): string => `select m.seq, m.id, m.jid, m.direction, m.sender, m.topic, m.turn_id, m.created_at, m.is_partial,
    ${contentStart(`cast($${bytesMax} as integer)`)} as head, length(m.content) as size,
    e.platform_id, e.sender_name, e.reply_to_id, e.edited_at, coalesce(i.verb, e.verb) as verb,
    i.state as inbox_state, i.reason, i.turn_id as inbox_turn, o.state as outbox_state, o.error, o.platform_id as sent_id,
    (select max(c.id) from message_changes c where c.message_seq = m.seq and c.kind = 'deleted') as deleted
  from messages m left join envelopes e on e.message_seq = m.seq left join inbox i on i.message_seq = m.seq
    left join outbox o on o.message_seq = m.seq
  where m.seq in (${seqs})`

const VIEW = {
  seq: integer,
  id: text,
  jid: text,
  direction: text,
  sender: text,
  topic: optional(text),
  turn_id: optional(text),
  created_at: text,
  is_partial: optional(flag),
  head: bytes,
  size: integer,
  platform_id: optional(text),
  sender_name: optional(text),
  reply_to_id: optional(text),
  edited_at: optional(text),
  verb: optional(text),
  inbox_state: optional(text),
  reason: optional(text),
  inbox_turn: optional(text),
  outbox_state: optional(text),
  error: optional(text),
  sent_id: optional(text),
  deleted: optional(integer),
}
type Row = DecodedRow<typeof VIEW>

interface ContentHead {
  readonly text: string
  /** Bytes of the message that were not read. */
  readonly unreadBytes: number
  readonly isUtf8: boolean
}

function decodeHead({ head, size }: Row): ContentHead {
  const part = size > head.byteLength ? trimPartialCharacter(head) : head
  return { text: decodeContent(part), unreadBytes: size - part.byteLength, isUtf8: isUtf8(part) }
}

/** Removes an incomplete UTF-8 character from the end. */
function trimPartialCharacter(bytes: Uint8Array): Uint8Array {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0
    if (byte < 0x80) break
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 0
    if (length > 0) return length > back ? bytes.subarray(0, bytes.length - back) : bytes
  }
  return bytes
}

function toView(row: Row, head: ContentHead, jsonMax: number): MessageView {
  const isIn = row.direction === 'in'
  const status = isIn ? (row.inbox_state ?? 'received') : (row.outbox_state ?? 'sent')
  const fault = isIn ? (['failed', 'refused'].includes(status) ? row.reason : undefined) : row.error
  return {
    id: row.id,
    ...ifDefined('platform_id', row.platform_id ?? row.sent_id),
    chat_jid: row.jid,
    direction: isIn ? 'in' : 'out',
    sender: row.sender,
    ...ifDefined('sender_name', row.sender_name),
    content: truncate(head, jsonMax),
    ...(head.isUtf8 ? {} : { invalid_utf8: true }),
    ...(row.edited_at === undefined ? {} : { edited: true }),
    ...(row.deleted === undefined ? {} : { deleted: true }),
    ...(row.is_partial ? { partial: true } : {}),
    timestamp: row.created_at,
    ...ifDefined('topic', row.topic),
    ...ifDefined('verb', row.verb),
    ...ifDefined('reply_to_id', row.reply_to_id),
    ...ifDefined('turn_id', row.inbox_turn ?? row.turn_id),
    status,
    ...ifDefined('error', fault),
  }
}

function ifDefined<N extends string>(name: N, value: string | undefined): { [K in N]?: string } {
  // TypeScript widens a computed member name to string.
  return (value === undefined ? {} : { [name]: value }) as { [K in N]?: string }
}

function truncate({ text, unreadBytes }: ContentHead, jsonMax: number): string {
  const withNote = (kept: string, more: number): string => (more === 0 ? kept : `${kept}… [${more} more bytes]`)
  if (jsonBytes(text) <= jsonMax) return withNote(text, unreadBytes)
  let [at, bytes] = [0, 0]
  for (const character of text) {
    bytes += jsonBytes(character)
    if (bytes > jsonMax) break
    at += character.length
  }
  return withNote(text.slice(0, at), unreadBytes + Buffer.byteLength(text.slice(at)))
}

function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2
}
