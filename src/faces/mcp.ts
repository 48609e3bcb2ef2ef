// The tool face: the Model Context Protocol over whatever transport the daemon has. Which tools there are is said by the
// resources, who may see and use them by the registry.
import {
  type CallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
  type Tool as ShownTool,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import { REFUSALS, Refusal } from '../lib/refusal.ts'
import type { Asking } from '../registry/context.ts'
import { type Tool, Unlisted, visibilityOf } from '../registry/tool.ts'

/** Made once, shared by every connection: the schemas in it are the costly part. */
export interface ToolList {
  readonly tools: ReadonlyMap<string, Tool>
  /** Sorted by name; descriptions are still without the caller's grants. */
  readonly shown: readonly ShownTool[]
}

export interface ToolServerOptions {
  readonly list: ToolList
  readonly version: string
  /** Asked at every request: who is there, and in which turn. */
  asking(ctx: ServerContext): Asking | Promise<Asking>
  /** What was thrown and is no refusal: the caller is told nothing of it. */
  onError(error: unknown, what: string): void
}

export function toolList(tools: Iterable<Tool>): ToolList {
  const byName = new Map<string, Tool>()
  for (const tool of tools) {
    if (byName.has(tool.name)) throw new Error(`two tools are called ${tool.name}`)
    byName.set(tool.name, tool)
  }
  const sorted = [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
  return {
    tools: byName,
    shown: sorted.map(({ name, when, input }) => ({ name, description: when, inputSchema: inputSchema(input) })),
  }
}

/** One for each connection, or for each request over HTTP; both protocol generations speak to it. */
export function toolServer({ list, version, asking, onError }: ToolServerOptions): Server {
  const server = new Server({ name: 'svc', version }, { capabilities: { tools: {} } })

  server.setRequestHandler('tools/list', async (_request, ctx) => {
    try {
      return { tools: await shownTo(list, await asking(ctx)) }
    } catch (error) {
      throw rpcError(error, () => onError(error, 'tools/list'))
    }
  })

  server.setRequestHandler('tools/call', async ({ params }, ctx) => {
    const tool = list.tools.get(params.name)
    if (!tool) throw unknownTool(params.name)
    try {
      return success(await tool.run(await asking(ctx), params.arguments ?? {}))
    } catch (error) {
      if (error instanceof Unlisted) throw unknownTool(params.name)
      return failure(error, () => onError(error, tool.name))
    }
  })

  return server
}

/** The tools that the caller may see (decision A4), by the rights of this moment. */
export async function shownTo({ shown }: ToolList, { host, caller }: Asking): Promise<ShownTool[]> {
  const policy = await host.engine.read((tx) => host.policies.read(tx))
  return shown.flatMap((tool) => {
    const { listed, rules } = visibilityOf(policy, caller, tool.name)
    if (!listed) return []
    return rules.length === 0
      ? [tool]
      : [{ ...tool, description: `${tool.description}\ngrants: ${JSON.stringify(rules)}` }]
  })
}

/** What a model reads: without the marks that only other readers of a schema need. */
function inputSchema(input: z.ZodType): ShownTool['inputSchema'] {
  const { $schema, ...schema } = z.toJSONSchema(input, {
    io: 'input',
    override: ({ jsonSchema }) => {
      delete jsonSchema.readOnly
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern
    },
  })
  if (schema.type !== 'object') throw new Error('the arguments of a tool are an object')
  // The type that was just checked is what the protocol asks of a tool's schema; the rest of it is any JSON Schema.
  return schema as ShownTool['inputSchema']
}

function success(reply: unknown): CallToolResult {
  if (reply === undefined) return said('ok')
  if (typeof reply === 'string') return said(reply)
  const isObject = typeof reply === 'object' && reply !== null && !Array.isArray(reply)
  return { ...said(JSON.stringify(reply)), ...(isObject ? { structuredContent: { ...reply } } : {}) }
}

/** Decision E2: a failure is a result that says so. */
function failure(error: unknown, report: () => void): CallToolResult {
  if (error instanceof Refusal)
    return { ...said(error.hint ? `${error.message}\nhint: ${error.hint}` : error.message), isError: true }
  report()
  return { ...said('internal error'), isError: true }
}

function said(text: string): CallToolResult {
  return { content: [{ type: 'text', text }] }
}

/** A list has no place for a failure but the protocol's own. */
function rpcError(error: unknown, report: () => void): ProtocolError {
  if (error instanceof Refusal) return new ProtocolError(REFUSALS[error.code].rpc, error.message)
  report()
  return new ProtocolError(ProtocolErrorCode.InternalError, 'internal error')
}

/** The same for a tool that is not there and one that the caller is not shown. */
function unknownTool(name: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `unknown tool: ${name.slice(0, 80)}`)
}
