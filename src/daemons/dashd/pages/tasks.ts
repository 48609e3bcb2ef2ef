// Scheduled tasks of all folders that the person administers.
import type { z } from 'zod'
import { ScheduledTask } from '../../../core/schedule/tasks.ts'
import { scheduledTasksResource } from '../../../resources/scheduled-tasks.ts'
import { renderFilters } from '../../../web/dash/filter-bar.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { omitEmpty } from '../message-parts.ts'
import { definePage, type PageView } from '../page.ts'
import { newTaskForm, taskActions, taskDetails, taskTable } from '../task-parts.ts'
import { explainWrongFilter } from '../wrong-filters.ts'

const { list_of } = scheduledTasksResource.verbs

export const tasksPage = definePage({
  path: '/dash/tasks',
  title: 'Tasks',
  nav: 'work',
  actions: taskActions,
  show: async (view) => {
    const { limit, query } = view
    const { folder, status, after } = query
    // The verb checks the values.
    const given = omitEmpty({ folder, status, after }) as Omit<z.input<typeof list_of.input>, 'limit'>
    const found = await explainWrongFilter(() => view.call(list_of, { limit, ...given }))
    if (!('tasks' in found)) return { title: 'Tasks', top: filters(view), ...found }
    const { tasks, next } = found
    const { details = EMPTY_HTML, form = EMPTY_HTML } =
      query.task === undefined ? {} : await taskDetails(view, query.task)
    return {
      title: 'Tasks',
      top: filters(view),
      main: details,
      table: defineTable(await taskTable(view, tasks, { next, isFiltered: Boolean(folder || status) })),
      bottom: html`${form}${newTaskForm(view, '', [...new Set(tasks.map(({ chat_jid }) => chat_jid))])}`,
      isLive: true,
    }
  },
})

function filters({ path, query }: PageView): Html {
  return renderFilters({
    id: 'task-filters',
    path,
    query,
    fields: [
      { name: 'folder', label: 'Folder', kind: 'search' },
      { name: 'status', label: 'State', kind: 'select', options: [['', 'any'], ...ScheduledTask.shape.status.options] },
    ],
  })
}
