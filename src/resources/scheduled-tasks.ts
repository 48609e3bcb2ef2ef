// Scheduled tasks: prompts that fire by themselves. Served at /v1/tasks; its name everywhere else stays scheduled_tasks.
import { z } from 'zod'
import type { Reach } from '../core/access/reach.ts'
import { groups } from '../core/groups/groups.ts'
import { reachOfPerson } from '../core/messages/message-reach.ts'
import { findChatFolder } from '../core/routing/chat-folder.ts'
import { mustRespectMinInterval, nextRun, nextRuns, parseSchedule, type Schedule } from '../core/schedule/schedule.ts'
import { runTaskOnce } from '../core/schedule/task-firing.ts'
import {
  countTasks,
  lastRuns,
  removeOldestCompleted,
  ScheduledTask,
  scheduledTasks,
  TaskRunLog,
} from '../core/schedule/tasks.ts'
import { topicIn } from '../core/turns/turns.ts'
import { line } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { mustReachChat } from '../permissions/chat-access.ts'
import { mustReachTask, visibleTaskFilter } from '../permissions/task-access.ts'
import { mustHaveToolForRow, requireHost, requireToolForAgents } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { listVerb, mustFindRow } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'
import type { Patch } from '../store/table.ts'

type Task = z.output<typeof ScheduledTask>
const Ok = z.object({ ok: z.boolean() })
const OK = { ok: true }
/** How much `show` tells. */
const NEXT_RUNS = 3
const LAST_RUNS = 10

const Id = z.object({ id: line(320) })
const TaskId = line(320).describe('As schedule_task and list_tasks give it')
const ById = z.strictObject({ taskId: TaskId }).transform(({ taskId }) => ({ id: taskId }))
const ScheduleTask = z.object({
  targetJid: line(512).describe('The chat to speak in; its folder runs the task'),
  prompt: ScheduledTask.shape.prompt.describe('What the agent is told when the time comes'),
  cron: z
    .string()
    .max(256)
    .optional()
    .describe('Five-field cron, milliseconds between runs, or an RFC 3339 time; absent: once, now'),
  contextMode: ScheduledTask.shape.context_mode
    .default('group')
    .describe("group: in the chat's own session; isolated: in a fresh one"),
})

