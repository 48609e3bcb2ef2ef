// Scheduled tasks of a folder.
import { routeTokensResource } from '../../../resources/route-tokens.ts'
import { scheduledTasksResource } from '../../../resources/scheduled-tasks.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, html } from '../../../web/html.ts'
import { newTaskForm, taskActions, taskDetails, taskTable } from '../task-parts.ts'
import { defineFolderView } from './view.ts'

const SUGGESTED_LINKS = 50

export const tasksView = defineFolderView({
  name: 'tasks',
  title: 'Tasks',
  actions: taskActions,
  show: async (view, folder) => {
    const { limit, query } = view
    const { tasks, next } = await view.call(scheduledTasksResource.verbs.list_of, { folder, limit, after: query.after })
    const { details = EMPTY_HTML, form = EMPTY_HTML } =
      query.task === undefined ? {} : await taskDetails(view, query.task)
    const { tokens } = await view.call(routeTokensResource.verbs.list_of, { folder, limit: SUGGESTED_LINKS })
    const chats = [...new Set([folder, ...tokens.map(({ jid }) => jid)])]
    const mayCreate = await view.may(scheduledTasksResource.verbs.schedule, {
      ...{ targetJid: folder, prompt: '', contextMode: 'group' },
    })
    return {
      main: details,
      table: defineTable(await taskTable(view, tasks, { next, folder, mayCreate })),
      bottom: html`${form}${mayCreate ? newTaskForm(view, folder, chats) : EMPTY_HTML}`,
      isLive: true,
    }
  },
})
