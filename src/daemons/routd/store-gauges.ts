// Gauges that are read from the store at a scrape: queues, schedules, sessions and sizes. Served by the process of routd, so
// that one process reports them. Each query uses an index of open rows and stops after COUNT_MAX of them, so that neither a
// long history nor a long queue makes a scrape slow.
import { stat, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { timestamp } from '../../lib/clock.ts'
import { readText } from '../../lib/files/atomic-file.ts'
import { defineGauge, type GaugeReading, type GaugeSource, reading } from '../../lib/log/metric-registry.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { integer, optional, queryOne, text } from '../../store/statement.ts'

/** A longer queue is reported with this length. */
export const COUNT_MAX = 1000
const CACHE_MS = 5000
/** A task is overdue when its slot is this long ago. */
const OVERDUE_MS = 60_000
const MARK_BYTES_MAX = 64

const QUEUES = ['routing', 'turns', 'outbox'] as const

export const QUEUE_MESSAGES = defineGauge('svc_queue_messages', 'Messages that wait, 1000 if more', { queue: QUEUES })
export const QUEUE_OLDEST = defineGauge('svc_queue_oldest_seconds', 'Age of the oldest waiting message', {
  queue: QUEUES,
})
export const CONVERSATIONS_WAITING = defineGauge(
  'svc_conversations_waiting',
  'Conversations that wait for a turn, 1000 if more',
)
export const TURNS_OPEN = defineGauge('svc_turns_open', 'Turns of the instance that have not ended', {
  state: ['running', 'retrying'],
})
export const FOLDERS_PAUSED = defineGauge('svc_folders_paused', 'Folders that pause after failed turns')
export const TASKS_OVERDUE = defineGauge('svc_tasks_overdue', 'Active tasks that are late by more than a minute')
export const SESSIONS_ACTIVE = defineGauge('svc_sessions_active', 'Sessions of people, 1000 if more')
export const STORE_BYTES = defineGauge('svc_store_bytes', 'Size of the store')
export const BACKUP_AGE = defineGauge('svc_backup_age_seconds', 'Time since the last complete backup')
export const STORE_LOSSES = defineGauge(
  'svc_store_losses',
  'Times that a SQLite store lacked commits that were on disk',
)
export const STORE_FREE_BYTES = defineGauge('svc_store_free_bytes', 'Free space on the disk of a SQLite store')

export const STORE_GAUGES = [
  ...[QUEUE_MESSAGES, QUEUE_OLDEST, CONVERSATIONS_WAITING, TURNS_OPEN, FOLDERS_PAUSED, TASKS_OVERDUE],
  ...[SESSIONS_ACTIVE, STORE_BYTES, STORE_FREE_BYTES, STORE_LOSSES, BACKUP_AGE],
]

/** Scrapes of several collectors share a reading. */
export function storeGauges(host: InstanceHost): GaugeSource {
  let readAt = Number.NEGATIVE_INFINITY
  let readings: Promise<readonly GaugeReading[]> | undefined
  return () => {
    if (readings && performance.now() - readAt < CACHE_MS) return readings
    readAt = performance.now()
    readings = readGauges(host)
    // The scrape handles the rejection; the next one tries again.
    readings.catch(() => {
      readings = undefined
    })
    return readings
  }
}

async function readGauges(host: InstanceHost): Promise<readonly GaugeReading[]> {
  const now = host.clock.now()
  const read = async (tx: Tx): Promise<GaugeReading[]> => [
    ...queueReadings('routing', now, await readUnrouted(tx)),
    ...queueReadings('turns', now, await readWaiting(tx)),
    ...queueReadings('outbox', now, await readUndelivered(tx)),
    ...(await readTurns(tx, now)),
    reading(TASKS_OVERDUE, {}, await countRows(tx, OVERDUE_TASKS, [timestamp(now - OVERDUE_MS)])),
    reading(SESSIONS_ACTIVE, {}, await countRows(tx, ACTIVE_SESSIONS, [timestamp(now)])),
  ]
  return [
    ...(await host.engine.read(read)),
    ...(await readSizes(host)),
    ...(await readBackupAge(host)),
    ...(await readLosses(host)),
  ]
}

interface Queue {
  readonly count: number
  readonly oldest: string | undefined
}

function queueReadings(queue: (typeof QUEUES)[number], now: number, { count, oldest }: Queue): GaugeReading[] {
  const age = oldest === undefined ? 0 : Math.max(0, now - Date.parse(oldest)) / 1000
  return [reading(QUEUE_MESSAGES, { queue }, count), reading(QUEUE_OLDEST, { queue }, age)]
}

const QUEUE = { count: integer, oldest: optional(text) }

/** The table of messages has no other index than its sequence. */
function readUnrouted(tx: Tx): Promise<Queue> {
  return queryOne(
    tx,
    QUEUE,
    `select count(*) as count, min(created_at) as oldest from (
       select created_at from messages where seq > (select last_seq from routing where id = 1) and direction = 'in'
       order by seq limit ${COUNT_MAX}) as unrouted`,
  )
}

/** Conversations that can start a turn, and those that wait for the end of their own. */
const WAITING = `select c.folder, c.topic, c.waiting from conversations c
    where c.waiting > 0 and c.turn_id is null
  union all
  select c.folder, c.topic, c.waiting from turns t join conversations c on c.folder = t.folder and c.topic = t.topic
    where t.state <> 'done' and c.waiting > 0 and c.turn_id = t.id`

async function readWaiting(tx: Tx): Promise<Queue> {
  const { count, first } = await queryOne(
    tx,
    { count: integer, first: optional(integer) },
    `select cast(coalesce(sum(waiting), 0) as bigint) as count, min(first) as first from (
       select w.waiting, (select min(i.message_seq) from inbox i
         where i.folder = w.folder and i.topic = w.topic and i.state = 'waiting') as first
       from (select * from (${WAITING}) as every_one limit ${COUNT_MAX}) as w) as oldest_of_each`,
  )
  const row = await queryOne(
    tx,
    { oldest: optional(text) },
    'select min(created_at) as oldest from messages where seq = $1',
    [first ?? 0],
  )
  return { count: Math.min(count, COUNT_MAX), oldest: row.oldest }
}

function readUndelivered(tx: Tx): Promise<Queue> {
  return queryOne(
    tx,
    QUEUE,
    `select count(*) as count, min(created_at) as oldest from (
       select created_at from outbox where state in ('pending', 'sending') order by next_at limit ${COUNT_MAX}) as waiting`,
  )
}

async function readTurns(tx: Tx, now: number): Promise<GaugeReading[]> {
  const conversations = `select 1 as one from conversations where waiting > 0 and turn_id is null`
  const open = await queryOne(
    tx,
    { running: integer, retrying: integer },
    `select count(case when state = 'running' then 1 end) as running,
       count(case when state = 'retrying' then 1 end) as retrying
     from (select state from turns where state <> 'done' limit ${COUNT_MAX}) as open`,
  )
  const paused = `select 1 as one from folder_turns where open_until > 0 and open_until > $1`
  return [
    reading(CONVERSATIONS_WAITING, {}, await countRows(tx, conversations, [])),
    reading(TURNS_OPEN, { state: 'running' }, open.running),
    reading(TURNS_OPEN, { state: 'retrying' }, open.retrying),
    reading(FOLDERS_PAUSED, {}, await countRows(tx, paused, [now])),
  ]
}

const OVERDUE_TASKS = `select 1 as one from scheduled_tasks where status = 'active' and next_run < $1 order by next_run`
const ACTIVE_SESSIONS = `select 1 as one from sessions where status = 'active' and expires_at > $1 order by expires_at`

async function countRows(tx: Tx, rows: string, values: readonly (string | number)[]): Promise<number> {
  const sql = `select count(*) as count from (${rows} limit ${COUNT_MAX}) as counted`
  return (await queryOne(tx, { count: integer }, sql, values)).count
}

/** Absent until there is a backup on this machine: `svc backup` writes its time beside the store. */
async function readBackupAge({ layout, clock }: InstanceHost): Promise<GaugeReading[]> {
  if (!layout) return []
  const mark = await readText(layout.lastBackup, MARK_BYTES_MAX).catch(() => '')
  const time = Date.parse(mark.trim())
  return Number.isNaN(time) ? [] : [reading(BACKUP_AGE, {}, Math.max(0, clock.now() - time) / 1000)]
}

/** Absent for a database server, which guards its own log. */
async function readLosses({ engine }: InstanceHost): Promise<GaugeReading[]> {
  return engine.lossWatch ? [reading(STORE_LOSSES, {}, (await engine.lossWatch.find()).length)] : []
}

/** A database server reports its size; its disk is not ours to measure. */
async function readSizes({ engine, layout }: InstanceHost): Promise<GaugeReading[]> {
  const { sizeSql } = engine.dialect
  if (sizeSql !== undefined) {
    const { bytes } = await engine.read((tx) => queryOne(tx, { bytes: integer }, sizeSql))
    return [reading(STORE_BYTES, {}, bytes)]
  }
  if (!layout) return []
  const sizes = await Promise.all(
    [layout.store, `${layout.store}-wal`].map((path) =>
      stat(path).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  )
  const disk = await statfs(dirname(layout.store)).catch(() => undefined)
  return [
    reading(
      STORE_BYTES,
      {},
      sizes.reduce((sum, size) => sum + size, 0),
    ),
    ...(disk ? [reading(STORE_FREE_BYTES, {}, disk.bavail * disk.bsize)] : []),
  ]
}
