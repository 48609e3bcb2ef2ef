// The gate of the agents: their tools, on a socket for each folder.
import { hotToolsOf, toolList, toolsOf } from '../../faces/mcp.ts'
import { resources } from '../../resources/index.ts'
import { tools } from '../../tools/index.ts'
import { daemon } from '../daemon.ts'
import { GATE_SETTINGS } from '../settings.ts'
import { openOrStandBy } from './standby.ts'

export const gated = daemon({
  name: 'gated',
  about: 'gives each agent its tools',
  settings: GATE_SETTINGS,
  start: async ({ host, log, defer }, { AGENT_UID: agentUid }) => {
    const { layout } = host
    // A process without files has nowhere to put them.
    if (!layout) return
    host.search?.follow(host.signals)
    const sockets = await openOrStandBy({
      host,
      layout,
      log,
      agentUid,
      list: toolList([...toolsOf(resources), ...hotToolsOf(tools)]),
      onError: (error, folder, tool) => log.error({ folder, tool, err: error }, 'internal error'),
      onStranger: (folder, uid) => log.warn({ folder, uid }, 'a connection of another user was closed'),
    })
    defer(() => sockets.close())
  },
})
