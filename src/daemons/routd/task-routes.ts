// API for schedulers without the store: lease due tasks, log runs, reschedule. If a scheduler dies, another leases the slot
// later and repeats the steps; each prompt is still posted once. See docs/decisions.md#timed-without-a-store.
import type { Hono, Context as HonoContext } from 'hono'
import { z } from 'zod'
import { lockMessageOrder } from '../../core/messages/messages.ts'
import { createSlotCorrection } from '../../core/schedule/slot-correction.ts'
import { nextTaskState, postTaskPrompt } from '../../core/schedule/task-firing.ts'
import { finishSlot, leaseDueTasks, TASK_LEASE_MS } from '../../core/schedule/task-leases.ts'
import { scheduledTasks, taskRunLogs } from '../../core/schedule/tasks.ts'
import { writeContextOf } from '../../core/turns/rounds.ts'
import { line, multilineText, pageLimit, Timestamp } from '../../core/values.ts'
import { parseQueryString, parseTextInput } from '../../faces/text-input.ts'
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import { readJsonObject } from '../../lib/http/http.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { requestAuthenticator } from '../http/credentials.ts'

const Due = z.strictObject({ limit: pageLimit(100, 1000) })
const RunLog = z.strictObject({
  task_id: line(320),
  status: z.enum(['success', 'error']).describe('success: posts the prompt of the task'),
  error: multilineText(2000).optional(),
  duration_ms: z.int().min(0).default(0),
})
const Reschedule = z.strictObject({
  next_run: Timestamp.optional().describe('Default: the next time of its cron; a one-time task is completed'),
})

export function mountTaskRoutes({ app, host }: { readonly app: Hono; readonly host: InstanceHost }): void {
  const authenticate = requestAuthenticator(host)
  const slots = createSlotCorrection(host)
  const mustBeService = async (c: HonoContext): Promise<void> => {
    const { caller } = await authenticate(c)
    if (caller.kind !== 'service') refuse('forbidden', 'this path is for daemons of the instance')
  }

  app.get('/v1/tasks/due', async (c) => {
    await mustBeService(c)
    const query = parse(Due, parseTextInput(Due, parseQueryString(new URL(c.req.url).search)))
    await slots.correct()
    const tasks = await host.engine.transaction(async (tx) => {
      await lockMessageOrder(tx, host.engine.dialect)
      return leaseDueTasks(tx, { now: host.clock.now(), forMs: TASK_LEASE_MS, limit: query.limit })
    })
    return c.json({ tasks, lease_ms: TASK_LEASE_MS })
  })

  app.post('/v1/tasks/runlog', async (c) => {
    await mustBeService(c)
    const log = parse(RunLog, await readJsonObject(c.req.raw))
    const { id, chat_jid } = await host.engine.transaction((tx) => logRun(tx, host, log))
    if (chat_jid !== undefined) host.signals.emit([chat_jid])
    return c.json({ id }, 201)
  })

  app.post('/v1/tasks/:id/reschedule', async (c) => {
    await mustBeService(c)
    const id = c.req.param('id')
    const { next_run } = parse(Reschedule, await readJsonObject(c.req.raw))
    const task = await host.engine.transaction((tx) => reschedule(tx, { ...host, clock: slots.clock }, id, next_run))
    return c.json(task)
  })
}

async function logRun(
  tx: Tx,
  host: InstanceHost,
  { task_id, status, error, duration_ms }: z.output<typeof RunLog>,
): Promise<{ id: string; chat_jid?: string }> {
  const { clock, random, engine } = host
  await lockMessageOrder(tx, engine.dialect)
  const task = (await scheduledTasks.find(tx, { id: task_id })) ?? refuse('not_found', `there is no task ${task_id}`)
  if (status === 'success') {
    if (task.status !== 'firing') refuseExpired(task_id)
    const { id, isNew } = await postTaskPrompt(tx, writeContextOf(host), task)
    return { id, ...(isNew ? { chat_jid: task.chat_jid } : {}) }
  }
  const id = uuidv7(clock, random)
  await taskRunLogs.insert(tx, { id, task_id, run_at: timestamp(clock.now()), duration_ms, status, error })
  return { id }
}

async function reschedule(
  tx: Tx,
  host: Pick<InstanceHost, 'clock' | 'timeZone'>,
  id: string,
  next_run: string | undefined,
) {
  const task = (await scheduledTasks.find(tx, { id })) ?? refuse('not_found', `there is no task ${id}`)
  const next =
    next_run === undefined
      ? nextTaskState(task, host.clock.now(), host.timeZone)
      : { status: 'active' as const, next_run: timestamp(Date.parse(next_run)) }
  if (next instanceof Refusal) throw next
  if (!(await finishSlot(tx, task, next))) refuseExpired(id)
  return scheduledTasks.find(tx, { id })
}

function refuseExpired(id: string): never {
  refuse('conflict', `task ${id} is not firing: its slot has ended, or another scheduler has leased it`)
}
