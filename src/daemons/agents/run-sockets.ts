// The tool sockets of runs in this process: those of turns, and those of test calls.
import { RunSockets } from '../../agent-socket/run-socket.ts'
import { canRefuseDescriptors } from '../../agent-socket/socket-options.ts'
import { findOnPath } from '../../cell/executable.ts'
import type { Layout } from '../../core/layout.ts'
import type { ToolList } from '../../faces/tool-list.ts'
import type { Log } from '../../lib/log/log.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { RuntimeSettings } from '../../runtimes/settings.ts'

export interface RunSocketsPlace {
  readonly host: InstanceHost
  readonly layout: Layout
  readonly log: Log
  readonly settings: Pick<RuntimeSettings, 'SANDBOX'>
}

export function openRunSockets({ host, layout, log, settings }: RunSocketsPlace, list: ToolList): RunSockets {
  return new RunSockets({
    host,
    list,
    hasOtherUsers: layout.agents !== undefined,
    parent: settings.SANDBOX === 'container' ? layout.cells : undefined,
    isRelayed: needsRelay(settings.SANDBOX),
    onError: (error, folder, tool) => {
      host.faults.count('tool')
      log.error({ folder, tool, err: error }, 'internal error')
    },
    onUnexpectedUser: (folder, uid) => log.warn({ folder, uid }, 'closed a connection of another user'),
  })
}

/** Without Perl there are no cells of bubblewrap, and the demo needs none. */
function needsRelay(sandbox: RuntimeSettings['SANDBOX']): boolean {
  return sandbox !== 'none' && !canRefuseDescriptors() && (sandbox === 'container' || findOnPath('perl') !== undefined)
}
