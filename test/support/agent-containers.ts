// A container engine with a small image for agents, for the tests of one file, and a socket between svc and the engine on
// which a test acts at a chosen call.
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { join } from 'node:path'
import { buildImage, type ContainerEngine, openContainerEngine } from './container-engine.ts'
import { type CleanupScope, tempDir } from './temp.ts'

export const AGENT_IMAGE = 'agent-test'
/** Programs for attacks, besides those of every test image. */
const PROGRAMS = ['base64', 'grep', 'head', 'id', 'ls', 'perl', 'sed', 'stat', 'tail', 'touch']

export interface AgentContainers extends ContainerEngine {
  /** Settings of cells on this engine. */
  readonly settings: Readonly<Record<string, string>>
  /** Names of all containers that match the filters. */
  list(...filters: string[]): Promise<string[]>
}

export async function openAgentContainers(cleanup: CleanupScope): Promise<AgentContainers> {
  const folder = tempDir(cleanup)
  const engine = await openContainerEngine(folder, [])
  await buildImage(engine, folder, AGENT_IMAGE, { programs: PROGRAMS, directories: perlDirectories() })
  return {
    ...engine,
    settings: { SANDBOX: 'container', AGENT_IMAGE, ENGINE_SOCKET: engine.socket },
    list: async (...filters) => {
      const args = filters.flatMap((filter) => ['--filter', filter])
      return (await engine.docker('ps', '--all', '--format', '{{.Names}}', ...args)).split('\n').filter(Boolean)
    },
  }
}

/** Passes calls on, each after `onCall`. Returns the path of its socket. */
export async function interceptEngine(
  t: CleanupScope,
  engine: string,
  onCall: (method: string, path: string) => void,
): Promise<string> {
  const socket = join(tempDir(t), 'engine.sock')
  const server = createServer((incoming, response) => {
    const { method = '', url: path = '', headers } = incoming
    onCall(method, path)
    const outgoing = request({ socketPath: engine, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(response)
    })
    outgoing.on('error', () => response.destroy())
    incoming.pipe(outgoing)
  })
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  server.listen(socket)
  await once(server, 'listening')
  return socket
}

/** Modules of Debian's `perl-base`, and the locale that svc sets. */
function perlDirectories(): string[] {
  const { stdout } = spawnSync('perl', ['-e', 'print join "\n", @INC'], { encoding: 'utf8' })
  const modules = stdout.split('\n').filter((path) => path.endsWith('/perl-base'))
  return [...modules, '/usr/lib/locale'].filter((path) => existsSync(path))
}
