// Tasks on pages: the table, the history of one task, and the actions. The page of all tasks and the view of a folder share it.
import { refuse } from '../../lib/refusal.ts'
import { scheduledTasksResource } from '../../resources/scheduled-tasks.ts'
import { renderDetails } from '../../web/dash/detail-pane.ts'
import type { FormField } from '../../web/dash/form.ts'
import { badge, buttonLink, link, section, type Tone, textBlock, timeOf } from '../../web/dash/parts.ts'
import type { DataTable } from '../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import type { FormFields } from '../http/form-request.ts'
import { messagePath } from './message-parts.ts'
import { folderPath, type PageAction, type PageView } from './page.ts'
import { excerpt } from './turn-parts.ts'
import { optionalField, requiredField } from './typed-fields.ts'

const tasks = scheduledTasksResource.verbs
type TaskRow = Awaited<ReturnType<typeof tasks.list_of.run>>['tasks'][number]
type TaskRun = Awaited<ReturnType<typeof tasks.show.run>>['runs'][number]

export const taskActions: Readonly<Record<string, PageAction>> = {
  run: { verb: tasks.run, done: 'Task started once.' },
  pause: { verb: tasks.pause, done: 'Task paused.' },
  resume: { verb: tasks.resume, done: 'Task resumed.' },
  remove: {
    run: async (view, fields) => {
      await view.call(tasks.delete, { id: requiredField(fields, 'id') })
      return { to: view.url({ task: undefined }), done: 'Task deleted.' }
    },
    confirm: ({ id = '' }) => `Delete task ${id} and the log of its runs?`,
  },
  create: {
    run: async (view, fields) => {
      const { taskId } = await view.call(tasks.schedule, {
        targetJid: requiredField(fields, 'targetJid'),
        prompt: requiredField(fields, 'prompt'),
        cron: readSchedule(view, fields),
        contextMode: contextMode(fields),
      })
      return { to: view.url({ task: taskId }), done: `Created task ${taskId}.` }
    },
  },
  change: {
    run: async (view, fields) => {
      const id = requiredField(fields, 'id')
      const { prompt, cron } = { prompt: requiredField(fields, 'prompt'), cron: readSchedule(view, fields) }
      await view.call(tasks.update, { id, prompt, cron, context_mode: contextMode(fields) })
      return { done: `Changed task ${id}.` }
    },
  },
}

/** A time in the past would run the task at once, which is hardly what was meant here. */
function readSchedule({ nowMs }: PageView, fields: FormFields): string | undefined {
  const cron = optionalField(fields, 'cron')
  if (cron !== undefined && /^\d{4}-/.test(cron) && Date.parse(cron) < nowMs)
    refuse('invalid', 'cron is in the past', 'choose a later time, or leave the schedule empty')
  return cron
}

function contextMode(fields: FormFields): 'group' | 'isolated' {
  return optionalField(fields, 'context_mode') === 'isolated' ? 'isolated' : 'group'
}

const TONES: Readonly<Record<TaskRow['status'], Tone>> = {
  active: 'ok',
  firing: 'busy',
  paused: 'warn',
  completed: 'idle',
}

export async function taskTable(
  view: PageView,
  rows: readonly TaskRow[],
  options: {
    readonly next?: string | undefined
    readonly folder?: string | undefined
    readonly mayCreate?: boolean
    readonly isFiltered?: boolean
  },
): Promise<DataTable<TaskRow>> {
  const { next, folder, mayCreate = true, isFiltered = false } = options
  const inputs = rows.map(({ id }) => ({ id }))
  const mayRun = await view.mayEach(tasks.run, inputs)
  const mayChange = await view.mayEach(tasks.pause, inputs)
  const { nowMs } = view
  const instance = view.host.instance
  return {
    id: 'tasks',
    caption: 'Scheduled tasks',
    rows,
    rowId: ({ id }) => id,
    columns: [
      {
        label: 'Task',
        isProse: true,
        cell: ({ id, prompt }) =>
          html`${link(view.url({ task: id }), id)}<br><span class="muted" dir="auto">${excerpt(prompt)}</span>`,
        value: ({ id }) => id,
      },
      ...(folder === undefined
        ? [
            {
              label: 'Folder',
              cell: ({ owner }: TaskRow) => link(folderPath(owner, 'tasks'), owner),
              value: ({ owner }: TaskRow) => owner,
            },
          ]
        : []),
      { label: 'Chat', cell: ({ chat_jid }) => chat_jid },
      { label: 'State', cell: ({ status }) => badge(status, TONES[status]), value: ({ status }) => status },
      {
        label: 'Schedule',
        cell: ({ cron }) => html`<span class="nowrap">${describeSchedule(cron)}</span>`,
        value: ({ cron }) => cron,
      },
      {
        label: 'Next runs',
        cell: ({ next_runs }) => timesOf(next_runs, nowMs),
        value: ({ next_runs }) => next_runs.join(' '),
      },
      {
        label: 'Last run',
        cell: ({ last_run }) => (last_run ? runResult(last_run, nowMs) : html`<span class="muted">never</span>`),
        value: ({ last_run }) => last_run && `${last_run.run_at} ${last_run.status}`,
      },
    ],
    rowActions: ({ id, status }) => {
      const at = rows.findIndex((row) => row.id === id)
      const button = (action: string, text: string): Html =>
        view.button({ action, fixed: { id }, text, label: `${text} task ${id}` })
      const pause =
        status === 'paused'
          ? button('resume', 'Resume')
          : status === 'completed'
            ? EMPTY_HTML
            : button('pause', 'Pause')
      return html`${mayRun[at] ? button('run', 'Run now') : EMPTY_HTML}${mayChange[at] ? pause : EMPTY_HTML}`
    },
    empty: {
      text: isFiltered
        ? 'No task matches.'
        : folder === undefined
          ? 'There are no tasks.'
          : `${folder} has no tasks. A task sends a prompt to the agent at set times.`,
      next: mayCreate ? html`<p>${buttonLink('#new-task', 'Create a task')}</p>` : undefined,
      command: view.inTerminal(
        `svc task ${instance} add ${folder ?? 'main'} 'Summarize yesterday.' --cron '0 9 * * *'`,
      ),
    },
    next,
  }
}

