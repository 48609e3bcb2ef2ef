// The tools of resources and of standalone verbs, and their MCP definitions. Loads no protocol code: daemons build the list when
// they start and load `mcp.ts` with the first connection.
import type { Tool as ToolDefinition } from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { Caller } from '../core/access/caller.ts'
import type { Policy } from '../core/access/policy.ts'
import { isObject } from '../lib/text/json.ts'
import { parse } from '../lib/text/schema-parser.ts'
import { ApprovalRequired, requestApproval, withApproval } from '../registry/approvals.ts'
import { callParsed } from '../registry/call.ts'
import type { RequestContext } from '../registry/context.ts'
import type { NamedVerb, Resource } from '../registry/resource.ts'
import { mustBeListed, type Tool, ToolNotListed, toolVisibility } from '../registry/tool.ts'
import { nameTurnChat } from '../registry/turn-chat.ts'
import { type JsonSchema, toJsonSchema } from './json-schema.ts'
import { createResponseFilter } from './response-filter.ts'

/** Shared by all connections. */
export interface ToolList<A = RequestContext> {
  readonly tools: ReadonlyMap<string, Tool<A>>
  /** Sorted by name, without the caller's grants. Built at the first read, because JSON schemas are expensive. */
  readonly definitions: readonly ToolDefinition[]
}

/** The verbs of resources that have a `when`. */
export function resourceTools(resources: readonly Resource[]): Tool[] {
  return standaloneTools(resources.flatMap(({ verbs }) => Object.values(verbs)))
}

/** Tools that belong to no resource. */
export function standaloneTools(verbs: readonly NamedVerb[]): Tool[] {
  return verbs.flatMap((verb) => (verb.when === undefined ? [] : [createTool(verb, verb.when)]))
}

export function createToolList<A = RequestContext>(tools: readonly Tool<A>[]): ToolList<A> {
  const sorted = [...tools].sort((a, b) => (a.name < b.name ? -1 : 1))
  const duplicate = sorted.find(({ name }, index) => sorted[index + 1]?.name === name)
  if (duplicate) throw new Error(`two tools have the name ${duplicate.name}`)
  let definitions: readonly ToolDefinition[] | undefined
  return {
    tools: new Map(sorted.map((tool) => [tool.name, tool])),
    get definitions() {
      definitions ??= sorted.map(({ name, when, input }) => ({
        name,
        description: when,
        inputSchema: inputSchema(input),
      }))
      return definitions
    },
  }
}

/** The tools that the caller may see (docs/decisions.md#rights-are-read-at-every-call), with the grants of an agent in their descriptions. */
export function toolsVisibleTo({ definitions, tools }: ToolList, policy: Policy, caller: Caller): ToolDefinition[] {
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

function createTool(verb: NamedVerb, when: string): Tool {
  const { fields, toInput } = verb.toolInput ?? { fields: verb.input, toInput: (args) => args }
  const filter = verb.output ? createResponseFilter(verb.output) : () => undefined
  // Checked in the transaction of the verb, so that one version of the rights decides both.
  const callWithApproval = withApproval({
    ...verb,
    authorize: async (ctx, args) => {
      await mustBeListed(ctx)
      await verb.authorize(ctx, args)
    },
  })
  const { prepare: _, appendsMessages: __, ...rest } = verb
  const listingCheck: NamedVerb = {
    ...rest,
    input: z.object({}),
    isReadOnly: true,
    authorize: mustBeListed,
    run: async () => {},
  }

  async function parseArguments(context: RequestContext, args: unknown): Promise<z.output<z.ZodObject>> {
    try {
      return toInput(parse(fields, args))
    } catch (error) {
      // A caller who may not see the tool must not learn its arguments from the error.
      await callParsed(context, listingCheck, {})
      throw error
    }
  }

  return {
    name: verb.toolName,
    when,
    ...(verb.activity ? { activity: verb.activity } : {}),
    ...(verb.reach ? { reach: verb.reach } : {}),
    ...(verb.tiers ? { tiers: verb.tiers } : {}),
    input: fields,
    isAvailable: ({ host }) => verb.isAvailable?.(host) ?? true,
    run: async (context, args) => {
      if (verb.isAvailable?.(context.host) === false) throw new ToolNotListed(verb.toolName)
      const parsed = await nameTurnChat(context, verb, await parseArguments(context, args))
      const result = await callWithApproval(context, parsed)
      if (result instanceof ApprovalRequired) return requestApproval(context, verb, parsed)
      if (verb.finish) return verb.finish(context, result, parsed)
      const reply = filter(result)
      return verb.toolReply ? verb.toolReply(reply, parsed) : reply
    },
  }
}

function inputSchema(input: z.ZodObject): ToolDefinition['inputSchema'] {
  const { properties, ...schema } = toJsonSchema(input, 'input')
  const parts = Object.entries(isObject(properties) ? properties : {}).map(([name, part]) => [
    name,
    isObject(part) ? argumentSchema(part) : part,
  ])
  return { ...schema, type: 'object', properties: Object.fromEntries(parts) }
}

/** Omits text rules: models get the list with every turn and learn more from the message of a refusal. */
function argumentSchema({ items, ...part }: JsonSchema): JsonSchema {
  const kept = Object.entries(part).filter(([key, value]) => !OMITTED_KEYS.has(key) || value === 'date-time')
  return { ...Object.fromEntries(kept), ...(isObject(items) ? { items: argumentSchema(items) } : {}) }
}

/** `readOnly` is about rows: an id that the server sets can still be an argument. */
const OMITTED_KEYS: ReadonlySet<string> = new Set(['readOnly', 'minLength', 'maxLength', 'pattern', 'not', 'format'])
