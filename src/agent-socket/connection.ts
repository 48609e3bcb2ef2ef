// One connection to a tool socket: an agent, or a part of one, with the tools of its folder.
import type { Socket } from 'node:net'
import type { JSONRPCRequest, ServerContext } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import type { CallRate } from '../core/call-rate.ts'
import type { OfferedTools } from '../core/group-config.ts'
import type { Reach } from '../core/reach.ts'
import { type ToolList, toolCallFault, toolServer } from '../faces/mcp.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import type { Asking, Host } from '../registry/context.ts'
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

/** Nothing here ever changes by itself, so that one subscription is as good as many. */
const SUBSCRIPTIONS_MAX = 8
/** How long a connection that said nothing at all stays. */
const SILENCE_MS = 60_000

/** What the socket of one run is bound to: no connection to it can speak for another turn. */
export interface BoundTurn {
  readonly id: string
  readonly fence: number
  readonly reach: Reach
  /** Absent where the group's config limits nothing. */
  readonly offered?: OfferedTools | undefined
}

/** What a socket says of its connections. */
export interface ConnectionOptions {
  readonly folder: string
  /** Absent for a folder's own socket, where each connection names its turn. */
  readonly bound?: BoundTurn | undefined
  readonly silenceMs?: number | undefined
  /** Shared by all connections of a socket: opening another one gives no more calls. */
  readonly calls: CallRate
}

export function openConnection(gate: Gate, socket: Socket, options: ConnectionOptions): Connection {
  const { host, list } = gate
  const { folder, bound, silenceMs = SILENCE_MS, calls } = options
  const onError = (error: unknown, what: string): void => gate.onError(error, folder, what)
  const silence = setTimeout(() => socket.destroy(), silenceMs).unref()
  socket.once('close', () => clearTimeout(silence))
  let named: NamedTurn | undefined = bound

  /** The generation without a handshake names its turn with each request. */
  const turnNamed = (meta: unknown): NamedTurn | undefined => {
    const said = namedTurn(meta)
    if (bound && said && (said.id !== bound.id || (said.fence ?? bound.fence) !== bound.fence))
      refuse('forbidden', `this socket belongs to the turn ${bound.id}`)
    return bound ?? said
  }

  /** The hidden methods name their turn once more. */
  const mustBeBound = (turnId: unknown): void => {
    if (bound && turnId && turnId !== bound.id) refuse('forbidden', `this socket belongs to the turn ${bound.id}`)
  }

  const asking = (ctx: ServerContext): Asking => {
    const turn = turnNamed(ctx.mcpReq._meta) ?? named
    // The folder's own socket is the operator's.
    const asked = { host, caller: { kind: 'agent', folder }, face: 'tool', reach: bound?.reach ?? 'all' } as const
    if (!turn) return asked
    host.alive.set(turn.id, host.clock.now())
    return { ...asked, turn: { id: turn.id, ...(turn.fence === undefined ? {} : { fence: turn.fence }) } }
  }

  const intercept = (request: JSONRPCRequest): Promise<Reply> | undefined => {
    try {
      const said = turnNamed(request.params?._meta)
      mustBeBound(request.params?.turn_id)
      const fault = toolCallFault(request)
      if (fault) refuse('invalid', fault)
      if (request.method === 'initialize') named = said
      // Not the end of a turn: a flood of calls must not keep it from being recorded.
      if (request.method === 'submit_status') calls.take()
      return answerHidden(request, { host, folder, named: said ?? named, onError })
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return Promise.resolve({ error: faultOf(error) })
    }
  }

  const transport = new LineTransport(socket, { intercept, onFirstLine: () => clearTimeout(silence) })
  const admit = (_asking: Asking, tool: string): void => {
    calls.take()
    mustBeOffered(bound?.offered, folder, tool)
  }
  const isOffered = (tool: string): boolean => bound?.offered?.has(tool) ?? true
  const served = serveStdio(() => toolServer({ list, asking, admit, isOffered, onError }), {
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

function mustBeOffered(offered: OfferedTools | undefined, folder: string, tool: string): void {
  if (offered === undefined || offered.has(tool)) return
  const named = offered.globs.join(', ') || 'none'
  refuse(
    'forbidden',
    `${tool}: not offered to runs of ${folder}`,
    `the config of the group offers these tools: ${named}`,
  )
}
