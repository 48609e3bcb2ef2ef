// Messages as rows, in and out, in the order in which they were committed. The one key is that order: every further index
// would be paid for by each message that arrives, so chats and turns have tables of their own that point here.
import { z } from 'zod'
import type { Dialect, Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { Reach } from '../access/reach.ts'
import { Bytes, ChatName, Folder, line, multilineText, Timestamp } from '../values.ts'

/** `topic` of a message: absent is the main topic. */
export const Topic = multilineText(128).refine((value) => value !== '', 'must not be empty')

export const Message = z.object({
  seq: z.int().describe('The order of arrival'),
  id: z.string(),
  jid: ChatName,
  target_folder: Folder.optional().describe('Where a link delivers, so that it can be routed after a revoke'),
  direction: z.enum(['in', 'out']),
  kind: z.enum(['message', 'status']),
  sender: line(256),
  topic: Topic.optional(),
  turn_id: z.string().optional().describe('The round that it opened or belongs to'),
  link_context: multilineText(16_384).optional(),
  content: Bytes,
  content_type: z.string().optional(),
  idempotency_key: z.string().optional(),
  created_at: Timestamp,
  reach: Reach.optional().describe('What it may ask for; absent where its chat alone decides'),
  event: line(64).optional().describe('What happened, as a verified sender calls it'),
})
export type Message = z.output<typeof Message>

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
  ],
})

/** How far the messages are filed under their chats; also the line in which those stand who add some. */
export const filing = new Table({
  name: 'filing',
  row: z.object({ id: z.int(), last_seq: z.int() }),
  key: 'id',
  storage: [
    'create table filing (id integer primary key, last_seq bigint not null)',
    'insert into filing (id, last_seq) values (1, 0)',
  ],
})

/**
 * First in a transaction that adds messages. The number of a message is drawn before its commit: without a line, a
 * reader that has seen a later number would never look for an earlier one that is committed after it.
 *
 * There are two lines. A transaction that adds messages queues for `filing`; one that numbers events of chats, or moves
 * turns on, queues for `routing` first. So posts to links wait for one such transaction at most, and never for the claim
 * of a turn.
 */
export async function lockMessageOrder(tx: Tx, dialect: Dialect): Promise<void> {
  await lockTurnOrder(tx, dialect)
  await lockMessageNumbers(tx, dialect)
}

/** The same for a transaction that moves turns on, but neither adds messages nor files any. */
export function lockTurnOrder(tx: Tx, dialect: Dialect): Promise<void> {
  return standIn('routing', tx, dialect)
}

/** The same for a transaction that only adds messages. It must not file any, nor call `queueUp` later. */
export function lockMessageNumbers(tx: Tx, dialect: Dialect): Promise<void> {
  return standIn(filing.name, tx, dialect)
}

async function standIn(line: string, tx: Tx, dialect: Dialect): Promise<void> {
  const lockSql = dialect.lockTableSql(line)
  if (lockSql !== undefined) await execute(tx, lockSql)
}

/** A byte order mark is content like any other. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Content as text; what is no UTF-8 is shown as such, and the row keeps the bytes. */
export function decodeContent(content: Uint8Array): string {
  return decoder.decode(content)
}

/** SQL of the first bytes of a content. Of an empty one, SQLite's `substr` returns NULL. */
export function contentStart(bytes: number | string): string {
  return `coalesce(substr(m.content, 1, ${bytes}), m.content)`
}

/** What is read at once of contents that may each be large. */
const PIECE_BYTES = 512 * 1024

/** How many of these are a piece: as many as fit, and one in any case. */
export function batchLength(sizes: readonly number[]): number {
  let bytes = 0
  const over = sizes.findIndex((size) => {
    bytes += size
    return bytes > PIECE_BYTES
  })
  return over < 0 ? sizes.length : Math.max(1, over)
}
