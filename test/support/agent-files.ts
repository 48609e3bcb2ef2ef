// Files for agents in tests. If root runs the tests, agents run as another user.
import { chownSync, mkdirSync } from 'node:fs'
import { agentUsers } from '../../src/core/agent-user.ts'
import { type CleanupScope, tempDir } from './temp.ts'

/** Makes the user of the agents the owner, if there is one. */
export function giveToAgents(...paths: string[]): void {
  const user = agentUsers({ AGENT_UIDS: 1 }, undefined)
  if (user) for (const path of paths) chownSync(path, user.uid, user.gid)
}

/** Creates an empty directory that agents can write to. */
export function agentDir(t: CleanupScope): string {
  const path = tempDir(t)
  giveToAgents(path)
  return path
}

/** Creates a directory that agents can write to, below an existing one. */
export function makeAgentDir(path: string): string {
  mkdirSync(path, { recursive: true })
  giveToAgents(path)
  return path
}
