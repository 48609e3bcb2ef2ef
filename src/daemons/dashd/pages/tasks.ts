// Scheduled tasks of all folders that the person administers.
import { scheduledTasksResource } from '../../../resources/scheduled-tasks.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, html } from '../../../web/html.ts'
import { definePage } from '../page.ts'
import { newTaskForm, taskActions, taskDetails, taskTable } from '../task-parts.ts'

export const tasksPage = definePage({
  path: '/dash/tasks',
  title: 'Tasks',
  nav: 'work',
  actions: taskActions,
  show: async (view) => {
    const { limit, query } = view
    const { tasks, next } = await view.call(scheduledTasksResource.verbs.list_of, { limit, after: query.after })
    const { details = EMPTY_HTML, form = EMPTY_HTML } =
      query.task === undefined ? {} : await taskDetails(view, query.task)
    return {
      title: 'Tasks',
      main: details,
      table: defineTable(await taskTable(view, tasks, { next })),
      bottom: html`${form}${newTaskForm(view, '', [...new Set(tasks.map(({ chat_jid }) => chat_jid))])}`,
      isLive: true,
    }
  },
})
