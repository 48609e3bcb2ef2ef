// MCP configuration that connects an agent client to a tool socket: it starts `svc bridge`.
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { AgentUser } from '../core/agent-user.ts'

const SVC = fileURLToPath(new URL('../../bin/svc.js', import.meta.url))

/** The client's name for the server; it lists the tools as `mcp__svc__<tool>`. */
export const MCP_SERVER_NAME = 'svc'

interface McpConfigFile {
  readonly path: string
  remove(): Promise<void>
}

/** `toClientPath` maps a path of svc to the path that the client sees. */
export function buildMcpConfig(
  socket: string,
  env: Readonly<Record<string, string>>,
  toClientPath: (path: string) => string,
): string {
  const server = {
    type: 'stdio',
    command: toClientPath(process.execPath),
    args: [toClientPath(SVC), 'bridge', socket],
    env,
  }
  return `${JSON.stringify({ mcpServers: { [MCP_SERVER_NAME]: server } }, undefined, 2)}\n`
}

/** Writes the configuration to a temporary file that only the agents' user can read. */
export async function writeMcpConfigFile(
  socket: string,
  env: Readonly<Record<string, string>> = {},
  user?: AgentUser,
): Promise<McpConfigFile> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-mcp-'))
  const path = join(folder, 'mcp.json')
  await writeFile(
    path,
    buildMcpConfig(socket, env, (file) => file),
    { mode: 0o600 },
  )
  for (const each of user ? [path, folder] : []) await chown(each, user?.uid ?? -1, user?.gid ?? -1)
  return { path, remove: () => rm(folder, { recursive: true, force: true }) }
}
