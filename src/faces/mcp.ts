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
import type { Policy } from '../core/access.ts'
import type { Caller } from '../core/caller.ts'
import { hasReach } from '../core/reach.ts'
import { parse } from '../lib/parse.ts'
import { REFUSALS, Refusal } from '../lib/refusal.ts'
import { packageVersion } from '../lib/version.ts'
import { callParsed } from '../registry/call.ts'
import type { Asking } from '../registry/context.ts'
import { HeldCall, heldAnswer, holdable } from '../registry/holding.ts'
import type { NamedVerb, Resource } from '../registry/resource.ts'
import { mustBeListed, type Tool, Unlisted, visibilityOf } from '../registry/tool.ts'
import { isSchema, jsonSchema, type Schema } from './schema.ts'
import { showAs } from './shown.ts'

/** Made once and shared by every connection: its schemas are the costly part. */
export interface ToolList<A = Asking> {
  readonly tools: ReadonlyMap<string, Tool<A>>
  /** Sorted by name. The descriptions are still without the caller's grants. */
  readonly shown: readonly ShownTool[]
}

export interface ToolServerOptions<A = Asking> {
  readonly list: ToolList<A>
  /** Asked at every request: who is there, and in which turn. */
  asking(ctx: ServerContext): A | Promise<A>
  /** Asked before each call; what it refuses is the answer. */
  admit?(asking: A, tool: string): void
  /** Whether a tool that the caller may use is listed at all; all are unless said. */
  isOffered?(tool: string): boolean
  /** What was thrown and is no refusal. The caller is told nothing of it. */
  onError(error: unknown, what: string): void
}

/** The verbs that say when to use them. */
export function toolsOf(resources: readonly Resource[]): Tool[] {
  return resources.flatMap(({ verbs }) =>
    Object.values(verbs).flatMap((verb) => (verb.when === undefined ? [] : [verbTool(verb, verb.when)])),
  )
}

/** Tools that are no rows. */
export function hotToolsOf(verbs: readonly NamedVerb[]): Tool[] {
  return verbs.flatMap((verb) => (verb.when === undefined ? [] : [verbTool(verb, verb.when)]))
}

export function toolList<A = Asking>(tools: readonly Tool<A>[]): ToolList<A> {
  const sorted = [...tools].sort((a, b) => (a.name < b.name ? -1 : 1))
  const twice = sorted.find(({ name }, index) => sorted[index + 1]?.name === name)
  if (twice) throw new Error(`two tools are called ${twice.name}`)
  return {
    tools: new Map(sorted.map((tool) => [tool.name, tool])),
    shown: sorted.map(({ name, when, input }) => ({ name, description: when, inputSchema: inputSchema(input) })),
  }
}

/** One for each connection, or for each request over HTTP. Both protocol generations speak to it. */
export function toolServer(options: ToolServerOptions): Server {
  return serverOf(options, async (asking) => {
    const { host, caller, reach = 'all' } = asking
    const policy = await host.engine.read((tx) => host.policies.read(tx))
    const { tools } = options.list
    return shownTo(options.list, policy, caller).filter(({ name }) => {
      const tool = tools.get(name)
      if (tool === undefined || options.isOffered?.(name) === false) return false
      return hasReach(reach, tool.reach ?? 'all') && (tool.isThere?.(asking) ?? true)
    })
  })
}

/** The same for whoever is no caller of the registry, or is shown its tools by other rules. */
export function serverOf<A>(
  { list, asking, admit, onError }: ToolServerOptions<A>,
  shown: (asking: A) => readonly ShownTool[] | Promise<readonly ShownTool[]>,
): Server {
  const server = new Server({ name: 'svc', version: packageVersion() }, { capabilities: { tools: {} } })

  server.setRequestHandler('tools/list', async (_request, ctx) => {
    try {
      return { tools: [...(await shown(await asking(ctx)))] }
    } catch (error) {
      if (!(error instanceof Refusal)) onError(error, 'tools/list')
      throw protocolError(error)
    }
  })

  server.setRequestHandler('tools/call', async ({ params }, ctx) => {
    const tool = list.tools.get(params.name)
    if (!tool) throw unknownTool(params.name)
    try {
      const asked = await asking(ctx)
      admit?.(asked, tool.name)
      return success(await tool.run(asked, params.arguments ?? {}))
    } catch (error) {
      if (error instanceof Unlisted) throw unknownTool(params.name)
      if (!(error instanceof Refusal)) onError(error, tool.name)
      return failure(error)
    }
  })

  return server
}

