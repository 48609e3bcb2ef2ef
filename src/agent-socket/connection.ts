// One connection of an agent to a tool socket: MCP with the tools of its folder.
import type { Socket } from 'node:net'
import {
  type JSONRPCRequest,
  type McpServerFactory,
  type ProtocolEra,
  ProtocolError,
} from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import type { CallRateLimiter } from '../core/access/call-rate-limit.ts'
import type { Reach } from '../core/access/reach.ts'
import type { OfferedTools } from '../core/groups/group-config.ts'
import {
  callTool,
  createToolServer,
  plainToolCall,
  type ToolCallParams,
  type ToolCallReport,
  type ToolCallStart,
  type ToolServerOptions,
  toolCallFault,
} from '../faces/mcp.ts'
import type { ToolList } from '../faces/tool-list.ts'
import type { FlowLimiter } from '../lib/flow-limiter.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import type { InstanceHost, RequestContext } from '../registry/context.ts'
import { plainHandshake } from './handshake.ts'
import { answerHiddenMethod, isHiddenMethod, toRpcError } from './hidden-methods.ts'
import { LineTransport, type RpcReply } from './line-transport.ts'
import { readTurnMeta, type TurnMeta } from './turn-meta.ts'

/** What all connections of all folders share. */
export interface ToolSocketContext {
  readonly host: InstanceHost
  readonly list: ToolList
  /** Reports unexpected errors; refusals are not reported. */
  onError(error: unknown, folder: string, what: string): void
}

export interface AgentConnection {
  /** Answers pending requests, then closes. */
  close(): Promise<void>
}

/** Tool lists never change during a connection, so more subscriptions bring nothing. */
const SUBSCRIPTIONS_MAX = 8
/** A connection that sends no line within this time is closed. */
const FIRST_LINE_TIMEOUT_MS = 60_000
/** A hidden method is a transaction, so it counts as this many lines. */
const HIDDEN_METHOD_LINES = 10

/** The turn that a run's socket belongs to. Its connections cannot act for another turn. */
export interface BoundTurn {
  readonly id: string
  readonly fence: number
  readonly reach: Reach
  /** Absent if the group's config does not limit tools. */
  readonly offered?: OfferedTools | undefined
  /** Called when a tool failed because the store was unavailable. */
  onOutage?(): void
  /** Called before each tool call; the returned function is called at its end. */
  onCall?(call: ToolCallStart): (report?: ToolCallReport) => void
  /** Called for an exception outside of a tool, after which the connection is closed: the turn cannot go on. */
  onFault?(error: unknown): void
}

export interface AgentConnectionOptions {
  readonly folder: string
  /** Absent for a folder's own socket, where each connection sends its turn in `_meta`. */
  readonly bound?: BoundTurn | undefined
  readonly firstLineTimeoutMs?: number | undefined
  /** Shared by all connections of a socket, so that opening more of them does not raise the limit. */
  readonly calls: CallRateLimiter
  readonly flow: FlowLimiter
}

