// The routing daemon: routes, grants, tokens, tasks and groups.
import { daemon } from '../daemon.ts'

export const routd = daemon({
  name: 'routd',
  about: 'decides where messages go, and serves what decides it',
})
