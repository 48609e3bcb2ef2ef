// The tool socket of a folder for tests of runtimes: JSON-RPC by lines, with the tools of the test. It records the
// calls.
import { once } from 'node:events'
import { constants, existsSync, readFileSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import type { WorkspaceView } from '../../src/cell/bubblewrap/visitor-workspace.ts'
import type { ChatDirectory } from '../../src/cell/cell.ts'
import { refuse } from '../../src/lib/refusal.ts'
import type { Job } from '../../src/runtimes/runtime.ts'
import { TextLineSplitter } from '../../src/runtimes/text-line-splitter.ts'
import { agentDir, giveToAgents } from './agent-files.ts'
import type { CleanupScope } from './temp.ts'

type Args = Readonly<Record<string, unknown>>

/** The result of a tool: text, an object as JSON, or a refusal. */
export type FakeTool = (args: Args) => unknown

export class ToolRefusal extends Error {}

/** A transient refusal. */
export class TransientToolRefusal extends ToolRefusal {}

export interface ToolSocket {
  readonly home: string
  readonly path: string
  /** `reply {"chatJid": …}`, `submit_status …`, in order. */
  readonly asked: string[]
  /** The texts of all replies. */
  readonly said: string[]
  /** The turn of each connection. */
  readonly turns: unknown[]
  /** Closes all connections, as gated does when it stops. */
  drop(): void
  job(given?: Partial<Job>): Job
}

interface Request {
  readonly id?: number
  readonly method: string
  readonly params?: { name?: string; arguments?: Args; _meta?: unknown } & Record<string, unknown>
}

export async function toolSocket(t: CleanupScope, tools: Readonly<Record<string, FakeTool>> = {}): Promise<ToolSocket> {
  const home = agentDir(t)
  const path = join(agentDir(t), 'gated.sock')
  const [asked, said, turns]: [string[], string[], unknown[]] = [[], [], []]
  const sockets = new Set<Socket>()
  const known: Record<string, FakeTool> = {
    reply: ({ text }) => {
      said.push(String(text))
      return 'ok'
    },
    ...tools,
  }
  const answer = async ({ method, params = {} }: Request): Promise<unknown> => {
    if (method === 'initialize') {
      turns.push(params._meta)
      return { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'test', version: '1' } }
    }
    if (method === 'tools/list')
      return {
        tools: Object.keys(known).map((name) => ({
          name,
          description: `does ${name}`,
          inputSchema: { type: 'object', properties: {} },
        })),
      }
    if (method !== 'tools/call') {
      asked.push(`${method} ${JSON.stringify(params)}`)
      return { ok: true }
    }
    const { name = '', arguments: args = {} } = params
    asked.push(`${name} ${JSON.stringify(args)}`)
    const tool = known[name]
    if (!tool) throw new Error(`Tool ${name} not found`)
    try {
      const result = await tool(args)
      return { content: [{ type: 'text', text: typeof result === 'string' ? result : JSON.stringify(result) }] }
    } catch (error) {
      if (error instanceof ToolRefusal) {
        const meta = error instanceof TransientToolRefusal ? { _meta: { 'svc/transient': true } } : {}
        return { content: [{ type: 'text', text: error.message }], isError: true, ...meta }
      }
      throw error
    }
  }
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined)
    const lines = new TextLineSplitter((line) => {
      const request: Request = JSON.parse(line)
      if (request.id === undefined) return
      void answer(request).then(
        (result) => socket.write(`${JSON.stringify({ jsonrpc: '2.0', id: request.id, result })}\n`),
        ({ message }) =>
          socket.write(`${JSON.stringify({ jsonrpc: '2.0', id: request.id, error: { code: -32602, message } })}\n`),
      )
    })
    socket.setEncoding('utf8').on('data', (text: string) => lines.push(text))
  })
  server.listen(path)
  await once(server, 'listening')
  giveToAgents(path)
  const drop = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  t.after(() => {
    drop()
    server.close()
    rmSync(path, { force: true })
  })
  return { home, path, asked, said, turns, drop, job: (given) => jobOf(home, path, given) }
}

/** What a run of reach `chat` sees of its workspace. */
export const VISITOR_VIEW: WorkspaceView = { children: new Set(), isVisitor: true, writable: new Set() }

/** The directory of a visitor chat, as a run gets it. */
export function chatDirectory(t: CleanupScope): ChatDirectory {
  const path = agentDir(t)
  return { path, open: () => open(path, constants.O_RDONLY | constants.O_DIRECTORY), ...VISITOR_VIEW }
}

function jobOf(home: string, socket: string, given: Partial<Job> = {}): Job {
  return {
    turnId: 't1',
    fence: 7,
    folder: 'main',
    topic: '',
    jid: 'web:main',
    sender: 'anon:1',
    prompt: '<messages>…</messages>',
    messages: [],
    sentCount: 0,
    socket,
    home,
    openHome: () =>
      open(given.home ?? home, constants.O_RDONLY | constants.O_DIRECTORY).catch(() =>
        refuse('not_found', `${given.folder ?? 'main'} has no workspace`),
      ),
    readText: (name) => (existsSync(join(home, name)) ? readFileSync(join(home, name), 'utf8') : undefined),
    logFile: join(home, 'logs', 't1.log'),
    deadline: Date.now() + 60_000,
    hangMs: 60_000,
    env: {},
    signal: new AbortController().signal,
    ...given,
  }
}

/** One message, as in the prompt of a turn. */
export function messagesOf(text: string): Pick<Job, 'messages'> {
  return { messages: [{ id: 'm1', sender: 'anon:1', text, jid: 'web:main' }] }
}
