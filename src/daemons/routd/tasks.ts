// For schedulers that do not have the store: what is due, that it was fired or could not be, when it runs next (decision R1).
// A slot that was given out belongs to whoever took it until it says when the task runs next, or for a while; one that died in
// between is followed by another that repeats its steps, and no prompt is said twice.
import type { Hono, Context as HonoContext } from 'hono'
import { z } from 'zod'
import { following, sayPrompt } from '../../core/firing.ts'
import { queueUp } from '../../core/messages.ts'
import { finishSlot, leaseDue } from '../../core/task-leases.ts'
import { scheduledTasks, taskRunLogs } from '../../core/tasks.ts'
import { limit, line, prose, Timestamp } from '../../core/values.ts'
import { readQuery, typed } from '../../faces/text.ts'
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import { readMembers } from '../../lib/http.ts'
import { parse } from '../../lib/parse.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { askWith } from '../request.ts'

const LEASE_MS = 60_000

const Due = z.strictObject({ limit: limit(100, 1000) })
const RunLog = z.strictObject({
  task_id: line(320),
  status: z.enum(['success', 'error']).describe('success: its time has come, and its prompt is said now'),
  error: prose(2000).optional(),
  duration_ms: z.int().min(0).default(0),
})
const Reschedule = z.strictObject({
  next_run: Timestamp.optional().describe('Absent: the next slot of its cron; a single run is over'),
})

export function mountTasks({ app, host }: { readonly app: Hono; readonly host: Host }): void {
  const ask = askWith(host)
  const mustBeService = async (c: HonoContext): Promise<void> => {
    const { caller } = await ask(c)
    if (caller.kind !== 'service') refuse('forbidden', 'this is for the daemons of the instance')
  }

  app.get('/v1/tasks/due', async (c) => {
    await mustBeService(c)
    const query = parse(Due, typed(Due, readQuery(new URL(c.req.url).search)))
    const tasks = await host.engine.transaction(async (tx) => {
      await queueUp(tx, host.engine.dialect)
      return leaseDue(tx, { now: host.clock.now(), forMs: LEASE_MS, limit: query.limit })
    })
    return c.json({ tasks, lease_ms: LEASE_MS })
  })

  app.post('/v1/tasks/runlog', async (c) => {
    await mustBeService(c)
    const log = parse(RunLog, await readMembers(c.req.raw))
    const { id, chat_jid } = await host.engine.transaction((tx) => logRun(tx, host, log))
    if (chat_jid !== undefined) host.signals.emit([chat_jid])
    return c.json({ id }, 201)
  })

  app.post('/v1/tasks/:id/reschedule', async (c) => {
    await mustBeService(c)
    const id = c.req.param('id')
    const { next_run } = parse(Reschedule, await readMembers(c.req.raw))
    const task = await host.engine.transaction((tx) => reschedule(tx, host, id, next_run))
    return c.json(task)
  })
}

async function logRun(
  tx: Tx,
  host: Host,
  { task_id, status, error, duration_ms }: z.output<typeof RunLog>,
): Promise<{ id: string; chat_jid?: string }> {
  const { clock, random, engine } = host
  await queueUp(tx, engine.dialect)
  const task = (await scheduledTasks.find(tx, { id: task_id })) ?? refuse('not_found', `there is no task ${task_id}`)
  if (status === 'success') {
    if (task.status !== 'firing') refuseLate(task_id)
    const { id, isNew } = await sayPrompt(tx, { dialect: engine.dialect, clock, random }, task)
    return { id, ...(isNew ? { chat_jid: task.chat_jid } : {}) }
  }
  const id = uuidv7(clock, random)
  await taskRunLogs.insert(tx, { id, task_id, run_at: timestamp(clock.now()), duration_ms, status, error })
  return { id }
}

async function reschedule(tx: Tx, host: Host, id: string, next_run: string | undefined) {
  const task = (await scheduledTasks.find(tx, { id })) ?? refuse('not_found', `there is no task ${id}`)
  const next =
    next_run === undefined
      ? following(task, host.clock.now(), host.timeZone)
      : { status: 'active' as const, next_run: timestamp(Date.parse(next_run)) }
  if (next instanceof Refusal) throw next
  if (!(await finishSlot(tx, task, next))) refuseLate(id)
  return scheduledTasks.find(tx, { id })
}

function refuseLate(id: string): never {
  refuse('conflict', `task ${id} is not firing: its slot was given to another scheduler, or is over`)
}
