// dashd: the dashboard of operators.
import { defineDaemon } from '../daemon.ts'

export const dashd = defineDaemon({
  name: 'dashd',
  about: 'dashboard for operators',
})
