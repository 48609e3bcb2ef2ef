// Runs the agents' turns.
import { RunSockets } from '../../agent-socket/run-socket.ts'
import { describeCells } from '../../cell/describe.ts'
import { agentUser } from '../../core/agent-user.ts'
import type { Layout } from '../../core/layout.ts'
import { takeOwnership } from '../../core/workspace-owner.ts'
import type { Log } from '../../lib/log.ts'
import { openRuntimes } from '../../runtimes/index.ts'
import { RUNTIME_SETTINGS } from '../../runtimes/settings.ts'
import { agentTools } from '../agent-tools.ts'
import { daemon } from '../daemon.ts'
import { RunNetworks } from '../run-network.ts'
import { INSTANCE_SETTINGS, TURN_SETTINGS } from '../settings.ts'
import { CurrentSettings } from './current-settings.ts'
import { preparing } from './preparation.ts'
import { Runner } from './runner.ts'
import { keepTurnLogs } from './turn-logs.ts'

const PROGRESS_MS = 3000

export const runed = daemon({
  name: 'runed',
  about: 'runs the turns of the agents',
  settings: {
    ...RUNTIME_SETTINGS,
    ASSISTANT_NAME: INSTANCE_SETTINGS.ASSISTANT_NAME,
    TURN_LEASE: TURN_SETTINGS.TURN_LEASE,
  },
  start: async ({ host, log, defer, currentSources }, settings) => {
    const { layout } = host
    // A process without files has no workspaces.
    if (!layout) return
    await ownWorkspaces(layout, log)
    log.info(describeCells(settings), 'agents')
    if (settings.SANDBOX === 'none') log.warn('agents run without a cell: SANDBOX=none')
    else if (settings.NETWORK === 'open') log.warn('network rules do not bind agents: NETWORK=open')
    const warn = (sentence: string): void => log.warn(sentence)
    const network = new RunNetworks({ host, log, denyPrivate: settings.NETWORK_DENY_PRIVATE })
    defer(() => network.close())
    const sockets = new RunSockets({
      host,
      list: agentTools(),
      user: agentUser(settings.AGENT_UID),
      onError: (error, folder, tool) => log.error({ folder, tool, err: error }, 'internal error'),
      onStranger: (folder, uid) => log.warn({ folder, uid }, 'a connection of another user was closed'),
    })
    defer(async () => sockets.close())
    const runtimes = await openRuntimes({
      settings,
      clock: host.clock,
      groups: layout.groups,
      chats: layout.chats,
      network,
      warn,
      onBackgroundError: (error) => host.onStray?.(error),
    })
    defer(() => runtimes.close())
    const current = new CurrentSettings({ host, initial: settings, sources: currentSources, warn })
    const { ASSISTANT_NAME: assistantName } = settings
    const prepare = preparing({ host, layout, runtimes, sockets, settings: current, assistantName, warn })
    const runner = new Runner({
      host,
      log,
      prepare,
      settingsMark: async () => (await current.read()).mark,
      leaseMs: Math.max(1000, settings.TURN_LEASE),
    })
    defer(() => runner.close())
    defer(keepTurnLogs({ host, layout, log }))
  },
})

/** Logs progress at most every few seconds: a large tree takes a while, and no turn starts before. */
async function ownWorkspaces(layout: Layout, log: Log): Promise<void> {
  let loggedAt = performance.now()
  const onProgress = (done: number): void => {
    if (performance.now() - loggedAt < PROGRESS_MS) return
    loggedAt = performance.now()
    log.info({ done }, 'changing the owner of the workspaces')
  }
  try {
    const count = await takeOwnership(layout, onProgress)
    if (count > 0) log.info({ count }, `workspaces now belong to uid ${layout.agent?.uid}`)
  } catch (error) {
    // Agents of other workspaces can work.
    log.error(
      { err: error },
      `some workspaces do not belong to uid ${layout.agent?.uid}: their agents cannot write there`,
    )
  }
}
