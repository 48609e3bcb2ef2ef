// Tables of scheduled tasks and their run logs.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import {
  execute,
  integer,
  optional,
  placeholders,
  query,
  queryForValues,
  queryOne,
  text,
} from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { Reach } from '../access/reach.ts'
import { Topic } from '../messages/messages.ts'
import { Folder, line, nonBlankText, Timestamp } from '../values.ts'

export const ScheduledTask = z
  .object({
    id: line(320).meta({ readOnly: true }),
    owner: Folder.describe('Folder whose agent runs it'),
    chat_jid: line(512).describe('Chat that receives its messages, or the bare folder'),
    prompt: nonBlankText(100_000),
    cron: line(256)
      .optional()
      .describe('Five-field cron expression or milliseconds between runs; absent for a single run'),
    next_run: Timestamp.meta({ readOnly: true }).optional(),
    status: z.enum(['active', 'paused', 'firing', 'completed']),
    context_mode: z.enum(['group', 'isolated']),
    created_at: Timestamp.meta({ readOnly: true }),
    reach: Reach.optional().describe('Reach of its turns: chat, work or all; absent: all'),
    topic: Topic.optional().describe('Topic of the chat; absent: the main topic'),
  })
  .meta({ id: 'ScheduledTasks' })
export type ScheduledTask = z.output<typeof ScheduledTask>

export const scheduledTasks = new Table({
  name: 'scheduled_tasks',
  row: ScheduledTask,
  key: 'id',
  storage: [
    `create table scheduled_tasks (
       id text primary key, owner text not null, chat_jid text not null, prompt text not null, cron text,
       next_run text, status text not null, context_mode text not null, created_at text not null)`,
    'create index scheduled_tasks_due on scheduled_tasks (status, next_run)',
    'alter table scheduled_tasks add column reach text',
    'create index scheduled_tasks_of_owner on scheduled_tasks (owner, status)',
    'alter table scheduled_tasks add column topic text',
  ],
})

export const TaskRunLog = z.object({
  id: z.string(),
  task_id: z.string(),
  run_at: Timestamp,
  duration_ms: z.int(),
  status: z.string(),
  result: z.string().optional(),
  error: z.string().optional(),
})

export const taskRunLogs = new Table({
  name: 'task_run_logs',
  row: TaskRunLog,
  key: 'id',
  storage: [
    `create table task_run_logs (
       id text primary key, task_id text not null references scheduled_tasks (id) on delete cascade,
       run_at text not null, duration_ms integer not null, status text not null, result text, error text)`,
    'create index task_run_logs_of on task_run_logs (task_id, run_at)',
    `create index task_run_logs_failed on task_run_logs (run_at, id) where status = 'error'`,
  ],
})

export type TaskRunLog = z.output<typeof TaskRunLog>

/** The last runs of a task, oldest first. */
export async function lastRuns(tx: Tx, task_id: string, limit: number): Promise<TaskRunLog[]> {
  const rows = await query(
    tx,
    taskRunLogs.decode,
    `select ${taskRunLogs.columns.join(', ')} from task_run_logs where task_id = $1 order by run_at desc, id desc limit $2`,
    [task_id, limit],
  )
  return rows.toReversed()
}

const RUN = {
  id: text,
  task_id: text,
  run_at: text,
  duration_ms: integer,
  status: text,
  result: optional(text),
  error: optional(text),
}

/** The last run of each task, by its id. */
export async function lastRunOfEach(tx: Tx, ids: readonly string[]): Promise<ReadonlyMap<string, TaskRunLog>> {
  const columns = taskRunLogs.columns.join(', ')
  const lastOf = (mark: string): string =>
    `select ${columns} from (select ${columns} from task_run_logs where task_id = ${mark}
       order by run_at desc, id desc limit 1) as last_run`
  const unionOf = (marks: string): string => marks.split(', ').map(lastOf).join(' union ')
  const rows = await queryForValues(tx, RUN, ids, unionOf)
  return new Map(rows.map((run) => [run.task_id, run]))
}

/** Counts the tasks of a folder, in the given states or in all. */
export async function countTasks(
  tx: Tx,
  owner: string,
  states: readonly ScheduledTask['status'][] = [],
): Promise<number> {
  const only = states.length === 0 ? '' : ` and status in (${placeholders(states.length, 1)})`
  const sql = `select count(*) as count from scheduled_tasks where owner = $1${only}`
  return (await queryOne(tx, { count: integer }, sql, [owner, ...states])).count
}

/** Completed one-time tasks are kept this long, so their result can be read. */
export const COMPLETED_RETENTION_MS = 30 * 24 * 3_600_000

/** Removes one-time tasks completed before this time, with their logs. Returns their number. */
export async function removeExpiredTasks(tx: Tx, before: string): Promise<number> {
  return execute(
    tx,
    `delete from scheduled_tasks where status = 'completed' and created_at < $1 and not exists (
       select 1 from task_run_logs l where l.task_id = scheduled_tasks.id and l.run_at >= $1)`,
    [before],
  )
}

/** Removes the oldest completed tasks of a folder, with their logs. Returns their number. */
export async function removeOldestCompleted(tx: Tx, owner: string, limit: number): Promise<number> {
  return execute(
    tx,
    `delete from scheduled_tasks where id in (
       select id from scheduled_tasks where owner = $1 and status = 'completed' order by created_at, id limit $2)`,
    [owner, limit],
  )
}

/** Removes the tasks that answer in these topics of a chat, with their logs. */
export async function removeTasksOfTopics(tx: Tx, jid: string, topics: readonly string[]): Promise<void> {
  if (topics.length === 0) return
  const sql = `delete from scheduled_tasks where chat_jid = $1 and topic in (${placeholders(topics.length, 1)})`
  await execute(tx, sql, [jid, ...topics])
}
