// Files that agents can use in a test: started by root, agents run as another user.
import { chownSync, mkdirSync } from 'node:fs'
import { agentUser } from '../../src/core/agent-user.ts'
import { type CleanupScope, tempDir } from './temp.ts'

/** Gives what a test has made to the agents' user, where there is one. */
export function giveToAgents(...paths: string[]): void {
  const user = agentUser(undefined)
  if (user) for (const path of paths) chownSync(path, user.uid, user.gid)
}

/** An empty folder of its own that agents can write in. */
export function agentDir(t: CleanupScope): string {
  const path = tempDir(t)
  giveToAgents(path)
  return path
}

/** A folder that agents can write in, below one that is there. */
export function makeAgentDir(path: string): string {
  mkdirSync(path, { recursive: true })
  giveToAgents(path)
  return path
}
