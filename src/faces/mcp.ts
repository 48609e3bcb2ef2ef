// The tool face: the Model Context Protocol over whatever transport the daemon has. Which tools there are is said by the
// resources, who may see and use them by the registry.
import {
  type CallToolResult,
  type JSONRPCRequest,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type Tool as ShownTool,
} from '@modelcontextprotocol/server'
import { hasReach } from '../core/access/reach.ts'
import { REFUSALS, Refusal, TransientRefusal } from '../lib/refusal.ts'
import { packageVersion } from '../lib/version.ts'
import type { RequestContext } from '../registry/context.ts'
import { ToolNotListed } from '../registry/tool.ts'
import { isSchema } from './json-schema.ts'
import { type ToolList, toolsVisibleTo } from './tool-list.ts'

export interface ToolServerOptions<A = RequestContext> {
  readonly list: ToolList<A>
  /** Returns the caller and its turn; called with the `_meta` of every request. */
  requestContext(meta: unknown): A | Promise<A>
  /** Asked before each call; what it refuses is the answer. */
  admit?(asking: A, tool: string): void
  /** Whether a tool that the caller may use is listed at all; all are unless said. */
  isOffered?(tool: string): boolean
  /** What was thrown and is no refusal. The caller is told nothing of it. */
  onError(error: unknown, what: string): void
}

export const CAPABILITIES = { tools: {} }

export function serverInfo(): { readonly name: string; readonly version: string } {
  return { name: 'svc', version: packageVersion() }
}

/** One for each connection, or for each request over HTTP. Both protocol generations speak to it. */
export function createToolServer(options: ToolServerOptions): Server {
  return createMcpServer(options, async (asking) => {
    const { host, caller, reach = 'all' } = asking
    const policy = await host.engine.read((tx) => host.policies.read(tx))
    const { tools } = options.list
    return toolsVisibleTo(options.list, policy, caller).filter(({ name }) => {
      const tool = tools.get(name)
      if (tool === undefined || options.isOffered?.(name) === false) return false
      return hasReach(reach, tool.reach ?? 'all') && (tool.isAvailable?.(asking) ?? true)
    })
  })
}

/** The same for whoever is no caller of the registry, or is shown its tools by other rules. */
export function createMcpServer<A>(
  options: ToolServerOptions<A>,
  shown: (asking: A) => readonly ShownTool[] | Promise<readonly ShownTool[]>,
): Server {
  const { requestContext, onError } = options
  const server = new Server(serverInfo(), { capabilities: CAPABILITIES })

  server.setRequestHandler('tools/list', async (_request, ctx) => {
    try {
      return { tools: [...(await shown(await requestContext(ctx.mcpReq._meta)))] }
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
  { list, requestContext, admit, onError }: ToolServerOptions<A>,
  { name, arguments: args = {} }: ToolCallParams,
  meta: unknown,
): Promise<CallToolResult> {
  const tool = list.tools.get(name)
  if (!tool) throw unknownTool(name)
  try {
    const asked = await requestContext(meta)
    admit?.(asked, tool.name)
    return success(await tool.run(asked, args))
  } catch (error) {
    if (error instanceof ToolNotListed) throw unknownTool(name)
    if (!(error instanceof Refusal)) onError(error, tool.name)
    return failure(error)
  }
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

/** Why a message is no call of a tool, for a sentence of ours: the official package would print its own findings. */
export function toolCallFault(message: unknown): string | undefined {
  if (!isSchema(message) || message.method !== 'tools/call') return undefined
  const { params } = message
  if (!isSchema(params)) return 'params must be an object with the name of a tool'
  if (typeof params.name !== 'string') return 'name must be the name of a tool'
  return params.arguments === undefined || isSchema(params.arguments) ? undefined : 'arguments must be an object'
}

function success(reply: unknown): CallToolResult {
  if (reply === undefined) return textResult('ok')
  if (typeof reply === 'string') return textResult(reply)
  return { ...textResult(JSON.stringify(reply)), ...(isSchema(reply) ? { structuredContent: reply } : {}) }
}

/** Decision E2: a failure is a result that says so. */
function failure(error: unknown): CallToolResult {
  if (!(error instanceof Refusal)) return { ...textResult('internal error'), isError: true }
  const result = textResult(error.hint ? `${error.message}\nhint: ${error.hint}` : error.message)
  return { ...result, isError: true, ...(error instanceof TransientRefusal ? { _meta: { 'svc/passing': true } } : {}) }
}

function textResult(text: string): CallToolResult {
  return { content: [{ type: 'text', text }] }
}

/** A list has no other place for a failure than the protocol's own. */
function protocolError(error: unknown): ProtocolError {
  if (error instanceof Refusal) return new ProtocolError(REFUSALS[error.code].rpc, error.message)
  return new ProtocolError(ProtocolErrorCode.InternalError, 'internal error')
}

/** The same for a tool that is not there and for one that the caller is not shown. */
function unknownTool(name: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `unknown tool: ${name.slice(0, 80)}`)
}
