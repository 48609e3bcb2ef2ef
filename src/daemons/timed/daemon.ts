// timed: fires scheduled tasks.
import { TASK_DELAY, TASK_ERRORS } from '../../core/schedule/task-firing.ts'
import { defineDaemon } from '../daemon.ts'
import { Scheduler } from './scheduler.ts'

export const timed = defineDaemon({
  name: 'timed',
  about: 'fires scheduled tasks',
  metrics: [TASK_DELAY, TASK_ERRORS],
  start: ({ host, log, defer, suspects }) => {
    const scheduler = new Scheduler({ host, log, suspects })
    defer(() => scheduler.close())
  },
})
