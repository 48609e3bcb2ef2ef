// How an agent client is told of a tool socket: an MCP configuration that starts `svc bridge`.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const SVC = fileURLToPath(new URL('../../bin/svc.js', import.meta.url))

/** The name that the client calls the server by: its tools are `mcp__svc__<tool>`. */
export const SERVER = 'svc'

export interface BridgeFile {
  readonly path: string
  remove(): Promise<void>
}

/** A file that only this user can read, in a folder of its own. */
export async function writeBridgeFile(socket: string, env: Readonly<Record<string, string>> = {}): Promise<BridgeFile> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-mcp-'))
  const path = join(folder, 'mcp.json')
  const server = { type: 'stdio', command: process.execPath, args: [SVC, 'bridge', socket], env }
  await writeFile(path, `${JSON.stringify({ mcpServers: { [SERVER]: server } }, undefined, 2)}\n`, { mode: 0o600 })
  return { path, remove: () => rm(folder, { recursive: true, force: true }) }
}
