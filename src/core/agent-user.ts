// The user that agents run as, where svc runs as root. Otherwise they run as svc's own user.
import { refuse } from '../lib/refusal.ts'

const DEFAULT_ID = 60_000

export interface AgentUser {
  readonly uid: number
  readonly gid: number
}

/** `setting` is AGENT_UID; undefined where agents run as svc's own user. */
export function agentUser(setting: number | undefined, isRoot = process.getuid?.() === 0): AgentUser | undefined {
  if (!isRoot) return undefined
  const id = setting ?? DEFAULT_ID
  if (id === 0)
    refuse('invalid', 'AGENT_UID must not be 0: agents never run as root', 'leave it out, or choose an unused number')
  return { uid: id, gid: id }
}
