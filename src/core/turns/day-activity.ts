// The last 24 hours in numbers, one entry per hour. Everything is read from index ranges of that time, and at most a fixed
// number of rows per hour, so neither a long history nor a busy day makes it slow.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import type { Tx, Value } from '../../store/engine.ts'
import { integer, optional, placeholders, query, queryOne, text } from '../../store/statement.ts'
import { firstIdAt } from '../messages/id-times.ts'

export const HOURS_SHOWN = 24
const HOUR_MS = 3_600_000
/** An hour with more messages or turns is reported with this number. */
export const HOUR_COUNT_MAX = 10_000
/** Turns of an hour whose duration is read. */
const SAMPLE_MAX = 200

export const HourActivity = z.object({
  hour: z.string().describe('Start of the hour'),
  messages: z.int().describe(`Messages that arrived, ${HOUR_COUNT_MAX} if more`),
  turns: z.int().describe(`Turns, by the arrival of their last message, ${HOUR_COUNT_MAX} if more`),
  cost_cents: z.int(),
  p50_ms: z.int().optional().describe('Median duration of the turns; absent without one that ended'),
  p95_ms: z.int().optional(),
})
export type HourActivity = z.output<typeof HourActivity>

export async function readDayActivity(
  tx: Tx,
  folders: readonly string[] | undefined,
  now: number,
): Promise<HourActivity[]> {
  const last = Math.floor(now / HOUR_MS) * HOUR_MS
  const starts = Array.from({ length: HOURS_SHOWN }, (_, at) => last - (HOURS_SHOWN - 1 - at) * HOUR_MS)
  const [messages, turns] = [await countMessages(tx, folders, starts), await countTurns(tx, folders, starts)]
  const costs = await sumCosts(tx, folders, timestamp(starts[0] ?? last))
  const durations = await sampleDurations(tx, folders, starts)
  return starts.map((start, at) => {
    const hour = timestamp(start)
    const sorted = (durations.get(at) ?? []).toSorted((a, b) => a - b)
    const [p50_ms, p95_ms] = [percentile(sorted, 50), percentile(sorted, 95)]
    return {
      hour,
      messages: messages[at] ?? 0,
      turns: turns[at] ?? 0,
      cost_cents: costs.get(hour.slice(0, 13)) ?? 0,
      ...(p50_ms === undefined ? {} : { p50_ms }),
      ...(p95_ms === undefined ? {} : { p95_ms }),
    }
  })
}

/** The nearest rank. */
export function percentile(sorted: readonly number[], percent: number): number | undefined {
  return sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)]
}

/** Ids of one moment are not in the order of the messages, so the smallest number of several is taken. */
const firstSeqSql = (mark: string): string => `(select min(message_seq) from
  (select message_seq from inbox where id >= ${mark} order by id limit 100) as first_ones)`

/** The number of the first message since this time; undefined if none has arrived since. */
export async function firstInboxSeqSince(tx: Tx, ms: number): Promise<number | undefined> {
  return (await queryOne(tx, { seq: optional(integer) }, `select ${firstSeqSql('$1')} as seq`, [firstIdAt(ms)])).seq
}

/** Counts rows in consecutive ranges of a column; `bounds` has one value more than there are ranges. */
async function countRanges(
  tx: Tx,
  { table, column, folders }: { table: string; column: string; folders: readonly string[] | undefined },
  bounds: readonly Value[],
): Promise<number[]> {
  const only = folders === undefined ? '' : ` and folder in (${placeholders(folders.length, bounds.length)})`
  const names = bounds.slice(1).map((_, at) => `n${at}`)
  const counts = names.map(
    (name, at) => `(select count(*) from (select 1 as one from ${table}
       where ${column} >= $${at + 1} and ${column} < $${at + 2}${only} limit ${HOUR_COUNT_MAX}) as ranged) as ${name}`,
  )
  const schema = Object.fromEntries(names.map((name) => [name, integer]))
  const row = await queryOne(tx, schema, `select ${counts.join(', ')}`, [...bounds, ...(folders ?? [])])
  return names.map((name) => row[name] ?? 0)
}

/** Folders have no index by id in the inbox, so the hours become ranges of message numbers. */
async function countMessages(
  tx: Tx,
  folders: readonly string[] | undefined,
  starts: readonly number[],
): Promise<number[]> {
  if (folders?.length === 0) return []
  const names = starts.map((_, at) => `s${at}`)
  const firsts = names.map((name, at) => `${firstSeqSql(`$${at + 1}`)} as ${name}`)
  const schema = Object.fromEntries(names.map((name) => [name, optional(integer)]))
  const row = await queryOne(tx, schema, `select ${firsts.join(', ')}`, starts.map(firstIdAt))
  // An hour without a message ends where the next one starts; the last ends with all messages.
  const bounds: number[] = [Number.MAX_SAFE_INTEGER]
  for (const name of names.toReversed()) bounds.unshift(Math.min(row[name] ?? Number.MAX_SAFE_INTEGER, bounds[0] ?? 0))
  return countRanges(tx, { table: 'inbox', column: 'message_seq', folders }, bounds)
}

async function countTurns(
  tx: Tx,
  folders: readonly string[] | undefined,
  starts: readonly number[],
): Promise<number[]> {
  if (folders?.length === 0) return []
  return countRanges(tx, { table: 'turns', column: 'id', folders }, idBounds(starts))
}

function idBounds(starts: readonly number[]): string[] {
  return [...starts, (starts.at(-1) ?? 0) + HOUR_MS].map(firstIdAt)
}

/** By hour, as `2026-01-31T09`. */
async function sumCosts(
  tx: Tx,
  folders: readonly string[] | undefined,
  since: string,
): Promise<ReadonlyMap<string, number>> {
  if (folders?.length === 0) return new Map()
  const only = folders === undefined ? '' : ` and folder || '' in (${placeholders(folders.length, 1)})`
  // The folder is an expression, so that SQLite uses the index of the time and not the folder's whole history.
  const rows = await query(
    tx,
    { hour: text, cents: integer },
    `select substr(recorded_at, 1, 13) as hour, cast(sum(cost_cents) as bigint) as cents from cost_log
     where recorded_at >= $1${only} group by substr(recorded_at, 1, 13)`,
    [since, ...(folders ?? [])],
  )
  return new Map(rows.map(({ hour, cents }) => [hour, cents]))
}

/** Durations in milliseconds of the last turns of each hour, by the number of the hour. */
async function sampleDurations(
  tx: Tx,
  folders: readonly string[] | undefined,
  starts: readonly number[],
): Promise<ReadonlyMap<number, readonly number[]>> {
  if (folders?.length === 0) return new Map()
  const bounds = idBounds(starts)
  const only = folders === undefined ? '' : ` and folder in (${placeholders(folders.length, bounds.length)})`
  const arms = starts.map(
    (_, at) => `select ${at} as hour, started_at, ended_at from (select started_at, ended_at from turns
       where id >= $${at + 1} and id < $${at + 2}${only} and ended_at is not null order by id desc limit ${SAMPLE_MAX}) as h${at}`,
  )
  const rows = await query(tx, { hour: integer, started_at: text, ended_at: text }, arms.join(' union all '), [
    ...bounds,
    ...(folders ?? []),
  ])
  const durations = new Map<number, number[]>()
  for (const { hour, started_at, ended_at } of rows) {
    const ms = Math.max(0, Date.parse(ended_at) - Date.parse(started_at))
    durations.set(hour, [...(durations.get(hour) ?? []), ms])
  }
  return durations
}
