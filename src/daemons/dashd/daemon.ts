// The operator's dashboard.
import { daemon } from '../daemon.ts'

export const dashd = daemon({
  name: 'dashd',
  about: 'shows the instance to its operators',
})
