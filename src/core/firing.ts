// Scheduled tasks that are due (decision T4). One transaction takes a slot, records the message that it fires and sets the
// next one, so that no crash leaves half of it and no two schedulers fire it twice.
import { timestamp, uuidv7 } from '../lib/clock.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import type { Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import type { Patch } from '../store/table.ts'
import { groups } from './groups.ts'
import { type Received, receive } from './inbound.ts'
import { queueUp, textOf } from './messages.ts'
import type { Speaking } from './rounds.ts'
import { nextRun } from './schedule.ts'
import { expireLeases, hasExpired } from './task-leases.ts'
import { type ScheduledTask, scheduledTasks, taskRunLogs } from './tasks.ts'
import type { Turn, TurnEnd } from './turns.ts'

/** What firing needs of the world. */
export interface Firing extends Speaking {
  readonly timeZone: string
}

/** When there is something to fire next, in milliseconds since 1970. Asked often, so it writes nothing. */
export async function nextSlot(tx: Tx, now: number): Promise<number | undefined> {
  if (await hasExpired(tx, now)) return now
  const { rows } = await run(tx, `select min(next_run) as next from scheduled_tasks where status = 'active'`)
  const next = rows[0]?.next
  return typeof next === 'string' ? Date.parse(next) : undefined
}

/** Which tasks are due, the one that has waited longest first. */
export async function dueTasks(tx: Tx, now: number, limit: number): Promise<ScheduledTask[]> {
  const { rows } = await run(
    tx,
    `select ${scheduledTasks.columns.join(', ')} from scheduled_tasks where status = 'active' and next_run <= $1
     order by next_run, id limit $2`,
    [timestamp(now), limit],
  )
  return rows.map((row) => scheduledTasks.decode(row))
}

export interface Fired {
  /** How many slots were taken. */
  readonly count: number
  /** The chats that were spoken to, for the signals of this process. */
  readonly keys: readonly string[]
}

/** Fires what is due, `limit` of it at most. */
export async function fireDue(tx: Tx, firing: Firing, limit: number): Promise<Fired> {
  // First: behind it, every scheduler sees what the one before has done.
  await queueUp(tx, firing.dialect)
  const now = firing.clock.now()
  await expireLeases(tx, now)
  const keys: string[] = []
  const due = await dueTasks(tx, now, limit)
  for (const task of due) if (await fire(tx, firing, task, now)) keys.push(task.chat_jid)
  return { count: due.length, keys }
}

/** The next slot is computed before this one is spent: what cannot go on is set aside, and says why. */
async function fire(tx: Tx, firing: Firing, task: ScheduledTask, now: number): Promise<boolean> {
  const { id, owner, next_run: slot = '' } = task
  const next = following(task, now, firing.timeZone)
  if (next instanceof Refusal) return setAside(tx, firing, task, next.message)
  if (!(await groups.find(tx, { folder: owner }))) return setAside(tx, firing, task, `there is no group ${owner}`)
  if ((await scheduledTasks.update(tx, { id, status: 'active', next_run: slot }, next)) === 0) return false
  return (await sayPrompt(tx, firing, task, now)).isNew
}

/** Says the prompt of the task's slot, once, and logs the run as of when the slot was taken. Whoever calls this has the slot. */
export async function sayPrompt(
  tx: Tx,
  firing: Speaking,
  task: ScheduledTask,
  now: number = firing.clock.now(),
  slot: string = slotId(task),
): Promise<Received> {
  const { id, owner, chat_jid, prompt, context_mode, topic, reach = 'all' } = task
  const is_isolated = context_mode === 'isolated'
  const message = await receive(tx, firing, {
    jid: chat_jid,
    target_folder: owner,
    sender: is_isolated ? `timed-isolated:${id}` : 'timed',
    content: prompt,
    reach,
    topic,
    envelope: { verb: 'message', platform_id: slot, task_id: id, is_isolated, as_folder: owner },
  })
  await taskRunLogs.insertIfMissing(tx, {
    // The turn of the message has the same id, and tells here how it went.
    id: message.id,
    task_id: id,
    run_at: timestamp(now),
    duration_ms: 0,
    status: 'success',
    result: ENQUEUED,
  })
  return message
}

