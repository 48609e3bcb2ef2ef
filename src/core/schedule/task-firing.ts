// Fires scheduled tasks. One transaction claims a slot, records the task's message and sets the next slot, so a crash leaves
// nothing half done and two schedulers never fire the same slot. See docs/decisions.md#scheduled-tasks.
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import { defineCounter, defineHistogram } from '../../lib/log/metric-registry.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { bytes, execute, optional, query, queryOne, text } from '../../store/statement.ts'
import type { Patch } from '../../store/table.ts'
import { groups } from '../groups/groups.ts'
import { type RecordedInbound, recordInbound } from '../messages/inbound.ts'
import { type InboxOutcome, messageIdOfTurn } from '../messages/inbox.ts'
import { contentStart, decodeContent, lockMessageOrder } from '../messages/messages.ts'
import type { WriteContext } from '../turns/rounds.ts'
import { nextRun } from './schedule.ts'
import { expireLeases, hasExpiredLease } from './task-leases.ts'
import { delayIfTooFast } from './task-rates.ts'
import { type ScheduledTask, scheduledTasks, taskRunLogs } from './tasks.ts'

export const TASK_DELAY = defineHistogram(
  'svc_task_delay_seconds',
  'Time from the slot of a scheduled task until it was fired',
  [1, 5, 15, 60, 300, 3600],
)
export const TASK_ERRORS = defineCounter('svc_task_errors_total', 'Scheduled tasks that could not be fired')

/** Tasks per transaction; it blocks others who append messages. */
export const FIRING_BATCH = 20

export interface FiringContext extends WriteContext {
  readonly timeZone: string
}

/** Time of the next slot, in milliseconds since 1970. Called often, so it only reads. */
export async function nextSlotTime(tx: Tx, now: number): Promise<number | undefined> {
  if (await hasExpiredLease(tx, now)) return now
  const sql = `select min(next_run) as next from scheduled_tasks where status = 'active'`
  const { next } = await queryOne(tx, { next: optional(text) }, sql)
  return next === undefined ? undefined : Date.parse(next)
}

/** Due tasks, the longest overdue first. */
export async function dueTasks(tx: Tx, now: number, limit: number): Promise<ScheduledTask[]> {
  return query(
    tx,
    scheduledTasks.decode,
    `select ${scheduledTasks.columns.join(', ')} from scheduled_tasks where status = 'active' and next_run <= $1
     order by next_run, id limit $2`,
    [timestamp(now), limit],
  )
}

interface FiringResult {
  /** Number of slots claimed. */
  readonly count: number
  /** Chats with new messages, for the signals of this process. */
  readonly keys: readonly string[]
}

export async function fireDueTasks(tx: Tx, context: FiringContext, limit: number): Promise<FiringResult> {
  // Before reading: the lock makes each scheduler see the changes of the previous one.
  await lockMessageOrder(tx, context.dialect)
  const now = context.clock.now()
  await expireLeases(tx, now)
  const keys: string[] = []
  const due = await dueTasks(tx, now, limit)
  for (const task of due) if (await fire(tx, context, task, now)) keys.push(task.chat_jid)
  return { count: due.length, keys }
}

/** Fires this task if it is due. */
export async function fireTaskIfDue(tx: Tx, context: FiringContext, id: string): Promise<FiringResult> {
  await lockMessageOrder(tx, context.dialect)
  const now = context.clock.now()
  const task = await scheduledTasks.find(tx, { id, status: 'active' })
  if (task?.next_run === undefined || Date.parse(task.next_run) > now) return { count: 0, keys: [] }
  return { count: 1, keys: (await fire(tx, context, task, now)) ? [task.chat_jid] : [] }
}

/** Pauses a task whose slot has not been fired, and logs the reason. The task is not read. */
export async function setTaskAside(tx: Tx, context: WriteContext, id: string, reason: string): Promise<void> {
  const sql = `update scheduled_tasks set status = 'paused' where id = $1 and status = 'active' and next_run <= $2`
  if ((await execute(tx, sql, [id, timestamp(context.clock.now())])) > 0) await logFailure(tx, context, id, reason)
}

/** Computes the next slot before claiming this one, so a task with an invalid schedule is paused instead. */
async function fire(tx: Tx, context: FiringContext, task: ScheduledTask, now: number): Promise<boolean> {
  const { id, owner, next_run: slot = '' } = task
  const next = nextTaskState(task, now, context.timeZone)
  if (next instanceof Refusal) return pauseWithError(tx, context, task, next.message)
  if (!(await groups.find(tx, { folder: owner })))
    return pauseWithError(tx, context, task, `there is no group ${owner}`)
  if (await delayIfTooFast(tx, task, now)) return false
  if ((await scheduledTasks.update(tx, { id, status: 'active', next_run: slot }, next)) === 0) return false
  return (await postTaskPrompt(tx, context, task, now)).isNew
}

