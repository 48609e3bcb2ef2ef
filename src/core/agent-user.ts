// The Unix user that agents run as. It is never root.
import { refuse } from '../lib/refusal.ts'

export interface AgentUser {
  readonly uid: number
  readonly gid: number
}

/** Fixed, so workspaces keep their owner when an instance moves to another machine. */
const DEFAULT_UID = 60_000
/** The kernel reserves this value and the next one. */
const UID_LIMIT = 4_294_967_294

/** Undefined if svc does not run as root: agents then run as svc's user. */
export function agentUser(
  setting: number | undefined,
  isRoot: boolean = process.getuid?.() === 0,
): AgentUser | undefined {
  if (setting === 0)
    refuse('invalid', 'AGENT_UID must not be 0: agents never run as root', 'remove it, or set AGENT_UID=60000')
  if (setting !== undefined && setting >= UID_LIMIT) refuse('invalid', `AGENT_UID must be below ${UID_LIMIT}`)
  const uid = setting ?? DEFAULT_UID
  return isRoot ? { uid, gid: uid } : undefined
}
