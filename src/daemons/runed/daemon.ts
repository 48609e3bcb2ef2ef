// runed: has the turns of agents run, and removes old messages, turns, logs and audit rows.
import { describeCells } from '../../cell/describe.ts'
import { defineDaemon } from '../daemon.ts'
import { RETENTION_SETTINGS } from '../settings.ts'
import { EXECUTION_METRICS, EXECUTION_SETTINGS, leaseOf } from './execution-settings.ts'
import { startOwnerChange } from './owner-log.ts'
import { startRetention } from './retention.ts'
import { requestRunner } from './runner-request.ts'
import { startTurnLogRetention } from './turn-logs.ts'

export const runed = defineDaemon({
  name: 'runed',
  about: 'runs the turns of agents',
  settings: { ...EXECUTION_SETTINGS, ...RETENTION_SETTINGS },
  metrics: EXECUTION_METRICS,
  metricsText: async (own, _peers, runner) => (await runner?.metrics()) ?? own.text(),
  start: async (context, settings) => {
    const { host, log, defer, runner, entry } = context
    const { layout } = host
    // Without a data directory there are no workspaces.
    if (!layout) return
    log.info(describeCells(settings, layout.agents), 'agents')
    defer(startOwnerChange(host, layout, log))
    if (settings.SANDBOX === 'none') log.warn('agents run without a sandbox: SANDBOX=none')
    else if (settings.NETWORK === 'open') log.warn('network rules do not apply to agents: NETWORK=open')
    if (runner) defer(requestRunner(host, runner, leaseOf(settings)))
    else if (entry) {
      const { executeTurns } = await import('./turn-execution.ts')
      await executeTurns({ ...context, entry }, layout, settings)
    }
    defer(startTurnLogRetention({ host, layout, log }))
    defer(startRetention({ host, layout, log, keep: settings }))
  },
})
