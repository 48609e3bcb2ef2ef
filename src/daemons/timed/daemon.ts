// timed: fires scheduled tasks.
import { TASK_DELAY, TASK_ERRORS } from '../../core/schedule/task-firing.ts'
import { defineDaemon } from '../daemon.ts'
import { Scheduler } from './scheduler.ts'

export const timed = defineDaemon({
  name: 'timed',
  about: 'fires scheduled tasks',
  metrics: [TASK_DELAY, TASK_ERRORS],
  start: ({ host, log, defer }) => {
    const scheduler = new Scheduler({ host, log })
    defer(() => scheduler.close())
  },
})