function timesOf(times: readonly string[], nowMs: number): Html {
  return html`${times.map((at, index) => html`${index > 0 ? ', ' : ''}${timeOf(at, nowMs)}`)}`
}

const MINUTE_MS = 60_000

function describeSchedule(cron: string | undefined): string {
  if (cron === undefined) return 'once'
  if (!/^\d+$/.test(cron)) return cron
  const minutes = Number(cron) / MINUTE_MS
  return Number.isInteger(minutes) ? `every ${minutes} min` : `every ${Number(cron) / 1000} s`
}

function runResult({ run_at, status, error }: TaskRun, nowMs: number): Html {
  const tone = status === 'error' ? 'fault' : 'ok'
  return html`${badge(status === 'error' ? 'failed' : status, tone)} ${timeOf(run_at, nowMs)}${error === undefined ? EMPTY_HTML : html`<br><span class="muted">${excerpt(error)}</span>`}`
}

const SCHEDULE_HINT =
  'Five fields (0 9 * * 1-5 is 09:00 on weekdays), milliseconds between runs (3600000 is every hour), or a time such as 2030-01-31T09:00:00Z'

function taskFields(view: PageView, task?: Pick<TaskRow, 'prompt' | 'cron' | 'context_mode'>): FormField[] {
  const empty = task ? 'Empty: unchanged.' : 'Empty: once, now.'
  return [
    { name: 'prompt', label: 'Prompt', kind: 'multiline', isRequired: true, maxLength: 100_000, value: task?.prompt },
    {
      name: 'cron',
      label: 'Schedule',
      value: task?.cron,
      hint: `${SCHEDULE_HINT}. ${empty} Time zone: ${view.host.timeZone}.`,
    },
    {
      name: 'context_mode',
      label: 'Session',
      kind: 'select',
      options: [
        ['group', 'the session of the chat'],
        ['isolated', 'a fresh session for each run'],
      ],
      value: task?.context_mode ?? 'group',
    },
  ]
}

export function newTaskForm(view: PageView, chat: string, suggestions: readonly string[]): Html {
  const where: FormField = {
    name: 'targetJid',
    label: 'Chat',
    value: chat,
    suggestions,
    isRequired: true,
    hint: 'The chat that the task answers in, or the name of the folder. Its folder runs the task.',
  }
  const form = view.form({ action: 'create', fields: [where, ...taskFields(view)], submit: 'Create task' })
  return section('new-task', 'Create a task', form)
}

/** One task with the history of its runs and the form that changes it. */
export async function taskDetails(
  view: PageView,
  id: string,
): Promise<{ readonly details: Html; readonly form: Html }> {
  const { task, next_runs, runs } = await view.call(tasks.show, { id })
  const { nowMs } = view
  const table: DataTable<TaskRun> = {
    id: 'runs',
    caption: `Runs of ${id}`,
    rows: runs.toReversed(),
    rowId: (run) => run.id,
    columns: [
      { label: 'Time', cell: (run) => link(messagePath(run.id), timeOf(run.run_at, nowMs)) },
      {
        label: 'Result',
        cell: ({ status }) => badge(status === 'error' ? 'failed' : status, status === 'error' ? 'fault' : 'ok'),
      },
      { label: 'Seconds', cell: ({ duration_ms }) => (duration_ms / 1000).toFixed(1), isNumber: true },
      { label: 'Text', cell: ({ id: run, result, error }) => textBlock(`run-${run}`, error ?? result ?? '') },
    ],
    empty: { text: 'It has not run yet.', command: view.inTerminal(`svc task ${view.host.instance} run ${id}`) },
  }
  const shown = renderDetails({
    Folder: link(folderPath(task.owner, 'tasks'), task.owner),
    Chat: task.chat_jid,
    Topic: task.topic,
    State: badge(task.status, TONES[task.status]),
    Schedule: describeSchedule(task.cron),
    'Next runs': next_runs.length === 0 ? 'none' : timesOf(next_runs, nowMs),
    'Its turns may': task.reach ?? 'all',
    Created: timeOf(task.created_at, nowMs),
    Prompt: textBlock('prompt', task.prompt),
  })
  const close = buttonLink(view.url({ task: undefined }), 'Close')
  const mayChange = await view.may(tasks.update, { id })
  const change = mayChange
    ? html`${view.form({ action: 'change', fixed: { id }, fields: taskFields(view, task), submit: 'Save' })}${view.button({ action: 'remove', fixed: { id }, text: 'Delete this task', isDangerous: true })}`
    : EMPTY_HTML
  return {
    details: section('task', `Task ${id}`, html`${shown}<h3>Last runs</h3>${view.list(table)}`, close),
    form: mayChange ? section('change-task', `Change task ${id}`, change) : EMPTY_HTML,
  }
}
