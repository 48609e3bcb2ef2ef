// Scheduled tasks: prompts that run at set times. Served at /v1/tasks; everywhere else the name is scheduled_tasks.
import { z } from 'zod'
import { AGENT_LIMITS } from '../core/access/agent-limits.ts'
import type { Reach } from '../core/access/reach.ts'
import { groups } from '../core/groups/groups.ts'
import { reachOfPerson } from '../core/messages/message-reach.ts'
import { findChatFolder } from '../core/routing/chat-folder.ts'
import { mustRespectMinInterval, nextRun, nextRuns, parseSchedule, type Schedule } from '../core/schedule/schedule.ts'
import { runTaskOnce } from '../core/schedule/task-firing.ts'
import { firstRunAt, ratedTasks, rateOf, type TaskRate } from '../core/schedule/task-rates.ts'
import {
  countTasks,
  lastRunOfEach,
  lastRuns,
  removeOldestCompleted,
  ScheduledTask,
  scheduledTasks,
  TaskRunLog,
} from '../core/schedule/tasks.ts'
import { topicIn } from '../core/turns/turns.ts'
import { Folder, line } from '../core/values.ts'
import { timestamp } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'
import { formatDuration } from '../lib/text/duration.ts'
import { mustHaveReaders, mustReachChat, otherVisitors } from '../permissions/chat-access.ts'
import { mustReachTask, visibleTaskFilter } from '../permissions/task-access.ts'
import {
  canOperate,
  hasTool,
  INSTANCE_SCOPE,
  mustHaveTool,
  operatorOn,
  operatorWho,
  requireToolForAgents,
} from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import {
  administeredRows,
  listVerb,
  mustFindGroup,
  mustFindRow,
  mustFindRowWithTool,
  Paging,
  readPage,
} from '../registry/crud.ts'
import { defineResource, defineVerb, toolArguments } from '../registry/resource.ts'
import { signalCommit } from '../registry/tool.ts'
import type { Patch } from '../store/table.ts'

type Task = z.output<typeof ScheduledTask>
const Ok = z.object({ ok: z.boolean() })
const OK = { ok: true }
/** Number of runs that `show` returns. */
const NEXT_RUNS = 3
const LAST_RUNS = 10

/** A task as listed on the dashboard. */
const TaskSummary = ScheduledTask.extend({ next_runs: z.array(z.string()), last_run: TaskRunLog.optional() })

const Id = z.object({ id: line(320) })
const TaskId = line(320).describe('As returned by schedule_task and list_tasks')
const ById = toolArguments({ taskId: TaskId }, ({ taskId }) => ({ id: taskId }))
/** Shared by the tools that change the state of one task. */
const TASK_TOOL = {
  activity: 'Changing a scheduled task',
  tiers: { max: 1, granted: 1 },
  reach: 'chat',
  input: Id,
  toolInput: ById,
  output: Ok,
} as const
const CRON = `Five-field cron, milliseconds between runs (at least TASK_MIN_INTERVAL, ${AGENT_LIMITS.taskIntervalMs} by default), or an RFC 3339 time`
const ScheduleTask = z.object({
  targetJid: line(512).describe('The chat that the task answers in; its folder runs the task'),
  prompt: ScheduledTask.shape.prompt.describe('The prompt of each run'),
  cron: z.string().max(256).optional().describe(`${CRON}; default: once, now`),
  contextMode: ScheduledTask.shape.context_mode
    .default('group')
    .describe('group: in the session of the chat; isolated: in a fresh session'),
})

