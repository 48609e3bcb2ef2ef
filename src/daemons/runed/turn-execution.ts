// Runs turns in this process: sockets, network, runtimes and the runner that claims turns. In a served instance this is all
// that the runner process does.
import type { ChildProcess } from 'node:child_process'
import type { Layout } from '../../core/layout.ts'
import { openRuntimes } from '../../runtimes/index.ts'
import { agentTools } from '../agents/agent-tools.ts'
import { RunNetworks } from '../agents/run-network.ts'
import { openRunSockets } from '../agents/run-sockets.ts'
import type { DaemonContext } from '../daemon.ts'
import type { ProcessEntry } from '../process/process-entry.ts'
import { CurrentSettings } from './current-settings.ts'
import { type ExecutionSettings, leaseOf } from './execution-settings.ts'
import { IsolatedTurns } from './isolated-turns.ts'
import { LocalWorkspaces } from './local-workspaces.ts'
import { openWorldOwners } from './owner-log.ts'
import { turnPreparation } from './preparation.ts'
import { TurnRunner } from './turn-runner.ts'

export interface ExecutionContext extends Pick<DaemonContext, 'host' | 'log' | 'defer' | 'currentSources'> {
  readonly entry: ProcessEntry
  /** Starts a runner of one turn; undefined where suspects run in this process. */
  spawnRunner?: ((turnId: string) => ChildProcess) | undefined
  /** The only turn to run; calls back when that is over. */
  readonly only?: { readonly turnId: string; onEnd(): void } | undefined
}

export async function executeTurns(
  { host, log, entry, defer, currentSources, spawnRunner, only }: ExecutionContext,
  layout: Layout,
  settings: ExecutionSettings,
): Promise<void> {
  const owners = openWorldOwners(host, layout, log)
  defer(() => owners.close())
  const warn = (message: string): void => log.warn(message)
  const network = new RunNetworks({ host, log, denyPrivate: settings.NETWORK_DENY_PRIVATE })
  defer(() => network.close())
  const sockets = openRunSockets({ host, layout, log, settings }, agentTools())
  sockets.prepare()
  defer(() => sockets.close())
  const runtimes = await openRuntimes({
    settings,
    clock: host.clock,
    groups: layout.groups,
    chats: layout.chats,
    files: layout.files,
    root: layout.root,
    network,
    warn,
    onBackgroundError: host.faults.handler('turn'),
  })
  defer(() => runtimes.close())
  const current = new CurrentSettings({ host, initial: settings, sources: currentSources, warn })
  const { ASSISTANT_NAME: assistantName, SANDBOX: sandbox, STT_URL: url, STT_MODEL: model, STT_KEY: key } = settings
  const transcription = url === undefined ? undefined : { url, model, key }
  const prepare = turnPreparation({
    ...{ host, layout, owners, runtimes, sockets, settings: current, sandbox, assistantName, transcription, warn },
  })
  const [leaseMs, workspaces] = [leaseOf(settings), new LocalWorkspaces(layout, log)]
  const runner = new TurnRunner({
    host,
    log,
    prepare,
    settingsMark: async () => (await current.read()).mark,
    leaseMs,
    workspaces,
    process: entry.id,
    choice: only ? { kind: 'turn', id: only.turnId } : spawnRunner ? { kind: 'innocent' } : undefined,
    onIdle: only?.onEnd,
  })
  defer(() => runner.close())
  if (!spawnRunner || only) return
  const isolated = new IsolatedTurns({ host, log, entry, leaseMs, workspaces, spawn: spawnRunner })
  defer(() => isolated.close())
}
