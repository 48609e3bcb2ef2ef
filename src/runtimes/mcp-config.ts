// How an agent client is told of a tool socket: an MCP configuration that starts `svc bridge`.
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { AgentUser } from '../core/agent-user.ts'

const SVC = fileURLToPath(new URL('../../bin/svc.js', import.meta.url))

/** The name that the client calls the server by: its tools are `mcp__svc__<tool>`. */
export const MCP_SERVER_NAME = 'svc'

export interface McpConfigFile {
  readonly path: string
  remove(): Promise<void>
}

/** The text of the configuration; `inner` says where the client finds a file of svc. */
export function mcpConfigText(
  socket: string,
  env: Readonly<Record<string, string>>,
  inner: (path: string) => string,
): string {
  const server = { type: 'stdio', command: inner(process.execPath), args: [inner(SVC), 'bridge', socket], env }
  return `${JSON.stringify({ mcpServers: { [MCP_SERVER_NAME]: server } }, undefined, 2)}\n`
}

/** A file that only its user can read, in a folder of its own. */
export async function writeMcpConfigFile(
  socket: string,
  env: Readonly<Record<string, string>> = {},
  user?: AgentUser,
): Promise<McpConfigFile> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-mcp-'))
  const path = join(folder, 'mcp.json')
  await writeFile(
    path,
    mcpConfigText(socket, env, (file) => file),
    { mode: 0o600 },
  )
  for (const each of user ? [path, folder] : []) await chown(each, user?.uid ?? -1, user?.gid ?? -1)
  return { path, remove: () => rm(folder, { recursive: true, force: true }) }
}
