// The Model Context Protocol over any transport. Resources define the tools; the registry decides who may see and call them.
import {
  type CallToolResult,
  type JSONRPCRequest,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type Tool as ToolDefinition,
} from '@modelcontextprotocol/server'
import { hasReach } from '../core/access/reach.ts'
import { REFUSALS, Refusal, TransientRefusal } from '../lib/refusal.ts'
import { isObject } from '../lib/text/json.ts'
import { packageVersion } from '../lib/version.ts'
import type { RequestContext } from '../registry/context.ts'
import { type Tool, ToolNotListed } from '../registry/tool.ts'
import { type ToolList, toolsVisibleTo } from './tool-list.ts'

export interface ToolServerOptions<A = RequestContext> {
  readonly list: ToolList<A>
  /** Returns the caller and its turn; called with the `_meta` of every request. */
  requestContext(meta: unknown): A | Promise<A>
  /** Called before each tool call; its refusal is the result of the call. */
  admit?(context: A, tool: string): void
  /** Whether a tool that the caller may use is listed; by default all are. */
  isOffered?(tool: string): boolean
  /** Called before each call of a tool. The returned function is called at its end, with a report if the tool exists for the caller. */
  onCall?(call: ToolCallStart): (report?: ToolCallReport) => void
  /** Called for errors that are not refusals; the client gets only `internal error`. */
  onError(error: unknown, what: string): void
}

export interface ToolCallStart {
  readonly tool: Pick<Tool<never>, 'name' | 'input' | 'activity'>
  readonly args: Readonly<Record<string, unknown>>
}

export interface ToolCallReport extends ToolCallStart {
  readonly result: CallToolResult
  readonly ms: number
}

export const CAPABILITIES = { tools: {} }

export function serverInfo(): { readonly name: string; readonly version: string } {
  return { name: 'svc', version: packageVersion() }
}

/** One for each connection, or for each HTTP request. Serves both protocol generations. */
export function createToolServer(options: ToolServerOptions): Server {
  return createMcpServer(options, async (context) => {
    const { host, caller, reach = 'all' } = context
    const policy = await host.engine.read((tx) => host.policies.read(tx))
    const { tools } = options.list
    return toolsVisibleTo(options.list, policy, caller).filter(({ name }) => {
      const tool = tools.get(name)
      if (tool === undefined || options.isOffered?.(name) === false) return false
      return hasReach(reach, tool.reach ?? 'all') && (tool.isAvailable?.(context) ?? true)
    })
  })
}

/** Like `createToolServer`, for callers that are not in the registry or that see tools by other rules. */
export function createMcpServer<A>(
  options: ToolServerOptions<A>,
  listTools: (context: A) => readonly ToolDefinition[] | Promise<readonly ToolDefinition[]>,
): Server {
  const { requestContext, onError } = options
  const server = new Server(serverInfo(), { capabilities: CAPABILITIES })

  server.setRequestHandler('tools/list', async (_request, ctx) => {
    try {
      return { tools: [...(await listTools(await requestContext(ctx.mcpReq._meta)))] }
    } catch (error) {
      if (!(error instanceof Refusal)) onError(error, 'tools/list')
      throw protocolError(error)
    }
  })

  server.setRequestHandler('tools/call', ({ params }, ctx) => callTool(options, params, ctx.mcpReq._meta))

  return server
}

export interface ToolCallParams {
  readonly name: string
  readonly arguments?: Readonly<Record<string, unknown>> | undefined
}

/** The result of a `tools/call` request. Throws `ProtocolError` if there is no such tool for the caller. */
export async function callTool<A>(
  { list, requestContext, admit, onCall, onError }: ToolServerOptions<A>,
  { name, arguments: args = {} }: ToolCallParams,
  meta: unknown,
): Promise<CallToolResult> {
  const tool = list.tools.get(name)
  if (!tool) throw unknownTool(name)
  const reporter = onCall && startReport(onCall, onError, { tool, args })
  let result: CallToolResult
  try {
    const context = await requestContext(meta)
    admit?.(context, tool.name)
    result = success(await tool.run(context, args))
  } catch (error) {
    if (error instanceof ToolNotListed) {
      reporter?.()
      throw unknownTool(name)
    }
    if (!(error instanceof Refusal)) onError(error, tool.name)
    result = failure(error)
  }
  reporter?.(result)
  return result
}

/** A report that fails changes nothing about its call. */
function startReport(
  onCall: NonNullable<ToolServerOptions['onCall']>,
  onError: ToolServerOptions['onError'],
  call: ToolCallStart,
): (result?: CallToolResult) => void {
  const started = performance.now()
  const attempt = <T>(report: () => T): T | undefined => {
    try {
      return report()
    } catch (error) {
      onError(error, call.tool.name)
      return undefined
    }
  }
  const end = attempt(() => onCall(call))
  return (result) => attempt(() => end?.(result && { ...call, result, ms: performance.now() - started }))
}

/** A `tools/call` request with no more than a name, arguments and `_meta`, which `toolCallFault` has checked. */
export function plainToolCall({
  method,
  params,
}: Pick<JSONRPCRequest, 'method' | 'params'>): ToolCallParams | undefined {
  if (method !== 'tools/call' || params === undefined) return undefined
  for (const member in params) if (!PLAIN_MEMBERS.has(member)) return undefined
  return params as unknown as ToolCallParams
}

const PLAIN_MEMBERS: ReadonlySet<string> = new Set(['name', 'arguments', '_meta'])

/** Why a `tools/call` message is invalid, in plain words; the official package would send its schema errors. */
export function toolCallFault(message: unknown): string | undefined {
  if (!isObject(message) || message.method !== 'tools/call') return undefined
  const { params } = message
  if (!isObject(params)) return 'params must be an object with the name of a tool'
  if (typeof params.name !== 'string') return 'name must be the name of a tool'
  return params.arguments === undefined || isObject(params.arguments) ? undefined : 'arguments must be an object'
}

function success(reply: unknown): CallToolResult {
  if (reply === undefined) return textResult('ok')
  if (typeof reply === 'string') return textResult(reply)
  return { ...textResult(JSON.stringify(reply)), ...(isObject(reply) ? { structuredContent: reply } : {}) }
}

/** A failure is a result with `isError`. See docs/decisions.md#tool-errors. */
function failure(error: unknown): CallToolResult {
  if (!(error instanceof Refusal)) return { ...textResult('internal error'), isError: true }
  const result = textResult(error.hint ? `${error.message}\nhint: ${error.hint}` : error.message)
  return {
    ...result,
    isError: true,
    ...(error instanceof TransientRefusal ? { _meta: { 'svc/transient': true } } : {}),
  }
}

function textResult(text: string): CallToolResult {
  return { content: [{ type: 'text', text }] }
}

/** `tools/list` can report a failure only as a protocol error. */
function protocolError(error: unknown): ProtocolError {
  if (error instanceof Refusal) return new ProtocolError(REFUSALS[error.code].rpc, error.message)
  return new ProtocolError(ProtocolErrorCode.InternalError, 'internal error')
}

/** The same for a missing tool and for one that the caller may not see. */
function unknownTool(name: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `unknown tool: ${name.slice(0, 80)}`)
}
