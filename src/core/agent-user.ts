// Whom agents run as: never root.
import { refuse } from '../lib/refusal.ts'

export interface AgentUser {
  readonly uid: number
  readonly gid: number
}

/** Fixed, so that workspaces keep their owner when an instance moves to another machine. */
const DEFAULT_UID = 60_000
/** The kernel's "no user". */
const UID_MAX = 4_294_967_294

/** Undefined where svc does not run as root: agents then run as the user of svc. */
export function agentUser(
  setting: number | undefined,
  isRoot: boolean = process.getuid?.() === 0,
): AgentUser | undefined {
  if (setting === 0)
    refuse('invalid', 'AGENT_UID must not be 0: agents never run as root', 'remove it, or set AGENT_UID=60000')
  if (setting !== undefined && setting >= UID_MAX) refuse('invalid', `AGENT_UID must be below ${UID_MAX}`)
  const uid = setting ?? DEFAULT_UID
  return isRoot ? { uid, gid: uid } : undefined
}