export const scheduledTasksResource = defineResource({
  of: scheduledTasks,
  title: 'ScheduledTasks',
  servedBy: 'routd',
  path: '/v1/tasks',
  exported: {
    exportRow: exportTask,
    check: (rows) => rows.map(nextRunFault).find((fault) => fault !== undefined),
    fill: fillTask,
  },
  verbs: (table) => ({
    list: listVerb(table, 'scheduled_tasks', {
      authorize: requireToolForAgents,
      order: [['id', 'asc']],
      folder: 'owner',
      keep: visibleTaskFilter,
      when: 'List the scheduled tasks.',
      activity: 'Looking at scheduled tasks',
      reach: 'chat',
      tool: 'list_tasks',
      tiers: { max: 1, granted: 1 },
      toolReply: ({ scheduled_tasks }) => scheduled_tasks,
    }),

    /** Tasks of a folder, or of all that the person administers, with their next and last runs. Not for tools and REST. */
    list_of: defineVerb({
      isReadOnly: true,
      input: Paging.extend({ folder: Folder.optional(), status: ScheduledTask.shape.status.optional() }),
      output: z.object({ tasks: z.array(TaskSummary), next: z.string().optional() }),
      authorize: operatorWho((ctx, { folder }) => folder === undefined || canOperate(ctx, folder)),
      run: async (ctx, { folder, status, ...paging }) => {
        if (folder !== undefined) await mustFindGroup(ctx, folder)
        const { below, keep } = await administeredRows<Task>(ctx, 'owner')
        const where = {
          ...(folder === undefined ? {} : { owner: folder }),
          ...(status === undefined ? {} : { status }),
        }
        const order = [['id', 'asc']] as const
        const { rows, next } = await readPage(ctx, table, { where, order, ...paging, below, ...(keep ? { keep } : {}) })
        const ids = rows.map(({ id }) => id)
        const runs = await lastRunOfEach(ctx.tx, ids)
        const tasks = rows.map((task) => summarize(ctx, task, runs.get(task.id)))
        return { tasks, ...(next === undefined ? {} : { next }) }
      },
    }),

    /** One task with its runs. Only for the command line and the dashboard. */
    show: defineVerb({
      isReadOnly: true,
      input: Id,
      output: z.object({ task: ScheduledTask, next_runs: z.array(z.string()), runs: z.array(TaskRunLog) }),
      authorize: operatorOn(folderOfTask),
      run: async (ctx, { id }) => {
        const task = await mustFindTask(ctx, id)
        return { task, next_runs: listNextRuns(ctx, task), runs: await lastRuns(ctx.tx, id, LAST_RUNS) }
      },
    }),

    /** Runs the task once, now, whatever its state, without changing its schedule. Only for the command line and the dashboard. */
    run: defineVerb({
      input: Id,
      output: z.object({ message_id: z.string() }),
      authorize: operatorOn(folderOfTask),
      appendsMessages: true,
      run: async (ctx, { id }) => {
        const task = await mustFindTask(ctx, id)
        const { id: message_id, keys } = await runTaskOnce(ctx.tx, ctx, task)
        ctx.afterCommit(() => ctx.signals.emit(keys))
        return { message_id }
      },
    }),

    schedule: defineVerb({
      tool: 'schedule_task',
      tiers: { max: 1, granted: 1 },
      when: 'Schedule a prompt to run once or repeatedly.',
      activity: 'Scheduling a task',
      reach: 'chat',
      input: ScheduleTask,
      output: z.object({
        taskId: z.string(),
        runsAt: z.string().optional().describe('Set if the task runs later than requested'),
        note: z.string().optional(),
      }),
      authorize: async (ctx, { targetJid: jid }) => {
        // Rules match the chat as `jid`, whatever the argument is called.
        const params = { ...ctx.params, jid }
        await mustOwnChat({ ...ctx, params }, jid)
        if (ctx.reach === 'chat' || (await otherVisitors(ctx))(jid)) await mustReachChat(ctx, jid)
        await mustHaveReaders(ctx, jid)
      },
      run: schedule,
      finish: signalCommit,
    }),

    update: defineVerb({
      http: 'PATCH /{id}',
      input: Id.extend({
        prompt: ScheduledTask.shape.prompt.optional(),
        cron: line(256).meta({ format: 'schedule' }).optional().describe(CRON),
        status: z.enum(['active', 'paused']).optional(),
        context_mode: ScheduledTask.shape.context_mode.optional(),
      }),
      output: ScheduledTask,
      authorize: mustOwn,
      run: async (ctx, { id, cron, status, ...patch }) => {
        const task = await mustFindTask(ctx, id)
        const changed = { ...statusPatch(ctx, task, status), ...cronPatch(ctx, task, cron) }
        if (changed.status === 'active') await mustHaveActiveRoom(ctx, task.owner)
        const { prompt = task.prompt, context_mode = task.context_mode } = patch
        await table.update(ctx.tx, { id }, { prompt, context_mode, ...changed })
        return mustFindTask(ctx, id)
      },
    }),

    pause: defineVerb({
      ...TASK_TOOL,
      tool: 'pause_task',
      when: 'Pause a task: it is kept but does not run.',
      authorize: mustOwn,
      run: async (ctx, { id }) => {
        const task = await mustFindTask(ctx, id)
        await table.update(ctx.tx, { id }, statusPatch(ctx, task, 'paused'))
        return OK
      },
    }),

    resume: defineVerb({
      ...TASK_TOOL,
      tool: 'resume_task',
      when: 'Resume a paused task.',
      authorize: async (ctx, { id }) => {
        if (await table.find(ctx.tx, { id })) await mustOwn(ctx, { id })
        else await requireToolForAgents(ctx)
      },
      run: async (ctx, { id }) => {
        const task = await table.find(ctx.tx, { id })
        const changed = task && statusPatch(ctx, task, 'active')
        if (task && changed?.status === 'active') await mustHaveActiveRoom(ctx, task.owner)
        if (changed) await table.update(ctx.tx, { id }, changed)
        return OK
      },
    }),

    delete: defineVerb({
      ...TASK_TOOL,
      http: 'DELETE /{id}',
      tool: 'cancel_task',
      when: 'Delete a task permanently.',
      authorize: mustOwn,
      run: async (ctx, { id }) => {
        await table.remove(ctx.tx, { id })
        return OK
      },
    }),
  }),
})

