// timed: fires scheduled tasks.
import { defineDaemon } from '../daemon.ts'
import { Scheduler } from './scheduler.ts'

export const timed = defineDaemon({
  name: 'timed',
  about: 'fires scheduled tasks',
  start: ({ host, log, defer }) => {
    const scheduler = new Scheduler({ host, log })
    defer(() => scheduler.close())
  },
})
