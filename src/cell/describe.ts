// Describes for the operator which user agents run as, and what they can read and reach.
import type { AgentUsers } from '../core/agent-user.ts'
import { packageVersion } from '../lib/version.ts'
import type { CellSettings } from './settings.ts'

export interface CellDescription {
  readonly user: string
  readonly files: string
  readonly network: string
}

export function describeCells(settings: CellSettings, users: AgentUsers | undefined): CellDescription {
  return {
    user: describeUsers(users),
    files: describeFiles(settings),
    network:
      settings.SANDBOX === 'none' || settings.NETWORK === 'open'
        ? `every host that this machine can reach (${settings.SANDBOX === 'none' ? 'SANDBOX=none' : 'NETWORK=open'})`
        : 'the hosts allowed by svc network, and their own model',
  }
}

function describeUsers(users: AgentUsers | undefined): string {
  if (!users) return `the user of svc (uid ${process.getuid?.() ?? 'unknown'})`
  const { uid, count } = users
  return count === 1 ? `uid ${uid}` : `uids ${uid} to ${uid + count - 1}, one per world`
}

function describeFiles({ SANDBOX, SANDBOX_PATHS, AGENT_IMAGE }: CellSettings): string {
  if (SANDBOX === 'none') return 'all files of this user (SANDBOX=none)'
  if (SANDBOX === 'container') return `their own workspace and the image ${agentImage(AGENT_IMAGE)} (read-only)`
  const paths = SANDBOX_PATHS.map((path) => `${path} (read-only)`)
  return ['their own workspace, programs of the machine (read-only)', ...paths].join(', ')
}

/** The image of agents' containers. */
export function agentImage(setting: string | undefined): string {
  return setting ?? `svc-host:${packageVersion()}`
}
