// Runs turns in this process: sockets, network, runtimes and the runner that claims turns. In a served instance this is all
// that the runner process does.
import { RunSockets } from '../../agent-socket/run-socket.ts'
import { agentUser } from '../../core/agent-user.ts'
import { chownWorkspaces } from '../../core/groups/workspace-owner.ts'
import type { Layout } from '../../core/layout.ts'
import type { Log } from '../../lib/log/log.ts'
import { openRuntimes } from '../../runtimes/index.ts'
import { agentTools } from '../agents/agent-tools.ts'
import { RunNetworks } from '../agents/run-network.ts'
import type { DaemonContext } from '../daemon.ts'
import { CurrentSettings } from './current-settings.ts'
import { type ExecutionSettings, leaseOf } from './execution-settings.ts'
import { LocalWorkspaces } from './local-workspaces.ts'
import { turnPreparation } from './preparation.ts'
import { TurnRunner } from './turn-runner.ts'

const PROGRESS_MS = 3000

export type ExecutionContext = Pick<DaemonContext, 'host' | 'log' | 'defer' | 'currentSources'>

export async function executeTurns(
  { host, log, defer, currentSources }: ExecutionContext,
  layout: Layout,
  settings: ExecutionSettings,
): Promise<void> {
  await giveWorkspacesToAgentUser(layout, log)
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
    leaseMs: leaseOf(settings),
    workspaces: new LocalWorkspaces(layout, log),
  })
  defer(() => runner.close())
}

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
