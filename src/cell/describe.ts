// Who agents are, what they can see and what they can reach, in sentences for the operator.
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
        ? 'every file that this user can open (SANDBOX=none)'
        : [
            'its own workspace, programs of the machine to read',
            ...settings.SANDBOX_PATHS.map((path) => `${path} to read`),
          ].join(', '),
    network:
      settings.SANDBOX === 'none' || settings.NETWORK === 'open'
        ? `everything that this machine can reach (${settings.SANDBOX === 'none' ? 'SANDBOX=none' : 'NETWORK=open'})`
        : 'the hosts of svc network rules and its own model',
  }
}
