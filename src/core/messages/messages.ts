// Messages, received and sent, numbered in commit order. That number is the only index, because every further one slows
// down each append; chats and turns have tables of their own that refer to it.
import { z } from 'zod'
import type { Dialect, Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { Reach } from '../access/reach.ts'
import { Bytes, ChatName, Folder, line, multilineText, Timestamp } from '../values.ts'

/** Absent for the main topic. */
export const Topic = multilineText(128).refine((value) => value !== '', 'must not be empty')

const Earlier = z.object({ role: z.enum(['user', 'assistant', 'tool']), content: z.string() })
export type EarlierMessage = z.output<typeof Earlier>

/** What the client of a link sent beside a message; see client-context.ts. */
export const ClientContext = z.object({
  system: z.string().optional(),
  is_system_cut: z.literal(true).optional(),
  history: z.array(Earlier).optional().describe('Oldest first'),
  is_history_cut: z.literal(true).optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
})
export type ClientContext = z.output<typeof ClientContext>

export const Message = z.object({
  seq: z.int().describe('Order of arrival'),
  id: z.string(),
  jid: ChatName,
  target_folder: Folder.optional().describe('Target of its link, so that it can be routed after the link is revoked'),
  direction: z.enum(['in', 'out']),
  kind: z.enum(['message', 'status']),
  sender: line(256),
  topic: Topic.optional(),
  turn_id: z.string().optional().describe('Round that it opened or belongs to'),
  link_context: multilineText(16_384).optional(),
  content: Bytes,
  content_type: z.string().optional(),
  idempotency_key: z.string().optional(),
  created_at: Timestamp,
  reach: Reach.optional().describe('Absent: the default of its chat'),
  event: line(64).optional().describe('Event name given by a verified sender'),
  is_partial: z.boolean().optional().describe('The start of an answer that was stopped'),
  client_context: ClientContext.optional(),
})
export type Message = z.output<typeof Message>

/** Prompts of scheduled tasks in chats of links are hidden from readers of the chat; the agent's replies are not. */
export function isTaskPrompt({ jid, direction, sender }: Pick<Message, 'jid' | 'direction' | 'sender'>): boolean {
  return direction === 'in' && jid.startsWith('web:') && /^timed(-isolated:|$)/.test(sender)
}

/** The same as SQL, for a row of `messages`. */
export const isTaskPromptSql = (row: string): string =>
  `(${row}.direction = 'in' and ${row}.jid like 'web:%' and (${row}.sender = 'timed' or ${row}.sender like 'timed-isolated:%'))`

export const messages = new Table({
  name: 'messages',
  row: Message,
  key: 'seq',
  storage: [
    ({ counter }) =>
      `create table messages (
         seq ${counter}, id text not null, jid text not null, target_folder text, direction text not null,
         kind text not null, sender text not null, topic text, turn_id text, link_context text,
         content bytea not null, content_type text, idempotency_key text, created_at text not null)`,
    'alter table messages add column reach text',
    'alter table messages add column event text',
    'alter table messages add column is_partial boolean',
    'alter table messages add column client_context text',
  ],
})

/**
 * All messages up to `last_seq` are in `chat_events`. Chats that are gone had event numbers up to `forgotten_seq`. Also the lock
 * for transactions that add messages.
 */
export const filing = new Table({
  name: 'filing',
  row: z.object({ id: z.int(), last_seq: z.int(), forgotten_seq: z.int() }),
  key: 'id',
  storage: [
    'create table filing (id integer primary key, last_seq bigint not null)',
    'insert into filing (id, last_seq) values (1, 0)',
    'alter table filing add column forgotten_seq bigint not null default 0',
  ],
})

/** SQL: the number before the first event of a chat that has none. */
export const BEFORE_FIRST_EVENT = '(select forgotten_seq from filing where id = 1)'

/**
 * Call first in a transaction that adds messages. Postgres assigns `seq` before the commit: without a lock, a reader that
 * has seen a later number would miss an earlier one that is committed after it.
 *
 * There are two locks. Transactions that only add messages take `filing`; those that number chat events or change turns
 * take `routing` first. So a post to a link waits for at most one such transaction, and never for the claim of a turn.
 */
export async function lockMessageOrder(tx: Tx, dialect: Dialect): Promise<void> {
  await lockTurnOrder(tx, dialect)
  await lockMessageNumbers(tx, dialect)
}

/** For transactions that change turns, but neither add messages nor number chat events. */
export function lockTurnOrder(tx: Tx, dialect: Dialect): Promise<void> {
  return lockTable('routing', tx, dialect)
}

/** For transactions that only add messages. They must not number chat events, nor call `lockMessageOrder` later. */
export function lockMessageNumbers(tx: Tx, dialect: Dialect): Promise<void> {
  return lockTable(filing.name, tx, dialect)
}

async function lockTable(table: string, tx: Tx, dialect: Dialect): Promise<void> {
  const lockSql = dialect.lockTableSql(table)
  if (lockSql !== undefined) await execute(tx, lockSql)
}

/** Keeps a byte order mark. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Invalid UTF-8 becomes U+FFFD; the row keeps the bytes. */
export function decodeContent(content: Uint8Array): string {
  return decoder.decode(content)
}

/** SQL for the first bytes of a content. In SQLite `substr` of an empty blob is null. */
export function contentStart(bytes: number | string): string {
  return `coalesce(substr(m.content, 1, ${bytes}), m.content)`
}

/** Contents read in one batch, as each may be large. */
const BATCH_BYTES = 512 * 1024

/** How many of these contents fit into one batch; at least one. */
export function batchLength(sizes: readonly number[]): number {
  let bytes = 0
  const over = sizes.findIndex((size) => {
    bytes += size
    return bytes > BATCH_BYTES
  })
  return over < 0 ? sizes.length : Math.max(1, over)
}

/** The maximum length of one content so that all fit into `total`: long contents share equally what short ones leave. */
export function fairShare(total: number, lengths: readonly number[]): number {
  let remaining = total
  for (const [index, length] of lengths.toSorted((a, b) => a - b).entries()) {
    const share = Math.floor(remaining / (lengths.length - index))
    if (length > share) return share
    remaining -= length
  }
  return total
}
