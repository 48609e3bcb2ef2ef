// gated: serves the tools of each folder on a socket, for the operator. Runs of agents have sockets of their own.

import { CALLS_LIMITED } from '../../core/access/call-rate-limit.ts'
import { DELIVERIES } from '../../core/delivery/delivery.ts'
import { COST_CENTS, TOKENS } from '../../core/turns/costs.ts'
import { agentTools } from '../agents/agent-tools.ts'
import { defineDaemon } from '../daemon.ts'
import { openOrStandBy } from './standby.ts'

export const gated = defineDaemon({
  name: 'gated',
  about: 'serves the tools of agents',
  metrics: [CALLS_LIMITED, COST_CENTS, TOKENS, DELIVERIES],
  start: async ({ host, log, defer }) => {
    const { layout } = host
    // Without a data directory there are no sockets.
    if (!layout) return
    host.search?.follow(host.signals)
    const sockets = await openOrStandBy({
      host,
      layout,
      log,
      list: agentTools(),
      onError: (error, folder, tool) => {
        host.faults.count('tool')
        log.error({ folder, tool, err: error }, 'internal error')
      },
      onUnexpectedUser: (folder, uid) => log.warn({ folder, uid }, 'closed a connection of another user'),
    })
    defer(() => sockets.close())
  },
})
