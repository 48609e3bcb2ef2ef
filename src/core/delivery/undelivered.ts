// Messages to platforms that were not delivered: those that wait for their next attempt, and those that no attempt follows.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import { readCursor, writeCursor } from '../../store/cursor.ts'
import type { Tx } from '../../store/engine.ts'
import { integer, query, text } from '../../store/statement.ts'
import { platformOf } from './channel.ts'
import { OutboxRow, outbox } from './outbox.ts'

export const UndeliveredMessage = OutboxRow.pick({
  id: true,
  jid: true,
  topic: true,
  folder: true,
  turn_id: true,
  action: true,
  state: true,
  attempts: true,
  error: true,
  created_at: true,
  updated_at: true,
}).extend({ next_at: z.string().optional().describe('Earliest time of the next attempt; absent if there is none') })
export type UndeliveredMessage = z.output<typeof UndeliveredMessage>

/** `failed` has messages whose delivery is unclear, too: people decide whether to send them again. */
export const UndeliveredKind = z.enum(['waiting', 'failed'])
export type UndeliveredKind = z.output<typeof UndeliveredKind>

interface UndeliveredQuery {
  readonly kind: UndeliveredKind
  readonly limit: number
  readonly after?: string | undefined
}

/** The conditions repeat those of the indexes `outbox_open` and `outbox_not_sent`, so that they are used. */
const OPEN = `state in ('pending', 'sending')`
const NOT_SENT = `state in ('failed', 'unknown')`
const COLUMNS = outbox.columns.join(', ')

/** Waiting messages by their next attempt, failed ones newest first. */
export async function listUndelivered(
  tx: Tx,
  { kind, limit, after }: UndeliveredQuery,
): Promise<{ readonly rows: UndeliveredMessage[]; readonly next?: string }> {
  const [nextAt, seq] = readPosition(after, kind)
  const rows =
    kind === 'waiting'
      ? await query(
          tx,
          outbox.decode,
          `select ${COLUMNS} from outbox where ${OPEN} and next_at >= $1 and (next_at > $1 or message_seq > $2)
           order by next_at, message_seq limit $3`,
          [nextAt, seq, limit + 1],
        )
      : await query(
          tx,
          outbox.decode,
          `select ${COLUMNS} from outbox where ${NOT_SENT} and message_seq < $1 order by message_seq desc limit $2`,
          [seq, limit + 1],
        )
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  const next = last && rows.length > limit ? { next: writeCursor([last.next_at, last.message_seq]) } : {}
  return { rows: shown.map(toUndelivered), ...next }
}

function readPosition(after: string | undefined, kind: UndeliveredKind): readonly [nextAt: number, seq: number] {
  if (after === undefined) return kind === 'waiting' ? [0, 0] : [0, Number.MAX_SAFE_INTEGER]
  const { success, data } = z.tuple([z.int(), z.int()]).safeParse(readCursor(after))
  return success ? data : refuse('invalid', 'after is not a cursor of this list')
}

function toUndelivered(row: OutboxRow): UndeliveredMessage {
  const { id, jid, topic, folder, turn_id, action, state, attempts, error, created_at, updated_at, next_at } = row
  const isOpen = state === 'pending' || state === 'sending'
  return {
    ...{ id, jid, topic, folder, turn_id, action, state, attempts, error, created_at, updated_at },
    ...(isOpen ? { next_at: timestamp(next_at) } : {}),
  }
}

export interface UndeliveredCount {
  waiting: number
  failed: number
}

/** Messages of each kind that are counted, so that a long outage does not make the count slow. */
export const UNDELIVERED_COUNT_MAX = 1000

/** By platform: of the next waiting messages and of the latest failed ones. */
export async function countUndelivered(tx: Tx): Promise<ReadonlyMap<string, UndeliveredCount>> {
  const counts = new Map<string, UndeliveredCount>()
  const add = (rows: readonly { readonly jid: string }[], kind: UndeliveredKind): void => {
    for (const { jid } of rows) {
      const count = counts.get(platformOf(jid)) ?? { waiting: 0, failed: 0 }
      count[kind]++
      counts.set(platformOf(jid), count)
    }
  }
  const limit = [UNDELIVERED_COUNT_MAX]
  add(
    await query(tx, { jid: text }, `select jid from outbox where ${OPEN} order by next_at limit $1`, limit),
    'waiting',
  )
  const failed = await query(
    tx,
    { jid: text, message_seq: integer },
    `select jid, message_seq from outbox where ${NOT_SENT} order by message_seq desc limit $1`,
    limit,
  )
  add(failed, 'failed')
  return counts
}
