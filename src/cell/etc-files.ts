// Replacements of files in /etc that would reveal users and hosts of the machine.
import type { AgentUser } from '../core/agent-user.ts'

export function passwdFile(user: AgentUser | undefined, home: string): string {
  const { uid, gid } = cellUser(user)
  return `root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:${uid}:${gid}:agent:${home}:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`
}

/** By their path. */
export function etcFiles(user: AgentUser | undefined, isNetworkOpen = false): Record<string, string> {
  return {
    '/etc/group': `root:x:0:\nagent:x:${cellUser(user).gid}:\nnogroup:x:65534:\n`,
    ...(isNetworkOpen ? {} : { '/etc/hosts': '127.0.0.1 localhost svc\n::1 localhost\n' }),
  }
}

/** The user of agents' processes. */
export function cellUser(user: AgentUser | undefined): AgentUser {
  return user ?? { uid: process.getuid?.() ?? 65_534, gid: process.getgid?.() ?? 65_534 }
}
