// The clock: fires scheduled tasks.
import { daemon } from '../daemon.ts'
import { Scheduler } from './scheduler.ts'

export const timed = daemon({
  name: 'timed',
  about: 'fires scheduled tasks',
  start: ({ host, log, defer }) => {
    const scheduler = new Scheduler({ host, log })
    defer(() => scheduler.close())
  },
})
