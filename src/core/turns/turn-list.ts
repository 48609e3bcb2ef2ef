// Turns as people see them: newest first, with the beginning of their last message, their cost and their current step.
import { z } from 'zod'
import type { Tx, Value } from '../../store/engine.ts'
import {
  bytes,
  type DecodedRow,
  flag,
  integer,
  oneOf,
  optional,
  query,
  queryForValues,
  text,
} from '../../store/statement.ts'
import { contentStart, decodeContent } from '../messages/messages.ts'
import { IS_OPEN } from './turn-rules.ts'
import { Turn } from './turns.ts'

export const TurnOutcome = z.enum(['answered', 'silent', 'failed', 'refused'])

export const TurnSummary = Turn.pick({
  id: true,
  folder: true,
  topic: true,
  jid: true,
  sender: true,
  state: true,
  outcome: true,
  reason: true,
  attempts: true,
  run_after: true,
  replies: true,
  message_count: true,
  is_stopping: true,
  task_id: true,
  started_at: true,
  ended_at: true,
}).extend({
  text: z.string().describe('Beginning of its last message; empty if that was removed'),
  cost_cents: z.int(),
})
export type TurnSummary = z.output<typeof TurnSummary>

export interface TurnListRequest {
  /** Undefined: all folders. */
  readonly folders?: readonly string[] | undefined
  readonly state?: Turn['state'] | undefined
  readonly outcome?: z.output<typeof TurnOutcome> | undefined
  /** Only turns with a smaller id. */
  readonly before?: string | undefined
  readonly limit: number
}

/** Turns have the ids of messages, so the newest have the highest. */
export async function listTurns(tx: Tx, request: TurnListRequest): Promise<TurnSummary[]> {
  const { folders, limit } = request
  const found = folders === undefined ? await listIds(tx, request) : await listIdsOfFolders(tx, request, folders)
  return readSummaries(tx, found.toSorted().toReversed().slice(0, limit))
}

/** Repeats the conditions of the partial indexes, so that SQLite uses them. */
function conditionsOf({ state, outcome, before }: TurnListRequest): {
  readonly sql: string[]
  readonly values: Value[]
} {
  const sql = [
    ...(state === undefined ? [] : state === 'done' ? [`state = 'done'`] : [IS_OPEN, `state = '${state}'`]),
    ...(outcome === undefined ? [] : [`outcome = '${outcome}'`]),
    ...(outcome === undefined || outcome === 'answered' ? [] : [`outcome <> 'answered'`]),
    ...(before === undefined ? [] : ['id < $1']),
  ]
  return { sql, values: before === undefined ? [] : [before] }
}

const ID = { id: text }

/** Open turns are few: SQLite must find them by their index, and not read all turns in the order of their ids. */
const UNINDEXED_ID = `id || ''`

function orderOf({ state }: TurnListRequest): string {
  return state === undefined || state === 'done' ? 'id' : UNINDEXED_ID
}

async function listIds(tx: Tx, request: TurnListRequest): Promise<string[]> {
  const { sql, values } = conditionsOf(request)
  const where = sql.length === 0 ? '' : `where ${sql.join(' and ')}`
  const rows = await query(
    tx,
    ID,
    `select id from turns ${where} order by ${orderOf(request)} desc limit ${request.limit}`,
    values,
  )
  return rows.map(({ id }) => id)
}

/** The index of a folder's turns is on an expression; open and unanswered turns have their own. */
function folderColumn({ state, outcome }: TurnListRequest): string {
  const isOpen = state !== undefined && state !== 'done'
  const isUnanswered = outcome !== undefined && outcome !== 'answered'
  return isOpen || isUnanswered ? 'folder' : `(folder || '')`
}

/** One index range for each folder: rows of a range over all of them would have to be sorted. */
async function listIdsOfFolders(tx: Tx, request: TurnListRequest, folders: readonly string[]): Promise<string[]> {
  const { sql, values } = conditionsOf(request)
  const newestOf = (mark: string): string =>
    `select id from (select id from turns where ${[`${folderColumn(request)} = ${mark}`, ...sql].join(' and ')}
       order by ${orderOf(request)} desc limit ${request.limit}) as newest`
  const unionOf = (marks: string): string => marks.split(', ').map(newestOf).join(' union ')
  return (await queryForValues(tx, ID, folders, unionOf, values)).map(({ id }) => id)
}