/** Fires a task once, now, apart from its slots: its state and its next run stay as they are. Behind `queueUp`. */
export async function runOnce(tx: Tx, firing: Speaking, task: ScheduledTask): Promise<Received> {
  if (!(await groups.find(tx, { folder: task.owner }))) refuse('conflict', `there is no group ${task.owner}`)
  const { clock, random } = firing
  return sayPrompt(tx, firing, task, clock.now(), `run-${task.id}-${uuidv7(clock, random)}`)
}

/** What a run log says until its turn is over. */
const ENQUEUED = 'enqueued'

/** The name of one slot: a scheduler that fires it a second time, whichever way, says nothing new. */
function slotId({ id, next_run = '' }: Pick<ScheduledTask, 'id' | 'next_run'>): string {
  return `sched-${id}-${Date.parse(next_run)}`
}

/** How a task stands when a slot of it is over. */
export type Following = Patch<ScheduledTask> & { readonly status: 'active' | 'completed' }

/** How this task stands then; a refusal where its times cannot be. */
export function following(
  { cron, next_run = '' }: Pick<ScheduledTask, 'cron' | 'next_run'>,
  now: number,
  timeZone: string,
): Following | Refusal {
  if (cron === undefined) return { status: 'completed', next_run: undefined }
  try {
    return { status: 'active', next_run: nextRun(cron, now, timeZone, Date.parse(next_run)) }
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
}

/** Nobody would ever run it, or say when: it is paused rather than tried again and again, and its log says why. */
async function setAside(tx: Tx, { clock, random }: Firing, task: ScheduledTask, error: string): Promise<false> {
  const { id, next_run: slot = '' } = task
  if ((await scheduledTasks.update(tx, { id, status: 'active', next_run: slot }, { status: 'paused' })) > 0)
    await logFailure(tx, { clock, random }, id, error)
  return false
}

/** A slot that could not be fired, for a reason that no rule foresees: the next one may; a single run is paused. */
export async function skipSlot(tx: Tx, firing: Firing, task: ScheduledTask, error: string): Promise<void> {
  const { id, cron, next_run: slot = '' } = task
  const next = cron === undefined ? undefined : following(task, firing.clock.now(), firing.timeZone)
  const patch = next === undefined || next instanceof Refusal ? ({ status: 'paused' } as const) : next
  if ((await scheduledTasks.update(tx, { id, status: 'active', next_run: slot }, patch)) > 0)
    await logFailure(tx, firing, id, error)
}

async function logFailure(
  tx: Tx,
  { clock, random }: Pick<Firing, 'clock' | 'random'>,
  task_id: string,
  error: string,
): Promise<void> {
  const run_at = timestamp(clock.now())
  await taskRunLogs.insert(tx, { id: uuidv7(clock, random), task_id, run_at, duration_ms: 0, status: 'error', error })
}

const RESULT_BYTES = 2000

/** Called at the end of every turn: of a scheduled one, the run log tells how it went, how long, and what it said last. */
export async function noteTaskTurn(
  tx: Tx,
  { id, task_id, started_at, ended_at = started_at }: Pick<Turn, 'id' | 'task_id' | 'started_at' | 'ended_at'>,
  { outcome, reason }: Pick<TurnEnd, 'outcome' | 'reason'>,
): Promise<void> {
  if (task_id === undefined) return
  const isFailure = outcome === 'failed' || outcome === 'refused'
  await taskRunLogs.update(
    tx,
    { id, task_id },
    {
      status: isFailure ? 'error' : 'success',
      duration_ms: Math.max(0, Date.parse(ended_at) - Date.parse(started_at)),
      result: isFailure ? undefined : ((await lastSaid(tx, id)) ?? outcome),
      error: isFailure ? (reason ?? outcome) : undefined,
    },
  )
}

async function lastSaid(tx: Tx, turn_id: string): Promise<string | undefined> {
  const { rows } = await run(
    tx,
    `select substr(m.content, 1, ${RESULT_BYTES}) as content from outbox o join messages m on m.seq = o.message_seq
     where o.turn_id = $1 and m.kind = 'message' order by o.message_seq desc limit 1`,
    [turn_id],
  )
  const content = rows[0]?.content
  // The cut may have gone through a character.
  return content instanceof Uint8Array ? textOf(content).replace(/\ufffd$/, '') : undefined
}