/** Why a message is no call of a tool, for a sentence of ours: the official package would print its own findings. */
export function toolCallFault(message: unknown): string | undefined {
  if (!isSchema(message) || message.method !== 'tools/call') return undefined
  const { params } = message
  if (!isSchema(params)) return 'params must be an object with the name of a tool'
  if (typeof params.name !== 'string') return 'name must be the name of a tool'
  return params.arguments === undefined || isSchema(params.arguments) ? undefined : 'arguments must be an object'
}

/** The tools that the caller may see (decision A4); an agent reads by which rules. */
export function shownTo({ shown }: ToolList, policy: Policy, caller: Caller): ShownTool[] {
  return shown.flatMap((tool) => {
    const { listed, rules } = visibilityOf(policy, caller, tool.name)
    if (!listed) return []
    const grants = rules.length === 0 ? '' : `\ngrants: ${JSON.stringify(rules)}`
    return [{ ...tool, description: `${tool.description}${grants}` }]
  })
}

function verbTool(verb: NamedVerb, when: string): Tool {
  const input = verb.toolInput ?? verb.input
  const show = verb.output ? showAs(verb.output) : () => undefined
  // In the verb's own transaction, so that the rights that list it are the rights that it runs with.
  const shown: NamedVerb = {
    ...verb,
    needs: async (ctx, given) => {
      await mustBeListed(ctx)
      await verb.needs(ctx, given)
    },
  }
  const callUnlessHeld = holdable(shown)
  const { prepare: _, says: __, ...bare } = verb
  const nothing: NamedVerb = { ...bare, input: z.object({}), reads: true, needs: mustBeListed, run: async () => {} }

  async function read(asking: Asking, args: unknown): Promise<z.output<z.ZodObject>> {
    try {
      return parse(input, args)
    } catch (error) {
      // What a tool takes is told to nobody to whom there is no such tool.
      await callParsed(asking, nothing, {})
      throw error
    }
  }

  return {
    name: verb.toolName,
    when,
    ...(verb.reach ? { reach: verb.reach } : {}),
    input,
    isThere: ({ host }) => verb.isThere?.(host) ?? true,
    run: async (asking, args) => {
      if (verb.isThere?.(asking.host) === false) throw new Unlisted(verb.toolName)
      const given = await read(asking, args)
      const done = await callUnlessHeld(asking, given)
      if (done instanceof HeldCall) return heldAnswer(asking, verb, given)
      if (verb.finish) return verb.finish(asking, done, given)
      const reply = show(done)
      return verb.toolReply ? verb.toolReply(reply, given) : reply
    },
  }
}

function inputSchema(input: z.ZodType): ShownTool['inputSchema'] {
  const { properties, ...schema } = jsonSchema(input, 'input')
  if (schema.type !== 'object' || !isSchema(properties)) throw new Error('the arguments of a tool are an object')
  const parts = Object.entries(properties).map(([name, part]) => [name, isSchema(part) ? argument(part) : part])
  return { ...schema, type: 'object', properties: Object.fromEntries(parts) }
}

/**
 * That the server sets an id is about rows, not about naming one. Rules of texts are left out: the list goes with every turn
 * of a model, which learns more from the sentence of a refusal.
 */
function argument({ items, ...part }: Schema): Schema {
  const kept = Object.entries(part).filter(([key, value]) => !LEFT_OUT.has(key) || value === 'date-time')
  return { ...Object.fromEntries(kept), ...(isSchema(items) ? { items: argument(items) } : {}) }
}

const LEFT_OUT: ReadonlySet<string> = new Set(['readOnly', 'minLength', 'maxLength', 'pattern', 'not', 'format'])

function success(reply: unknown): CallToolResult {
  if (reply === undefined) return said('ok')
  if (typeof reply === 'string') return said(reply)
  return { ...said(JSON.stringify(reply)), ...(isSchema(reply) ? { structuredContent: reply } : {}) }
}

/** Decision E2: a failure is a result that says so. */
function failure(error: unknown): CallToolResult {
  if (!(error instanceof Refusal)) return { ...said('internal error'), isError: true }
  return { ...said(error.hint ? `${error.message}\nhint: ${error.hint}` : error.message), isError: true }
}

function said(text: string): CallToolResult {
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