/** Records the task's prompt as a message, once per slot, and logs the run at `now`. The caller has claimed the slot. */
export async function postTaskPrompt(
  tx: Tx,
  context: WriteContext,
  task: ScheduledTask,
  now: number = context.clock.now(),
  slot: string = slotId(task),
): Promise<RecordedInbound> {
  const { id, owner, chat_jid, prompt, context_mode, topic, reach = 'all' } = task
  const is_isolated = context_mode === 'isolated'
  const message = await recordInbound(tx, context, {
    jid: chat_jid,
    target_folder: owner,
    sender: is_isolated ? `timed-isolated:${id}` : 'timed',
    content: prompt,
    reach,
    topic,
    envelope: { verb: 'message', platform_id: slot, task_id: id, is_isolated, as_folder: owner },
  })
  await taskRunLogs.insertIfMissing(tx, {
    // `recordTaskTurn` updates this row when the turn of the message ends.
    id: message.id,
    task_id: id,
    run_at: timestamp(now),
    duration_ms: 0,
    status: 'success',
    result: ENQUEUED,
  })
  const { metrics } = context
  if (message.isNew && metrics && slot === slotId(task))
    tx.onCommit(() => metrics.observe(TASK_DELAY, {}, (now - Date.parse(task.next_run ?? '')) / 1000))
  return message
}

/** Runs a task once now; its state and next run stay. The caller holds `lockMessageOrder`. */
export async function runTaskOnce(tx: Tx, context: WriteContext, task: ScheduledTask): Promise<RecordedInbound> {
  if (!(await groups.find(tx, { folder: task.owner }))) refuse('conflict', `there is no group ${task.owner}`)
  const { clock, random } = context
  return postTaskPrompt(tx, context, task, clock.now(), `run-${task.id}-${uuidv7(clock, random)}`)
}

/** Result in the run log until the turn ends. */
const ENQUEUED = 'enqueued'

/** Identifies a slot: firing it again adds no second message. */
function slotId({ id, next_run = '' }: Pick<ScheduledTask, 'id' | 'next_run'>): string {
  return `sched-${id}-${Date.parse(next_run)}`
}

type NextTaskState = Patch<ScheduledTask> & { readonly status: 'active' | 'completed' }

/** The task's state after a slot; a refusal if its schedule can never fire again. */
export function nextTaskState(
  { cron, next_run = '' }: Pick<ScheduledTask, 'cron' | 'next_run'>,
  now: number,
  timeZone: string,
): NextTaskState | Refusal {
  if (cron === undefined) return { status: 'completed', next_run: undefined }
  try {
    return { status: 'active', next_run: nextRun(cron, now, timeZone, Date.parse(next_run)) }
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
}

/** Pauses a task that cannot run, instead of retrying it, and logs the error. */
async function pauseWithError(tx: Tx, context: FiringContext, task: ScheduledTask, error: string): Promise<false> {
  const { id, next_run: slot = '' } = task
  if ((await scheduledTasks.update(tx, { id, status: 'active', next_run: slot }, { status: 'paused' })) > 0)
    await logFailure(tx, context, id, error)
  return false
}

/** After an unexpected error: continues with the next slot, or pauses a one-time task. */
export async function skipSlot(tx: Tx, context: FiringContext, task: ScheduledTask, error: string): Promise<void> {
  const { id, cron, next_run: slot = '' } = task
  const next = cron === undefined ? undefined : nextTaskState(task, context.clock.now(), context.timeZone)
  const patch = next === undefined || next instanceof Refusal ? ({ status: 'paused' } as const) : next
  if ((await scheduledTasks.update(tx, { id, status: 'active', next_run: slot }, patch)) > 0)
    await logFailure(tx, context, id, error)
}

async function logFailure(
  tx: Tx,
  { clock, random, metrics }: Pick<FiringContext, 'clock' | 'random' | 'metrics'>,
  task_id: string,
  error: string,
): Promise<void> {
  const run_at = timestamp(clock.now())
  if (metrics) tx.onCommit(() => metrics.add(TASK_ERRORS, {}))
  await taskRunLogs.insert(tx, { id: uuidv7(clock, random), task_id, run_at, duration_ms: 0, status: 'error', error })
}

const RESULT_BYTES = 2000

interface EndedTurn {
  readonly id: string
  readonly task_id?: string | undefined
  readonly started_at: string
  readonly ended_at?: string | undefined
}

interface TurnResult {
  readonly outcome: InboxOutcome
  readonly reason?: string | undefined
}

/** Called at the end of every turn. For a task's turn it logs the outcome, the duration and the last message. */
export async function recordTaskTurn(
  tx: Tx,
  { id, task_id, started_at, ended_at = started_at }: EndedTurn,
  { outcome, reason }: TurnResult,
): Promise<void> {
  if (task_id === undefined) return
  const isFailure = outcome === 'failed' || outcome === 'refused'
  await taskRunLogs.update(
    tx,
    { id: messageIdOfTurn(id), task_id },
    {
      status: isFailure ? 'error' : 'success',
      duration_ms: Math.max(0, Date.parse(ended_at) - Date.parse(started_at)),
      result: isFailure ? undefined : ((await lastMessageOf(tx, id)) ?? outcome),
      error: isFailure ? (reason ?? outcome) : undefined,
    },
  )
}

async function lastMessageOf(tx: Tx, turn_id: string): Promise<string | undefined> {
  const [last] = await query(
    tx,
    { content: bytes },
    `select ${contentStart(RESULT_BYTES)} as content from outbox o join messages m on m.seq = o.message_seq
     where o.turn_id = $1 and m.kind = 'message' order by o.message_seq desc limit 1`,
    [turn_id],
  )
  // The cut may split a character.
  return last && decodeContent(last.content).replace(/\ufffd$/, '')
}