async function ownerOf(ctx: Context, jid: string): Promise<string> {
  const folder = await findChatFolder(ctx.tx, jid, ctx.routes)
  // The route may outlive its group, and a task without a group would never run.
  const group = folder === undefined ? undefined : await groups.find(ctx.tx, { folder })
  return group?.folder ?? refuse('not_found', `no group is registered for ${jid}`)
}

/** The error does not reveal the folder of the chat. */
async function mustOwnChat(ctx: Context, jid: string): Promise<void> {
  if (await hasTool(ctx, await ownerOf(ctx, jid))) return
  // An agent without the tool on its own folder gets the ordinary reason.
  if (ctx.caller.kind === 'agent') await mustHaveTool(ctx, ctx.caller.folder)
  refuse('forbidden', `${ctx.tool}: not permitted on ${jid}`)
}

function summarize(ctx: Context, task: Task, last_run: TaskRunLog | undefined): z.output<typeof TaskSummary> {
  return { ...task, next_runs: listNextRuns(ctx, task), ...(last_run ? { last_run } : {}) }
}

/** Paused and completed tasks have no next run. */
function listNextRuns({ timeZone }: Context, task: Task): string[] {
  return task.status === 'active' ? nextRuns(task, timeZone, NEXT_RUNS) : []
}

async function folderOfTask({ id }: { readonly id: string }, { tx }: Context): Promise<string> {
  return (await scheduledTasks.find(tx, { id }))?.owner ?? INSTANCE_SCOPE
}

function mustFindTask(ctx: Context, id: string): Promise<Task> {
  return mustFindRow(ctx, scheduledTasks, { id }, `task ${id}`)
}

async function mustOwn(ctx: Context, { id }: { id: string }): Promise<void> {
  const scopeOf = ({ owner }: Task): string => owner
  await mustReachTask(ctx, await mustFindRowWithTool(ctx, scheduledTasks, { id }, { label: `task ${id}`, scopeOf }))
}

/** Returns the existing task if prompt, schedule, chat and topic are the same. */
async function schedule(ctx: Context, { targetJid, prompt, cron, contextMode }: z.output<typeof ScheduleTask>) {
  const owner = await ownerOf(ctx, targetJid)
  const reach = await reachOfCreator(ctx, owner)
  const task = { owner, chat_jid: targetJid, prompt, context_mode: contextMode, status: 'active' as const, reach }
  const timing = allowedSchedule(ctx, cron)
  const turn = await ctx.turn()
  const topic = topicIn(turn, targetJid) || undefined
  const similar = timing.cron === undefined ? [] : await scheduledTasks.list(ctx.tx, { ...task, cron: timing.cron })
  const existing = similar.find((other) => other.topic === topic)
  if (existing) return { taskId: existing.id }
  await mustHaveActiveRoom(ctx, owner)
  await makeRoom(ctx, owner)
  const id = `task-${ctx.clock.now()}-${Buffer.from(ctx.random.bytes(4)).toString('hex')}`
  const rate = isRated(ctx, timing) ? await rateOf(ctx.tx, task, turn, ctx.limits.taskIntervalMs) : undefined
  const next_run = rate ? await allowedRun(ctx, rate, timing.next_run) : timing.next_run
  await scheduledTasks.insert(ctx.tx, { id, ...task, topic, ...timing, next_run, created_at: ctx.now })
  if (rate) await ratedTasks.insert(ctx.tx, { task_id: id, ...rate })
  return { taskId: id, ...(rate && next_run !== timing.next_run ? describeDelay(rate, next_run) : {}) }
}

/** Tasks that run once, except for those of the command line. */
function isRated({ caller, limits }: Context, { cron }: Schedule): boolean {
  return cron === undefined && limits.taskIntervalMs > 0 && caller.kind !== 'host'
}

async function allowedRun({ tx, clock }: Context, rate: TaskRate, wanted: string): Promise<string> {
  const at = await firstRunAt(tx, rate, Date.parse(wanted), clock.now())
  return at > clock.now() ? timestamp(at) : wanted
}

