// The clock: fires scheduled tasks, as a client of routd.
import { daemon } from '../daemon.ts'

export const timed = daemon({
  name: 'timed',
  about: 'fires scheduled tasks',
})