export const scheduledTasksResource = defineResource({
  of: scheduledTasks,
  title: 'ScheduledTasks',
  servedBy: 'routd',
  path: '/v1/tasks',
  exported: {
    references: { owner: 'groups' },
    exportRow: shownTask,
    check: (rows) => rows.map(timeFault).find((fault) => fault !== undefined),
    fill: fillTask,
  },
  verbs: (table) => ({
    list: listVerb(table, 'scheduled_tasks', {
      authorize: requireToolForAgents,
      order: [['id', 'asc']],
      folder: 'owner',
      keep: visibleTaskFilter,
      when: 'See which tasks are scheduled.',
      reach: 'chat',
      tool: 'list_tasks',
      tiers: { max: 1, granted: 1 },
      toolReply: ({ scheduled_tasks }) => scheduled_tasks,
    }),

    /** All that is known of one task. For the command line alone. */
    show: defineVerb({
      isReadOnly: true,
      input: Id,
      output: z.object({ task: ScheduledTask, next_runs: z.array(z.string()), runs: z.array(TaskRunLog) }),
      authorize: requireHost,
      run: async (ctx, { id }) => {
        const task = await mustFindRow(ctx, table, { id }, `task ${id}`)
        // What is paused or over fires at none of its times.
        const next_runs = task.status === 'active' ? nextRuns(task, ctx.timeZone, NEXT_RUNS) : []
        return { task, next_runs, runs: await lastRuns(ctx.tx, id, LAST_RUNS) }
      },
    }),

    /** Fires it once, now, whatever its state, and leaves its schedule alone. For the command line alone. */
    run: defineVerb({
      input: Id,
      output: z.object({ message_id: z.string() }),
      authorize: requireHost,
      appendsMessages: true,
      run: async (ctx, { id }) => {
        const task = await mustFindRow(ctx, table, { id }, `task ${id}`)
        return { message_id: (await runTaskOnce(ctx.tx, ctx, task)).id }
      },
      finish: async ({ host }, reply) => {
        host.signals.emit()
        return reply
      },
    }),

    schedule: defineVerb({
      tool: 'schedule_task',
      tiers: { max: 1, granted: 1 },
      when: 'Have a prompt run later, or again and again.',
      reach: 'chat',
      input: ScheduleTask,
      output: z.object({ taskId: z.string() }),
      authorize: async (ctx, { targetJid: jid }) => {
        // Rules know a chat as `jid`, whatever the argument is called.
        const about = { ...ctx, params: { ...ctx.params, jid } }
        await mustHaveToolForRow(about, await ownerOf(ctx, jid), jid)
        if (ctx.reach === 'chat') await mustReachChat(ctx, jid)
      },
      run: schedule,
      // What is due now need not wait for the scheduler's next look.
      finish: async ({ host }, reply) => {
        host.signals.emit()
        return reply
      },
    }),

    update: defineVerb({
      http: 'PATCH /{id}',
      input: Id.extend({
        prompt: ScheduledTask.shape.prompt.optional(),
        cron: line(256)
          .meta({ format: 'schedule' })
          .optional()
          .describe('Five-field cron, milliseconds between runs, or an RFC 3339 time'),
        status: z.enum(['active', 'paused']).optional(),
        context_mode: ScheduledTask.shape.context_mode.optional(),
      }),
      output: ScheduledTask,
      authorize: async (ctx, { id }) => mustOwn(ctx, await mustFindRow(ctx, table, { id }, `task ${id}`)),
      run: async (ctx, { id, cron, status, ...patch }) => {
        const task = await mustFindRow(ctx, table, { id }, `task ${id}`)
        const changed = { ...moved(ctx, task, status), ...timed(ctx, task, cron) }
        if (changed.status === 'active') await mustHaveActiveRoom(ctx, task.owner)
        const { prompt = task.prompt, context_mode = task.context_mode } = patch
        await table.update(ctx.tx, { id }, { prompt, context_mode, ...changed })
        return mustFindRow(ctx, table, { id }, `task ${id}`)
      },
    }),

    pause: defineVerb({
      tool: 'pause_task',
      tiers: { max: 1, granted: 1 },
      when: 'Stop a task from firing, and keep it.',
      reach: 'chat',
      input: Id,
      toolInput: ById,
      output: Ok,
      authorize: async (ctx, { id }) => mustOwn(ctx, await mustFindRow(ctx, table, { id }, `task ${id}`)),
      run: async (ctx, { id }) => {
        const task = await mustFindRow(ctx, table, { id }, `task ${id}`)
        await table.update(ctx.tx, { id }, moved(ctx, task, 'paused'))
        return OK
      },
    }),

    resume: defineVerb({
      tool: 'resume_task',
      tiers: { max: 1, granted: 1 },
      when: 'Let a paused task fire again.',
      reach: 'chat',
      input: Id,
      toolInput: ById,
      output: Ok,
      authorize: async (ctx, { id }) => {
        const task = await table.find(ctx.tx, { id })
        if (task) await mustOwn(ctx, task)
        else await requireToolForAgents(ctx)
      },
      run: async (ctx, { id }) => {
        const task = await table.find(ctx.tx, { id })
        const changed = task && moved(ctx, task, 'active')
        if (task && changed?.status === 'active') await mustHaveActiveRoom(ctx, task.owner)
        if (changed) await table.update(ctx.tx, { id }, changed)
        return OK
      },
    }),

    delete: defineVerb({
      http: 'DELETE /{id}',
      tool: 'cancel_task',
      tiers: { max: 1, granted: 1 },
      when: 'Remove a task for good.',
      reach: 'chat',
      input: Id,
      toolInput: ById,
      output: Ok,
      authorize: async (ctx, { id }) => mustOwn(ctx, await mustFindRow(ctx, table, { id }, `task ${id}`)),
      run: async (ctx, { id }) => {
        await table.remove(ctx.tx, { id })
        return OK
      },
    }),
  }),
})

async function ownerOf(ctx: Context, jid: string): Promise<string> {
  const folder = await findChatFolder(ctx.tx, jid, ctx.routes)
  // A route outlives its group; a task that nobody would run is not made.
  const group = folder === undefined ? undefined : await groups.find(ctx.tx, { folder })
  return group?.folder ?? refuse('not_found', `no group is registered for ${jid}`)
}

async function mustOwn(ctx: Context, task: Task): Promise<void> {
  await mustHaveToolForRow(ctx, task.owner, `task ${task.id}`)
  await mustReachTask(ctx, task)
}

/** The same prompt at the same times in the same topic of a chat is the same task. It speaks where it was asked for. */
async function schedule(ctx: Context, { targetJid, prompt, cron, contextMode }: z.output<typeof ScheduleTask>) {
  const owner = await ownerOf(ctx, targetJid)
  const reach = await reachOfMaker(ctx, owner)
  const task = { owner, chat_jid: targetJid, prompt, context_mode: contextMode, status: 'active' as const, reach }
  const timing = allowedSchedule(ctx, cron)
  const topic = topicIn(await ctx.turn(), targetJid) || undefined
  const alike = timing.cron === undefined ? [] : await scheduledTasks.list(ctx.tx, { ...task, cron: timing.cron })
  const known = alike.find((one) => one.topic === topic)
  if (known) return { taskId: known.id }
  await mustHaveActiveRoom(ctx, owner)
  await makeRoom(ctx, owner)
  const id = `task-${ctx.clock.now()}-${Buffer.from(ctx.random.bytes(4)).toString('hex')}`
  await scheduledTasks.insert(ctx.tx, { id, ...task, topic, ...timing, created_at: ctx.now })
  return { taskId: id }
}

