// Scheduled tasks: prompts that fire by themselves.
import { scheduledTasksResource } from '../../resources/scheduled-tasks.ts'
import { command } from '../command.ts'
import { cut, oneLine } from '../message-table.ts'

const PROMPT_WIDTH = 60

export const taskCommands = [
  command({
    usage: 'task <instance> list [--json]',
    about: 'show every scheduled task: when it runs, where it speaks, and what its turns may do (reach)',
    example: 'task demo list',
    run: async (svc) =>
      svc.print.table({
        rows: await svc.rows(scheduledTasksResource.verbs.list, 'scheduled_tasks', {}),
        columns: {
          ID: ({ id }) => id,
          FOLDER: ({ owner }) => owner,
          CHAT: ({ chat_jid }) => chat_jid,
          TOPIC: ({ topic = '-' }) => topic,
          STATUS: ({ status }) => status,
          CRON: ({ cron = '-' }) => cron,
          NEXT_RUN: ({ next_run = '-' }) => next_run,
          REACH: ({ reach = 'all' }) => reach,
          PROMPT: ({ prompt }) => cut(oneLine(prompt), PROMPT_WIDTH),
        },
        empty: 'no tasks',
      }),
  }),
]
