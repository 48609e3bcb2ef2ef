// The tools of the resources and of the hot paths, and the list of them that a server shows. It loads no protocol: daemons make
// the list when they start, and load the Model Context Protocol (`mcp.ts`) with the first connection.
import type { Tool as ShownTool } from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { Caller } from '../core/access/caller.ts'
import type { Policy } from '../core/access/policy.ts'
import { parse } from '../lib/text/schema-parser.ts'
import { ApprovalRequired, requestApproval, withApproval } from '../registry/approvals.ts'
import { callParsed } from '../registry/call.ts'
import type { RequestContext } from '../registry/context.ts'
import type { NamedVerb, Resource } from '../registry/resource.ts'
import { mustBeListed, type Tool, ToolNotListed, toolVisibility } from '../registry/tool.ts'
import { isSchema, type JsonSchema, toJsonSchema } from './json-schema.ts'
import { responseFilter } from './response-filter.ts'

/** Made once and shared by every connection. */
export interface ToolList<A = RequestContext> {
  readonly tools: ReadonlyMap<string, Tool<A>>
  /** Sorted by name; descriptions do not yet contain the caller's grants. Made at the first read: JSON schemas are the costly part. */
  readonly definitions: readonly ShownTool[]
}

/** The verbs that say when to use them. */
export function resourceTools(resources: readonly Resource[]): Tool[] {
  return resources.flatMap(({ verbs }) =>
    Object.values(verbs).flatMap((verb) => (verb.when === undefined ? [] : [toolFromVerb(verb, verb.when)])),
  )
}

/** Tools that are no rows. */
export function standaloneTools(verbs: readonly NamedVerb[]): Tool[] {
  return verbs.flatMap((verb) => (verb.when === undefined ? [] : [toolFromVerb(verb, verb.when)]))
}

export function createToolList<A = RequestContext>(tools: readonly Tool<A>[]): ToolList<A> {
  const sorted = [...tools].sort((a, b) => (a.name < b.name ? -1 : 1))
  const twice = sorted.find(({ name }, index) => sorted[index + 1]?.name === name)
  if (twice) throw new Error(`two tools are called ${twice.name}`)
  let shown: readonly ShownTool[] | undefined
  return {
    tools: new Map(sorted.map((tool) => [tool.name, tool])),
    get definitions() {
      shown ??= sorted.map(({ name, when, input }) => ({ name, description: when, inputSchema: inputSchema(input) }))
      return shown
    },
  }
}

/** The tools that the caller may see (decision A4); an agent reads by which rules. */
export function toolsVisibleTo({ definitions, tools }: ToolList, policy: Policy, caller: Caller): ShownTool[] {
  return definitions.flatMap((tool) => {
    const { listed, rules } = toolVisibility(policy, caller, {
      tool: tool.name,
      tiers: tools.get(tool.name)?.tiers ?? {},
    })
    if (!listed) return []
    const grants = rules.length === 0 ? '' : `\ngrants: ${JSON.stringify(rules)}`
    return [{ ...tool, description: `${tool.description}${grants}` }]
  })
}

function toolFromVerb(verb: NamedVerb, when: string): Tool {
  const input = verb.toolInput ?? verb.input
  const show = verb.output ? responseFilter(verb.output) : () => undefined
  // In the verb's own transaction, so that the rights that list it are the rights that it runs with.
  const shown: NamedVerb = {
    ...verb,
    authorize: async (ctx, given) => {
      await mustBeListed(ctx)
      await verb.authorize(ctx, given)
    },
  }
  const callUnlessHeld = withApproval(shown)
  const { prepare: _, appendsMessages: __, ...bare } = verb
  const nothing: NamedVerb = {
    ...bare,
    input: z.object({}),
    isReadOnly: true,
    authorize: mustBeListed,
    run: async () => {},
  }

  async function read(asking: RequestContext, args: unknown): Promise<z.output<z.ZodObject>> {
    try {
      return parse(input, args)
    } catch (error) {
      // A caller who may not see the tool must not learn its arguments from the error.
      await callParsed(asking, nothing, {})
      throw error
    }
  }

  return {
    name: verb.toolName,
    when,
    ...(verb.reach ? { reach: verb.reach } : {}),
    ...(verb.tiers ? { tiers: verb.tiers } : {}),
    input,
    isAvailable: ({ host }) => verb.isAvailable?.(host) ?? true,
    run: async (asking, args) => {
      if (verb.isAvailable?.(asking.host) === false) throw new ToolNotListed(verb.toolName)
      const given = await read(asking, args)
      const done = await callUnlessHeld(asking, given)
      if (done instanceof ApprovalRequired) return requestApproval(asking, verb, given)
      if (verb.finish) return verb.finish(asking, done, given)
      const reply = show(done)
      return verb.toolReply ? verb.toolReply(reply, given) : reply
    },
  }
}

function inputSchema(input: z.ZodType): ShownTool['inputSchema'] {
  const { properties, ...schema } = toJsonSchema(input, 'input')
  if (schema.type !== 'object' || !isSchema(properties)) throw new Error('the arguments of a tool are an object')
  const parts = Object.entries(properties).map(([name, part]) => [name, isSchema(part) ? argument(part) : part])
  return { ...schema, type: 'object', properties: Object.fromEntries(parts) }
}

/**
 * That the server sets an id is about rows, not about naming one. Rules of texts are left out: the list goes with every turn
 * of a model, which learns more from the sentence of a refusal.
 */
function argument({ items, ...part }: JsonSchema): JsonSchema {
  const kept = Object.entries(part).filter(([key, value]) => !LEFT_OUT.has(key) || value === 'date-time')
  return { ...Object.fromEntries(kept), ...(isSchema(items) ? { items: argument(items) } : {}) }
}

const LEFT_OUT: ReadonlySet<string> = new Set(['readOnly', 'minLength', 'maxLength', 'pattern', 'not', 'format'])