export function openAgentConnection(
  context: ToolSocketContext,
  socket: Socket,
  options: AgentConnectionOptions,
): AgentConnection {
  const { host, list } = context
  const { folder, bound, firstLineTimeoutMs = FIRST_LINE_TIMEOUT_MS, calls, flow } = options
  const onError = (error: unknown, what: string): void => context.onError(error, folder, what)
  const firstLineTimer = setTimeout(() => socket.destroy(), firstLineTimeoutMs).unref()
  socket.once('close', () => clearTimeout(firstLineTimer))
  let connectionTurn: TurnMeta | undefined = bound

  /** Clients of the protocol revision without a handshake send their turn with each request. */
  const turnOf = (meta: unknown): TurnMeta | undefined => {
    const sent = readTurnMeta(meta)
    if (bound && sent && (sent.id !== bound.id || (sent.fence ?? bound.fence) !== bound.fence))
      refuse('forbidden', `this socket belongs to the turn ${bound.id}`)
    return bound ?? sent
  }

  /** Hidden methods repeat the turn in `turn_id`. */
  const mustBeBoundTo = (turnId: unknown): void => {
    if (bound && turnId && turnId !== bound.id) refuse('forbidden', `this socket belongs to the turn ${bound.id}`)
  }

  const requestContext = (meta: unknown): RequestContext => {
    const turn = turnOf(meta) ?? connectionTurn
    // Only operators can open a folder's own socket, so it has the full reach.
    const base = { host, caller: { kind: 'agent', folder }, face: 'tool', reach: bound?.reach ?? 'all' } as const
    if (!turn) return base
    const onOutage = (): void => bound?.onOutage?.()
    host.lastSocketUse.set(turn.id, host.clock.now())
    return { ...base, onOutage, turn: { id: turn.id, ...(turn.fence === undefined ? {} : { fence: turn.fence }) } }
  }

  const intercept = (request: JSONRPCRequest): Promise<RpcReply> | undefined => {
    try {
      const requestTurn = turnOf(request.params?._meta)
      mustBeBoundTo(request.params?.turn_id)
      const fault = toolCallFault(request)
      if (fault) refuse('invalid', fault)
      if (request.method === 'initialize') connectionTurn = requestTurn
      // `submit_turn` is delayed by a flood of requests but not refused, so that the end of a turn is recorded.
      if (request.method === 'submit_status') calls.take()
      if (isHiddenMethod(request.method)) flow.countLines(HIDDEN_METHOD_LINES - 1)
      const handshake = era === 'modern' ? undefined : plainHandshake(request)
      if (handshake) {
        era = 'legacy'
        return Promise.resolve({ result: handshake })
      }
      const call = era === 'legacy' ? plainToolCall(request) : undefined
      if (call) return answerCall(tools, call, request.params?._meta)
      return answerHiddenMethod(request, { host, folder, turn: requestTurn ?? connectionTurn, onError })
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return Promise.resolve({ error: toRpcError(error) })
    }
  }

  /** Generation of the protocol revision in use. `legacy` (revisions of 2025) never changes again. */
  let era: ProtocolEra | undefined
  const transport = new LineTransport(socket, {
    intercept,
    // It has no effect here, and the package would create a server for it.
    ignoresNotification: ({ method }) => era === 'legacy' && method === 'notifications/initialized',
    onFirstLine: () => clearTimeout(firstLineTimer),
    onFault: (error) => (bound?.onFault ? bound.onFault(error) : onError(error, 'connection')),
    flow,
  })
  const admit = (_context: RequestContext, tool: string): void => {
    calls.take()
    mustBeOffered(bound?.offered, folder, tool)
  }
  const isOffered = (tool: string): boolean => bound?.offered?.has(tool) ?? true
  const onCall = bound?.onCall
  const tools: ToolServerOptions = { list, requestContext, admit, isOffered, onError, ...(onCall ? { onCall } : {}) }
  const serve: McpServerFactory = (context) => {
    if (era !== 'legacy') era = context.era
    return createToolServer(tools)
  }
  const served = serveStdio(serve, { transport, maxSubscriptions: SUBSCRIPTIONS_MAX })
  return {
    close: async () => {
      await transport.drain()
      await served.close()
    },
  }
}

/**
 * Answers a tool call of a 2025 revision without the official package, which validates each request and result by schemas
 * and takes longer for it than most calls. A test compares the responses of both.
 */
async function answerCall(tools: ToolServerOptions, call: ToolCallParams, meta: unknown): Promise<RpcReply> {
  try {
    return { result: await callTool(tools, call, meta) }
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error
    return { error: { code: error.code, message: error.message } }
  }
}

function mustBeOffered(offered: OfferedTools | undefined, folder: string, tool: string): void {
  if (offered === undefined || offered.has(tool)) return
  const offeredNames = offered.globs.join(', ') || 'none'
  refuse(
    'forbidden',
    `${tool}: not offered to runs of ${folder}`,
    `the config of the group offers these tools: ${offeredNames}`,
  )
}
