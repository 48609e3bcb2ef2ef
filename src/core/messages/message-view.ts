// Messages of a chat as tools show them: which rows a page has, what is known of each, and how much of its content.
import { isUtf8 } from 'node:buffer'
import type { Tx } from '../../store/engine.ts'
import { bytes, type DecodedRow, integer, optional, placeholders, query, text } from '../../store/statement.ts'
import { contentStart, decodeContent } from './messages.ts'

export interface MessageView {
  readonly id: string
  readonly platform_id?: string
  readonly chat_jid: string
  readonly direction: 'in' | 'out'
  readonly sender: string
  readonly sender_name?: string
  readonly content: string
  /** Bytes that are no text are shown as U+FFFD. */
  readonly invalid_utf8?: true
  readonly deleted?: true
  readonly timestamp: string
  readonly topic?: string
  readonly verb?: string
  readonly reply_to_id?: string
  readonly turn_id?: string
  /** Of what came in how it ended, of what was said how far its sending is. */
  readonly status: string
  readonly error?: string
}

/** Of all contents together, as bytes of JSON: an answer holds them twice, once within a text. */
export const CONTENTS_MAX = 288 * 1024

/** The messages of these numbers, in their order. */
export async function viewMessages(tx: Tx, seqs: readonly number[]): Promise<MessageView[]> {
  if (seqs.length === 0) return []
  const marks = placeholders(seqs.length)
  const sizes = await query(
    tx,
    { size: integer },
    `select length(content) as size from messages where seq in (${marks})`,
    seqs,
  )
  const share = shareOf(sizes.map(({ size }) => size))
  const rows = await query(tx, VIEW, viewSql(seqs.length + 1, marks), [...seqs, share])
  const bySeq = new Map(rows.map((row) => [row.seq, row]))
  const heads = seqs.map((seq) => bySeq.get(seq)).filter((row) => row !== undefined)
  const shown = heads.map(contentOf)
  const most = shareOf(shown.map(({ content }) => jsonBytes(content)))
  return heads.map((row, at) => view(row, shown[at] ?? { content: '', left: 0 }, most))
}

/** Of a content no more is read than can be shown. */
const viewSql = (
  share: number,
  seqs: string,
): string => `select m.seq, m.id, m.jid, m.direction, m.sender, m.topic, m.turn_id, m.created_at,
    ${contentStart(`cast($${share} as integer)`)} as head, length(m.content) as size,
    e.platform_id, e.sender_name, e.reply_to_id, coalesce(i.verb, e.verb) as verb,
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
  head: bytes,
  size: integer,
  platform_id: optional(text),
  sender_name: optional(text),
  reply_to_id: optional(text),
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

/** `left`: how many bytes of the message are not shown. */
interface Shown {
  readonly content: string
  readonly left: number
  readonly isInvalid?: true
}

function contentOf({ head, size }: Row): Shown {
  const part = size > head.byteLength ? wholeCharacters(head) : head
  return {
    content: decodeContent(part),
    left: size - part.byteLength,
    ...(isUtf8(part) ? {} : { isInvalid: true as const }),
  }
}

/** Without the beginning of a character at its end. */
function wholeCharacters(bytes: Uint8Array): Uint8Array {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0
    if (byte < 0x80) break
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 0
    if (length > 0) return length > back ? bytes.subarray(0, bytes.length - back) : bytes
  }
  return bytes
}

function view(row: Row, { content, left, isInvalid }: Shown, most: number): MessageView {
  const isIn = row.direction === 'in'
  const status = isIn ? (row.inbox_state ?? 'received') : (row.outbox_state ?? 'sent')
  const fault = isIn ? (['failed', 'refused'].includes(status) ? row.reason : undefined) : row.error
  return {
    id: row.id,
    ...named('platform_id', row.platform_id ?? row.sent_id),
    chat_jid: row.jid,
    direction: isIn ? 'in' : 'out',
    sender: row.sender,
    ...named('sender_name', row.sender_name),
    content: abridged(content, left, most),
    ...(isInvalid ? { invalid_utf8: true } : {}),
    ...(row.deleted === undefined ? {} : { deleted: true }),
    timestamp: row.created_at,
    ...named('topic', row.topic),
    ...named('verb', row.verb),
    ...named('reply_to_id', row.reply_to_id),
    ...named('turn_id', row.inbox_turn ?? row.turn_id),
    status,
    ...named('error', fault),
  }
}

function named<N extends string>(name: N, value: string | undefined): { [K in N]?: string } {
  // One member whose name is a parameter, which TypeScript widens to any text.
  return (value === undefined ? {} : { [name]: value }) as { [K in N]?: string }
}

/** How long a content may be: long ones give way to short ones, down to the same length for all of them. */
function shareOf(lengths: readonly number[]): number {
  let room = CONTENTS_MAX
  for (const [index, length] of lengths.toSorted((a, b) => a - b).entries()) {
    const share = Math.floor(room / (lengths.length - index))
    if (length > share) return share
    room -= length
  }
  return CONTENTS_MAX
}

function abridged(content: string, left: number, most: number): string {
  const said = (kept: string, more: number): string => (more === 0 ? kept : `${kept}… [${more} more bytes]`)
  if (jsonBytes(content) <= most) return said(content, left)
  let [at, bytes] = [0, 0]
  for (const character of content) {
    bytes += jsonBytes(character)
    if (bytes > most) break
    at += character.length
  }
  return said(content.slice(0, at), left + Buffer.byteLength(content.slice(at)))
}

function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2
}
