// Describes for the operator which user agents run as, and what they can read and reach.
import { type AgentUser, agentUser } from '../core/agent-user.ts'
import type { CellSettings } from './settings.ts'

export interface CellDescription {
  readonly user: string
  readonly files: string
  readonly network: string
}

export function describeCells(
  settings: CellSettings,
  user: AgentUser | undefined = agentUser(settings.AGENT_UID),
): CellDescription {
  return {
    user: user ? `uid ${user.uid}` : `the user of svc (uid ${process.getuid?.() ?? 'unknown'})`,
    files:
      settings.SANDBOX === 'none'
        ? 'all files of this user (SANDBOX=none)'
        : [
            'their own workspace, programs of the machine (read-only)',
            ...settings.SANDBOX_PATHS.map((path) => `${path} (read-only)`),
          ].join(', '),
    network:
      settings.SANDBOX === 'none' || settings.NETWORK === 'open'
        ? `every host that this machine can reach (${settings.SANDBOX === 'none' ? 'SANDBOX=none' : 'NETWORK=open'})`
        : 'the hosts allowed by svc network, and their own model',
  }
}
