// Runs the agents' turns.
import { runtimes } from '../../runtimes/index.ts'
import { daemon } from '../daemon.ts'
import { Runner } from './runner.ts'

/** Of an instance (decision T2). */
const TURNS_MAX = 4

export const runed = daemon({
  name: 'runed',
  about: 'runs the turns of the agents',
  start: async ({ host, log, defer }) => {
    const runner = new Runner({ host, log, runtime: await runtimes.demo(), turnsMax: TURNS_MAX })
    defer(() => runner.close())
  },
})
