// The gate of the agents: their tools, on a socket for each folder.
import { daemon } from '../daemon.ts'

export const gated = daemon({
  name: 'gated',
  about: 'gives each agent its tools',
})
