// runed: runs the turns of agents and removes old messages, turns and logs.
import { RunSockets } from '../../agent-socket/run-socket.ts'
import { describeCells } from '../../cell/describe.ts'
import { CALLS_LIMITED } from '../../core/access/call-rate-limit.ts'
import { NETWORK_DENIED } from '../../core/access/network-denials.ts'
import { agentUser } from '../../core/agent-user.ts'
import { DELIVERIES } from '../../core/delivery/delivery.ts'
import { chownWorkspaces } from '../../core/groups/workspace-owner.ts'
import type { Layout } from '../../core/layout.ts'
import { COST_CENTS, TOKENS } from '../../core/turns/costs.ts'
import type { Log } from '../../lib/log/log.ts'
import { openRuntimes } from '../../runtimes/index.ts'
import { RUNTIME_SETTINGS } from '../../runtimes/settings.ts'
import { agentTools } from '../agents/agent-tools.ts'
import { RunNetworks } from '../agents/run-network.ts'
import { defineDaemon } from '../daemon.ts'
import { INSTANCE_SETTINGS, RETENTION_SETTINGS, TURN_SETTINGS } from '../settings.ts'
import { CurrentSettings } from './current-settings.ts'
import { LocalWorkspaces } from './local-workspaces.ts'
import { turnPreparation } from './preparation.ts'
import { startRetention } from './retention.ts'
import { startTurnLogRetention } from './turn-logs.ts'
import { TURN_METRICS } from './turn-metrics.ts'
import { TurnRunner } from './turn-runner.ts'

const PROGRESS_MS = 3000

export const runed = defineDaemon({
  name: 'runed',
  about: 'runs the turns of agents',
  settings: {
    ...RUNTIME_SETTINGS,
    ASSISTANT_NAME: INSTANCE_SETTINGS.ASSISTANT_NAME,
    TURN_LEASE: TURN_SETTINGS.TURN_LEASE,
    ...RETENTION_SETTINGS,
  },
  metrics: [...TURN_METRICS, COST_CENTS, TOKENS, DELIVERIES, NETWORK_DENIED, CALLS_LIMITED],
  start: async ({ host, log, defer, currentSources }, settings) => {
    const { layout } = host
    // Without a data directory there are no workspaces.
    if (!layout) return
    await giveWorkspacesToAgentUser(layout, log)
    log.info(describeCells(settings), 'agents')
    if (settings.SANDBOX === 'none') log.warn('agents run without a sandbox: SANDBOX=none')
    else if (settings.NETWORK === 'open') log.warn('network rules do not apply to agents: NETWORK=open')
    const warn = (message: string): void => log.warn(message)
    const network = new RunNetworks({ host, log, denyPrivate: settings.NETWORK_DENY_PRIVATE })
    defer(() => network.close())
    const sockets = new RunSockets({
      host,
      list: agentTools(),
      user: agentUser(settings.AGENT_UID),
      parent: settings.SANDBOX === 'container' ? layout.cells : undefined,
      onError: (error, folder, tool) => log.error({ folder, tool, err: error }, 'internal error'),
      onUnexpectedUser: (folder, uid) => log.warn({ folder, uid }, 'closed a connection of another user'),
    })
    sockets.prepare()
    defer(() => sockets.close())
    const runtimes = await openRuntimes({
      settings,
      clock: host.clock,
      groups: layout.groups,
      chats: layout.chats,
      root: layout.root,
      network,
      warn,
      onBackgroundError: (error) => host.onBackgroundError?.(error),
    })
    defer(() => runtimes.close())
    const current = new CurrentSettings({ host, initial: settings, sources: currentSources, warn })
    const { ASSISTANT_NAME: assistantName } = settings
    const prepare = turnPreparation({ host, layout, runtimes, sockets, settings: current, assistantName, warn })
    const runner = new TurnRunner({
      host,
      log,
      prepare,
      settingsMark: async () => (await current.read()).mark,
      leaseMs: Math.max(1000, settings.TURN_LEASE),
      workspaces: new LocalWorkspaces(layout, log),
    })
    defer(() => runner.close())
    defer(startTurnLogRetention({ host, layout, log }))
    const { KEEP_MESSAGES: keepMessagesMs, KEEP_TURNS: keepTurnsMs } = settings
    defer(startRetention({ host, layout, log, keepMessagesMs, keepTurnsMs }))
  },
})

/** Logs progress, because a large tree takes a while and no turn starts before. */
async function giveWorkspacesToAgentUser(layout: Layout, log: Log): Promise<void> {
  let loggedAt = performance.now()
  const onProgress = (done: number): void => {
    if (performance.now() - loggedAt < PROGRESS_MS) return
    loggedAt = performance.now()
    log.info({ done }, 'changing the owner of the workspaces')
  }
  try {
    const count = await chownWorkspaces(layout, onProgress)
    if (count > 0) log.info({ count }, `workspaces now belong to uid ${layout.agent?.uid}`)
  } catch (error) {
    // The agents of other workspaces can run.
    log.error(
      { err: error },
      `some workspaces do not belong to uid ${layout.agent?.uid}: their agents cannot write there`,
    )
  }
}
