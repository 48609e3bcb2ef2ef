// The time by which old rows are removed. A clock that is wrong must not remove rows that are not old, because they are lost
// then. So what the clock showed is written down every ten minutes, and a time counts only after svc has run for a day since
// the clock first showed it. See docs/decisions.md#time-of-removals.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { execute, optional, query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'

const HOUR_MS = 3_600_000
/** How long svc runs before it believes a clock that moved ahead. */
const BELIEVED_AFTER_MS = 24 * HOUR_MS
/** A restart takes less, so a smaller difference is not reported. */
const REPORTED_MS = HOUR_MS

export const clockChecks = new Table({
  name: 'clock_checks',
  row: z.object({
    id: z.int(),
    wall_ms: z.int().describe('What the clock showed, in milliseconds since 1970'),
    ran_ms: z.int().describe('For how long svc had run, which does not depend on the clock'),
  }),
  key: 'id',
  storage: [
    ({ counter }) => `create table clock_checks (id ${counter}, wall_ms bigint not null, ran_ms bigint not null)`,
  ],
})

type ClockCheck = Awaited<ReturnType<typeof listChecks>>[number]

/** Those of the last day that svc ran, oldest first; about 150. */
function listChecks(tx: Tx) {
  return clockChecks.list(tx, {}, [['id', 'asc']])
}

/**
 * Notes what the clock shows, and returns the time by which rows may be removed. `elapsedMs` is the time since the previous
 * check of this process by the monotonic clock. Several processes and machines may take turns.
 */
export async function checkClock(tx: Tx, now: number, elapsedMs: number): Promise<number> {
  const checks = await listChecks(tx)
  if (checks.length === 0) await clockChecks.append(tx, { wall_ms: await newestTime(tx, now), ran_ms: 0 })
  const last = checks.at(-1)
  // Never more than the clock itself moved, so that two processes do not count the same time twice.
  const step = last ? Math.min(elapsedMs, Math.max(0, now - last.wall_ms)) : 0
  const ran_ms = (last?.ran_ms ?? 0) + Math.round(step)
  await clockChecks.append(tx, { wall_ms: now, ran_ms })
  await execute(tx, 'delete from clock_checks where ran_ms < $1', [ran_ms - BELIEVED_AFTER_MS])
  return believedTime(tx, now)
}

/** The time by which rows may be removed: at most the clock's, and at most what each check of the last day leads to. */
export async function believedTime(tx: Tx, now: number): Promise<number> {
  const checks = await listChecks(tx)
  return checks.length === 0 ? newestTime(tx, now) : Math.min(now, ...projections(checks))
}

/** What the clock would show if it had been right at each check. Time when nothing ran is missing in it. */
function projections(checks: readonly ClockCheck[]): number[] {
  const ranMs = checks.at(-1)?.ran_ms ?? 0
  return checks.map(({ wall_ms, ran_ms }) => wall_ms + ranMs - ran_ms)
}

/** A time of the first or last row, by its key. */
function selectAtEnd(end: 'min' | 'max', table: string, key: string, column: string): string {
  return `select ${column} as time from ${table} where ${key} = (select ${end}(${key}) from ${table})`
}

/** Without a check: the time of the newest row, because the clock may have been wrong since the process started. */
async function newestTime(tx: Tx, now: number): Promise<number> {
  const times: number[] = []
  for (const sql of [
    selectAtEnd('max', 'messages', 'seq', 'created_at'),
    selectAtEnd('max', 'audit', 'id', 'created_at'),
  ]) {
    const [newest] = await query(tx, { time: text }, sql)
    if (newest) times.push(Date.parse(newest.time))
  }
  return times.length === 0 ? now : Math.min(now, Math.max(...times))
}

export type RetentionTimes = Readonly<Record<'KEEP_MESSAGES' | 'KEEP_TURNS' | 'KEEP_AUDIT', number>>

/** A removal that waits until the clock is believed. */
export interface HeldRemoval {
  readonly believedMs: number
  /** For how long svc must still run. */
  readonly waitMs: number
}

/** Undefined if no row waits for its removal. */
export async function findHeldRemoval(tx: Tx, now: number, keep: RetentionTimes): Promise<HeldRemoval | undefined> {
  const believedMs = await believedTime(tx, now)
  if (now - believedMs <= REPORTED_MS || !(await hasRowsBefore(tx, now, keep))) return undefined
  const checks = await listChecks(tx)
  const projected = projections(checks)
  const doubted = checks.findLast((_, at) => now - (projected[at] ?? now) > REPORTED_MS)
  const sinceMs = (checks.at(-1)?.ran_ms ?? 0) - (doubted?.ran_ms ?? 0)
  return { believedMs, waitMs: BELIEVED_AFTER_MS - sinceMs }
}

/** Whether the oldest row of a kind would be removed if the clock were right. */
async function hasRowsBefore(tx: Tx, now: number, keep: RetentionTimes): Promise<boolean> {
  const oldest: readonly [keepMs: number, sql: string][] = [
    [keep.KEEP_MESSAGES, selectAtEnd('min', 'messages', 'seq', 'created_at')],
    [keep.KEEP_TURNS, selectAtEnd('min', 'turns', 'id', 'ended_at')],
    [keep.KEEP_AUDIT, selectAtEnd('min', 'audit', 'id', 'created_at')],
  ]
  for (const [keepMs, sql] of oldest) {
    if (keepMs === 0) continue
    const [row] = await query(tx, { time: optional(text) }, sql)
    if (row?.time !== undefined && Date.parse(row.time) < now - keepMs) return true
  }
  return false
}
