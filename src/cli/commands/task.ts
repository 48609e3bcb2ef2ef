// Scheduled tasks: prompts that are sent to an agent on a schedule.
import type { TaskRunLog } from '../../core/schedule/tasks.ts'
import { refuse } from '../../lib/refusal.ts'
import { collapseWhitespace } from '../../lib/text/whitespace.ts'
import { scheduledTasksResource } from '../../resources/scheduled-tasks.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { resolveIdPrefix } from '../input/id-prefix.ts'
import { truncateColumns } from '../output/message-table.ts'

const tasks = scheduledTasksResource.verbs

const PROMPT_WIDTH = 60
const RESULT_WIDTH = 100

export const taskCommands = [
  defineSvcCommand({
    usage: 'task <instance> list [--json]',
    about: 'list all scheduled tasks: when they run, in which chat, and what their turns may do (reach)',
    example: 'task demo list',
    run: async (svc) =>
      svc.print.table({
        rows: await svc.listAll(tasks.list, 'scheduled_tasks', {}),
        columns: {
          ID: ({ id }) => id,
          FOLDER: ({ owner }) => owner,
          CHAT: ({ chat_jid }) => chat_jid,
          TOPIC: ({ topic = '-' }) => topic,
          STATUS: ({ status }) => status,
          CRON: ({ cron = '-' }) => cron,
          NEXT_RUN: ({ next_run = '-' }) => next_run,
          REACH: ({ reach = 'all' }) => reach,
          PROMPT: ({ prompt }) => truncateColumns(collapseWhitespace(prompt), PROMPT_WIDTH),
        },
        empty: 'no tasks',
      }),
  }),
  defineSvcCommand({
    usage: 'task <instance> show <id> [--json]',
    about: 'show a task, its next runs and the results of its last ones; a unique prefix of the id is enough',
    example: 'task demo show main-mem-0',
    run: async (svc, { id }) => showTask(svc, await resolveTaskId(svc, id)),
  }),
  defineSvcCommand({
    usage: 'task <instance> add <chat> <prompt> [--cron|-c <schedule>] [--isolated]',
    about:
      'schedule a prompt; <chat> is where it answers, or a folder; --cron is five fields, milliseconds or an RFC 3339 time, default: once, now; --isolated runs it in a fresh session each time',
    example: "task demo add main 'Summarize yesterday.' --cron '0 9 * * *'",
    run: async (svc, { chat, prompt, cron, isolated }) => {
      const contextMode = isolated ? 'isolated' : 'group'
      const { taskId } = await svc.call(tasks.schedule, { targetJid: chat, prompt, cron, contextMode })
      svc.print.line(`added task ${taskId}`)
    },
  }),
  defineSvcCommand({
    usage: 'task <instance> change <id> [--prompt|-p <text>] [--cron|-c <schedule>]',
    about: 'change the prompt or the schedule of a task; a completed task with a new schedule runs again',
    example: "task demo change main-mem-0 --cron '0 8 * * 1-5'",
    run: async (svc, { id: typed, prompt, cron }) => {
      if (prompt === undefined && cron === undefined) refuse('invalid', 'nothing to change', 'give --prompt or --cron')
      const id = await resolveTaskId(svc, typed)
      await svc.call(tasks.update, { id, prompt, cron })
      svc.print.line(`changed task ${id}`)
    },
  }),
  defineSvcCommand({
    usage: 'task <instance> pause <id>',
    about: 'pause a task until it is resumed',
    example: 'task demo pause main-mem-0',
    run: (svc, { id }) => changeStatus(svc, id, 'paused'),
  }),
  defineSvcCommand({
    usage: 'task <instance> resume <id>',
    about: 'resume a paused task from its next slot on',
    example: 'task demo resume main-mem-0',
    run: (svc, { id }) => changeStatus(svc, id, 'active'),
  }),
  defineSvcCommand({
    usage: 'task <instance> run <id>',
    about: 'run a task once, now; its schedule does not change, and a paused task stays paused',
    example: 'task demo run main-mem-0',
    run: async (svc, { instance, id: typed }) => {
      const id = await resolveTaskId(svc, typed)
      const { message_id } = await svc.call(tasks.run, { id })
      svc.print.line(`started task ${id} once`)
      svc.print.say(`svc messages ${instance} show ${message_id} shows the result`)
    },
  }),
  defineSvcCommand({
    usage: 'task <instance> rm <id>',
    about: 'remove a task and the log of its runs permanently',
    example: 'task demo rm main-mem-0',
    run: async (svc, { id: typed }) => {
      const id = await resolveTaskId(svc, typed)
      await svc.call(tasks.delete, { id })
      svc.print.line(`removed task ${id}`)
    },
  }),
]

async function resolveTaskId(svc: SvcContext, typed: string): Promise<string> {
  const rows = await svc.listAll(tasks.list, 'scheduled_tasks', {})
  return resolveIdPrefix(
    'task',
    typed,
    rows.map(({ id }) => id),
  )
}

async function changeStatus(svc: SvcContext, typed: string, to: 'active' | 'paused'): Promise<void> {
  const id = await resolveTaskId(svc, typed)
  const readStatus = async (): Promise<string> => {
    const rows = await svc.listAll(tasks.list, 'scheduled_tasks', {})
    return rows.find((row) => row.id === id)?.status ?? refuse('not_found', `there is no task ${id}`)
  }
  const before = await readStatus()
  await svc.call(to === 'paused' ? tasks.pause : tasks.resume, { id })
  const after = await readStatus()
  svc.print.line(after === before ? `task ${id} is ${before}; nothing changed` : `task ${id}: ${before} -> ${after}`)
}

async function showTask(svc: SvcContext, id: string): Promise<void> {
  const { print } = svc
  const shown = await svc.call(tasks.show, { id })
  const { task, next_runs, runs } = shown
  print.record(
    {
      id: task.id,
      folder: task.owner,
      chat: task.chat_jid,
      status: task.status,
      cron: task.cron ?? '(once)',
      'next runs': next_runs.join(', ') || 'none',
      context: task.context_mode,
      reach: task.reach ?? 'all',
      created: task.created_at,
      prompt: task.prompt,
    },
    shown,
  )
  if (print.json) return
  print.table<TaskRunLog>({
    rows: runs,
    columns: {
      RUN_AT: ({ run_at }) => run_at,
      STATUS: ({ status }) => status,
      MS: ({ duration_ms }) => duration_ms,
      RESULT: ({ result, error }) => truncateColumns(collapseWhitespace(error ?? result ?? '-'), RESULT_WIDTH),
    },
    empty: 'no runs yet',
  })
}
