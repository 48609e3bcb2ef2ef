// What the tool face serves. A verb with `when` is one; a tool that is no row gives the same four parts.
import { z } from 'zod'
import { isToolHeld, type Policy, toolListing } from '../core/access.ts'
import { type Caller, claimsOf, principalOf } from '../core/caller.ts'
import { parse } from '../lib/parse.ts'
import { Refusal } from '../lib/refusal.ts'
import { callParsed } from './call.ts'
import type { Asking, Context } from './context.ts'
import type { NamedVerb, Resource } from './resource.ts'

export interface Tool {
  /** What a grant names as mcp:<name>. */
  readonly name: string
  /** When an agent should use it. */
  readonly when: string
  /** Its arguments, as the caller writes them. */
  readonly input: z.ZodType
  /** All the way from the arguments to the answer, the listing included: refuses with `Unlisted` before anything else. */
  run(asking: Asking, args: unknown): Promise<unknown>
}

/** To the caller it is as if there were no such tool; the audit row knows better. */
export class Unlisted extends Refusal {
  constructor(tool: string) {
    super('forbidden', `${tool}: not listed for the caller`)
    this.name = 'Unlisted'
  }
}

export interface Visibility {
  readonly listed: boolean
  /** The rules of an agent that name the tool. */
  readonly rules: readonly string[]
}

/** Decision A4: whether the caller is shown the tool at all. */
export function visibilityOf(policy: Policy, caller: Caller, tool: string): Visibility {
  if (caller.kind === 'agent') return toolListing(policy, caller.folder, tool)
  const asker = { principal: principalOf(caller), claims: claimsOf(caller) }
  return { listed: caller.kind === 'host' || isToolHeld(policy, asker, tool), rules: [] }
}

export async function mustBeListed(ctx: Context): Promise<void> {
  if (!visibilityOf(await ctx.policy(), ctx.caller, ctx.tool).listed) throw new Unlisted(ctx.tool)
}

/** The verbs that say when to use them. */
export function toolsOf(resources: readonly Resource[]): Tool[] {
  return resources.flatMap(({ verbs }) =>
    Object.values(verbs).flatMap((verb) => (verb.when === undefined ? [] : [verbTool(verb, verb.when)])),
  )
}

function verbTool(verb: NamedVerb, when: string): Tool {
  const input = verb.toolInput ?? verb.input
  // Inside the verb's own transaction, so that the rights that list it are the rights that it runs with.
  const shown: NamedVerb = {
    ...verb,
    needs: async (ctx, given) => {
      await mustBeListed(ctx)
      await verb.needs(ctx, given)
    },
  }
  const probe: NamedVerb = { ...verb, input: z.object({}), reads: true, needs: mustBeListed, run: async () => {} }

  async function read(asking: Asking, args: unknown): Promise<z.output<z.ZodObject>> {
    try {
      return parse(input, args)
    } catch (error) {
      // What a tool takes is told to nobody to whom the tool does not exist.
      await callParsed(asking, probe, {})
      throw error
    }
  }

  return {
    name: verb.toolName,
    when,
    input,
    run: async (asking, args) => {
      const given = await read(asking, args)
      const reply = await callParsed(asking, shown, given)
      return verb.toolReply ? verb.toolReply(reply, given) : reply
    },
  }
}
