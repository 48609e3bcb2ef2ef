// Runs the agents' turns.
import { daemon } from '../daemon.ts'

export const runed = daemon({
  name: 'runed',
  about: 'runs the turns of the agents',
})
