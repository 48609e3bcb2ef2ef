// The gate of the agents: their tools, on a socket for each folder.
import { agentTools } from '../agent-tools.ts'
import { daemon } from '../daemon.ts'
import { openOrStandBy } from './standby.ts'

export const gated = daemon({
  name: 'gated',
  about: 'gives each agent its tools',
  start: async ({ host, log, defer }) => {
    const { layout } = host
    // A process without files has nowhere to put them.
    if (!layout) return
    host.search?.follow(host.signals)
    const sockets = await openOrStandBy({
      host,
      layout,
      log,
      list: agentTools(),
      onError: (error, folder, tool) => log.error({ folder, tool, err: error }, 'internal error'),
      onStranger: (folder, uid) => log.warn({ folder, uid }, 'a connection of another user was closed'),
    })
    defer(() => sockets.close())
  },
})
