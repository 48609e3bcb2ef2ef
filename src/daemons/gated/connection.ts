// One connection to a folder's socket: an agent, or a part of one, with the tools of its folder.
import type { Socket } from 'node:net'
import type { JSONRPCRequest, ServerContext } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { type ToolList, toolServer } from '../../faces/mcp.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Asking, Host } from '../../registry/context.ts'
import { answerHidden, faultOf } from './hidden.ts'
import { LineTransport, type Reply } from './line-transport.ts'
import { type NamedTurn, namedTurn } from './naming.ts'

/** What all connections of all folders share. */
export interface Gate {
  readonly host: Host
  readonly list: ToolList
  /** What nobody refused on purpose. */
  onError(error: unknown, folder: string, what: string): void
}

export interface Connection {
  /** Answers what is under way, and ends. */
  close(): Promise<void>
}

/** For whoever asks what they speak with. */
const VERSION = '1.0'
/** Nothing here ever changes by itself, so that one subscription is as good as many. */
const SUBSCRIPTIONS_MAX = 8
/** How long a connection that said nothing at all stays. */
const SILENCE_MS = 60_000

export function openConnection(gate: Gate, folder: string, socket: Socket, silenceMs: number = SILENCE_MS): Connection {
  const { host, list } = gate
  const onError = (error: unknown, what: string): void => gate.onError(error, folder, what)
  const silence = setTimeout(() => socket.destroy(), silenceMs).unref()
  socket.once('close', () => clearTimeout(silence))
  let named: NamedTurn | undefined

  /** The generation without a handshake names its turn with each request. */
  const asking = (ctx: ServerContext): Asking => {
    const turn = namedTurn(ctx.mcpReq._meta) ?? named
    const asked = { host, caller: { kind: 'agent', folder }, face: 'tool' } as const
    if (!turn) return asked
    host.alive.set(turn.id, host.clock.now())
    return { ...asked, turn }
  }

  const intercept = (request: JSONRPCRequest): Promise<Reply> | undefined => {
    try {
      const said = namedTurn(request.params?._meta)
      if (request.method === 'initialize') named = said
      return answerHidden(request, { host, folder, named: said ?? named, onError })
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return Promise.resolve({ error: faultOf(error) })
    }
  }

  const transport = new LineTransport(socket, { intercept, onFirstLine: () => clearTimeout(silence) })
  const served = serveStdio(() => toolServer({ list, version: VERSION, asking, onError }), {
    transport,
    maxSubscriptions: SUBSCRIPTIONS_MAX,
  })
  return {
    close: async () => {
      await transport.drain()
      await served.close()
    },
  }
}