/** A task keeps the reach of the turn that made it, and of a person what a message of theirs would have. */
async function reachOfMaker(ctx: Context, folder: string): Promise<Reach> {
  return ctx.caller.kind === 'person' ? reachOfPerson(await ctx.policy(), ctx.caller.sub, folder) : ctx.reach
}

/** The command line may give any interval that the scheduler can keep. */
function allowedSchedule(ctx: Context, cron: string | undefined): Schedule {
  const timing = parseSchedule(cron, ctx.clock.now(), ctx.timeZone)
  if (ctx.caller.kind !== 'host') mustRespectMinInterval(timing, ctx.limits.taskIntervalMs)
  return timing
}

async function mustHaveActiveRoom(ctx: Context, owner: string): Promise<void> {
  const max = ctx.limits.activeTasksPerFolder
  if (max === 0 || ctx.caller.kind === 'host') return
  const active = await countTasks(ctx.tx, owner, ['active', 'firing'])
  if (active >= max)
    refuse(
      'conflict',
      `${owner} has ${active} active tasks, and ${max} are allowed`,
      'pause or cancel one of them first',
    )
}

/** Completed tasks make room for a new one, the oldest first. */
async function makeRoom(ctx: Context, owner: string): Promise<void> {
  const max = ctx.limits.tasksPerFolder
  if (max === 0 || ctx.caller.kind === 'host') return
  const excess = (await countTasks(ctx.tx, owner)) - max + 1
  if (excess <= 0) return
  const removed = await removeOldestCompleted(ctx.tx, owner, excess)
  if (removed < excess)
    refuse('conflict', `${owner} has ${max} tasks, which is the most that is allowed`, 'cancel one of them first')
}

/** New times, and with them a task that was over is not over any more. */
function timed(ctx: Context, { status }: Task, cron: string | undefined): Patch<Task> {
  if (cron === undefined) return {}
  const { cron: kept, next_run } = allowedSchedule(ctx, cron)
  return { cron: kept, next_run, ...(status === 'completed' ? { status: 'active' } : {}) }
}

/** Pausing stops what would fire again, resuming goes on from a pause, and neither revives what is over. */
function moved(ctx: Context, { status, cron }: Task, wish: 'active' | 'paused' | undefined): Patch<Task> {
  if (wish === 'paused') {
    const firesAgain = status === 'active' || (status === 'firing' && cron !== undefined)
    return firesAgain ? { status: 'paused' } : {}
  }
  if (wish === undefined || status !== 'paused') return {}
  // Slots that went by while it was paused are gone; a single run that is due is still due.
  return { status: 'active', ...(cron === undefined ? {} : { next_run: nextRun(cron, ctx.clock.now(), ctx.timeZone) }) }
}

/** A single run keeps its time, and is not exported once it has fired. The next run of any other task is computed. */
function shownTask(task: Task): Task | undefined {
  const { cron, status } = task
  if (cron === undefined) return status === 'completed' || status === 'firing' ? undefined : task
  // That it runs at this moment is no configuration.
  return { ...task, next_run: undefined, status: status === 'firing' ? 'active' : status }
}

function timeFault({ cron, next_run }: Task): string | undefined {
  return cron === undefined || next_run === undefined
    ? undefined
    : 'next_run is for a task without cron: the next run of any other is computed'
}

/** A manifest says when a task with a cron runs, never when next: an old export must not rewind a schedule. */
function fillTask(ctx: Context, row: Task, current: Task | undefined): Task {
  const status = statusAfterApply(row, current)
  const task = { ...row, status, created_at: row.created_at ?? current?.created_at ?? ctx.now }
  if (row.cron === undefined) return { ...task, next_run: singleRun(ctx, { ...row, status }, current) }
  const isResumed = current?.status === 'paused' && status === 'active'
  if (current && current.cron === row.cron && !isResumed) return { ...task, next_run: current.next_run }
  const { cron, next_run } = parseSchedule(row.cron, ctx.clock.now(), ctx.timeZone)
  // Every apply would schedule it anew.
  if (cron === undefined)
    refuse('invalid', 'cron must be five fields or milliseconds: the time of a single run is its next_run')
  return { ...task, cron, next_run: current?.cron === cron && !isResumed ? current.next_run : next_run }
}

/** In UTC like every time in the store. Without a time it is the one that it has, or now. */
function singleRun(ctx: Context, { status, next_run }: Task, current: Task | undefined): string | undefined {
  const isOld = current !== undefined && current.cron === undefined
  if (status === 'completed' || status === 'firing') return isOld ? current.next_run : undefined
  if (next_run !== undefined) return parseSchedule(next_run, ctx.clock.now(), ctx.timeZone).next_run
  return isOld ? current.next_run : ctx.now
}

/** What runs goes on running, and a single run that is over is over, whatever an old export remembers. */
function statusAfterApply(row: Task, current: Task | undefined): Task['status'] {
  if (row.status === 'paused' || row.status === 'completed') return row.status
  if (current?.status === 'completed' && row.cron === undefined) return 'completed'
  return current?.status === 'firing' ? 'firing' : 'active'
}