const SUMMARY = {
  id: text,
  folder: text,
  topic: text,
  jid: text,
  sender: text,
  state: oneOf(Turn.shape.state.options),
  outcome: optional(text),
  reason: optional(text),
  attempts: integer,
  run_after: integer,
  replies: integer,
  message_count: integer,
  is_stopping: flag,
  task_id: optional(text),
  started_at: text,
  ended_at: optional(text),
  content: optional(bytes),
  cost_cents: integer,
}
const TEXT_BYTES = 300
const TURN_COLUMNS = Object.keys(SUMMARY).filter((name) => name in Turn.shape)

/** In the order of the ids. */
async function readSummaries(tx: Tx, ids: readonly string[]): Promise<TurnSummary[]> {
  const rows = await queryForValues(
    tx,
    SUMMARY,
    ids,
    (marks) => `select ${TURN_COLUMNS.map((name) => `t.${name}`).join(', ')}, ${contentStart(TEXT_BYTES)} as content,
       (select cast(coalesce(sum(c.cost_cents), 0) as bigint) from cost_log c
        where c.folder = t.folder and c.turn_id = t.id) as cost_cents
     from turns t left join messages m on m.seq = t.last_seq where t.id in (${marks})`,
  )
  const byId = new Map(rows.map((row) => [row.id, row]))
  return ids.flatMap((id) => {
    const row = byId.get(id)
    return row ? [toSummary(row)] : []
  })
}

function toSummary({ content, outcome, reason, task_id, ended_at, ...row }: DecodedRow<typeof SUMMARY>): TurnSummary {
  return {
    ...row,
    ...(outcome === undefined ? {} : { outcome }),
    ...(reason === undefined ? {} : { reason }),
    ...(task_id === undefined ? {} : { task_id }),
    ...(ended_at === undefined ? {} : { ended_at }),
    // `substr` may have split the last character.
    text: content === undefined ? '' : decodeContent(content).replace(/\ufffd$/, ''),
  }
}

/** Turns that have not ended, oldest first. Their number is bounded by the settings of the instance, except for retries. */
export async function listOpenTurns(
  tx: Tx,
  folders: readonly string[] | undefined,
  limit: number,
): Promise<TurnSummary[]> {
  const sql = (only: string): string =>
    `select id from turns where ${IS_OPEN}${only} order by ${UNINDEXED_ID} limit ${limit}`
  const rows =
    folders === undefined
      ? await query(tx, ID, sql(''))
      : await queryForValues(tx, ID, folders, (marks) => sql(` and folder in (${marks})`))
  return readSummaries(tx, [...new Set(rows.map(({ id }) => id))].sort().slice(0, limit))
}

export interface ListedTurnMessage {
  readonly id: string
  readonly created_at: string
  readonly sender: string
  readonly state: string
  readonly reason?: string | undefined
  readonly text: string
}

const MESSAGES_MAX = 100
const MESSAGE_BYTES = 4000
const MESSAGE = { id: text, created_at: text, sender: text, state: text, reason: optional(text), content: bytes }

/** The first messages that a turn handles, oldest first. */
export async function listTurnMessages(tx: Tx, turn_id: string): Promise<ListedTurnMessage[]> {
  const rows = await query(
    tx,
    MESSAGE,
    `select m.id, m.created_at, m.sender, i.state, i.reason, ${contentStart(MESSAGE_BYTES)} as content
     from inbox i join messages m on m.seq = i.message_seq where i.turn_id = $1 order by i.message_seq limit ${MESSAGES_MAX}`,
    [turn_id],
  )
  return rows.map(({ content, ...row }) => ({ ...row, text: decodeContent(content).replace(/\ufffd$/, '') }))
}

/** The last message that a turn has sent so far. */
export async function findLastAnswer(
  tx: Tx,
  turn_id: string,
): Promise<{ readonly kind: string; readonly created_at: string; readonly text: string } | undefined> {
  const [last] = await query(
    tx,
    { kind: text, created_at: text, content: bytes },
    `select m.kind, o.created_at, ${contentStart(TEXT_BYTES)} as content from outbox o
     join messages m on m.seq = o.message_seq where o.turn_id = $1 order by o.message_seq desc limit 1`,
    [turn_id],
  )
  if (!last) return undefined
  const { content, ...answer } = last
  return { ...answer, text: decodeContent(content).replace(/\ufffd$/, '') }
}

/** Ids of turns with this prefix. */
export async function listTurnIdsWithPrefix(tx: Tx, prefix: string, limit: number): Promise<string[]> {
  // U+10FFFF is the last code point.
  const range = [prefix, `${prefix}\u{10ffff}`]
  const rows = await query(tx, ID, `select id from turns where id >= $1 and id < $2 order by id limit ${limit}`, range)
  return rows.map(({ id }) => id)
}
