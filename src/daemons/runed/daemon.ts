// Runs the agents' turns.
import { openRuntimes } from '../../runtimes/index.ts'
import { RUNTIME_SETTINGS } from '../../runtimes/settings.ts'
import { daemon } from '../daemon.ts'
import { INSTANCE_SETTINGS, TURN_SETTINGS } from '../settings.ts'
import { preparing } from './preparation.ts'
import { Runner } from './runner.ts'
import { keepTurnLogs } from './turn-logs.ts'

export const runed = daemon({
  name: 'runed',
  about: 'runs the turns of the agents',
  settings: {
    ...RUNTIME_SETTINGS,
    ASSISTANT_NAME: INSTANCE_SETTINGS.ASSISTANT_NAME,
    TURN_LEASE: TURN_SETTINGS.TURN_LEASE,
  },
  start: async ({ host, log, defer }, settings) => {
    const { layout } = host
    // A process without files has no workspaces and no sockets.
    if (!layout) return
    const warn = (sentence: string): void => log.warn(sentence)
    const runtimes = await openRuntimes({ settings, clock: host.clock, warn })
    defer(() => runtimes.close())
    const prepare = preparing({ host, layout, runtimes, settings, warn })
    const runner = new Runner({ host, log, prepare, leaseMs: Math.max(1000, settings.TURN_LEASE) })
    defer(() => runner.close())
    defer(keepTurnLogs({ host, layout, log }))
  },
})