function describeDelay({ interval_ms, burst }: TaskRate, runsAt: string): { runsAt: string; note: string } {
  const which = burst === 1 ? 'tasks that a task or another agent schedules' : 'the tasks of this chat'
  return { runsAt, note: `It runs at ${runsAt}: ${which} run at most once every ${formatDuration(interval_ms)}.` }
}

/** A task has the reach of the turn that created it; for a person, the reach of their messages. */
async function reachOfCreator(ctx: Context, folder: string): Promise<Reach> {
  return ctx.caller.kind === 'person' ? reachOfPerson(await ctx.policy(), ctx.caller.sub, folder) : ctx.reach
}

/** The minimum interval does not apply to the command line. */
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

/** Deletes the oldest completed tasks if the folder is at its limit. */
async function makeRoom(ctx: Context, owner: string): Promise<void> {
  const max = ctx.limits.tasksPerFolder
  if (max === 0 || ctx.caller.kind === 'host') return
  const excess = (await countTasks(ctx.tx, owner)) - max + 1
  if (excess <= 0) return
  const removed = await removeOldestCompleted(ctx.tx, owner, excess)
  if (removed < excess)
    refuse('conflict', `${owner} has ${max} tasks, which is the maximum`, 'cancel one of them first')
}

/** A new schedule reactivates a completed task. */
function cronPatch(ctx: Context, { status }: Task, cron: string | undefined): Patch<Task> {
  if (cron === undefined) return {}
  const { cron: parsed, next_run } = allowedSchedule(ctx, cron)
  return { cron: parsed, next_run, ...(status === 'completed' ? { status: 'active' } : {}) }
}

/** Pausing and resuming have no effect on a completed task. */
function statusPatch(ctx: Context, { status, cron }: Task, wanted: 'active' | 'paused' | undefined): Patch<Task> {
  if (wanted === 'paused') {
    const runsAgain = status === 'active' || (status === 'firing' && cron !== undefined)
    return runsAgain ? { status: 'paused' } : {}
  }
  if (wanted === undefined || status !== 'paused') return {}
  // Runs missed during the pause are skipped, except for a task that runs once.
  return { status: 'active', ...(cron === undefined ? {} : { next_run: nextRun(cron, ctx.clock.now(), ctx.timeZone) }) }
}

/** A one-time task is exported with its time until it has run; the next run of any other task is computed. */
function exportTask(task: Task): Task | undefined {
  const { cron, status } = task
  if (cron === undefined) return status === 'completed' || status === 'firing' ? undefined : task
  return { ...task, next_run: undefined, status: status === 'firing' ? 'active' : status }
}

function nextRunFault({ cron, next_run }: Task): string | undefined {
  return cron === undefined || next_run === undefined
    ? undefined
    : 'next_run is only for a task without cron: the next run of any other is computed'
}

/** Computes next_run of a task with cron, so that an old export cannot rewind its schedule. */
function fillTask(ctx: Context, row: Task, current: Task | undefined): Task {
  const status = statusAfterApply(row, current)
  const task = { ...row, status, created_at: row.created_at ?? current?.created_at ?? ctx.now }
  if (row.cron === undefined) return { ...task, next_run: oneTimeRun(ctx, { ...row, status }, current) }
  const isResumed = current?.status === 'paused' && status === 'active'
  if (current && current.cron === row.cron && !isResumed) return { ...task, next_run: current.next_run }
  const { cron, next_run } = parseSchedule(row.cron, ctx.clock.now(), ctx.timeZone)
  // A time in cron would schedule the run again with every apply.
  if (cron === undefined)
    refuse('invalid', 'cron must be five fields or milliseconds: the time of a one-time task is its next_run')
  return { ...task, cron, next_run: current?.cron === cron && !isResumed ? current.next_run : next_run }
}

/** The time in the manifest in UTC, else the stored time, else now. */
function oneTimeRun(ctx: Context, { status, next_run }: Task, current: Task | undefined): string | undefined {
  const wasOneTime = current !== undefined && current.cron === undefined
  if (status === 'completed' || status === 'firing') return wasOneTime ? current.next_run : undefined
  if (next_run !== undefined) return parseSchedule(next_run, ctx.clock.now(), ctx.timeZone).next_run
  return wasOneTime ? current.next_run : ctx.now
}

/** Applying an old export neither stops a running task nor repeats a completed one-time task. */
function statusAfterApply(row: Task, current: Task | undefined): Task['status'] {
  if (row.status === 'paused' || row.status === 'completed') return row.status
  if (current?.status === 'completed' && row.cron === undefined) return 'completed'
  return current?.status === 'firing' ? 'firing' : 'active'
}
