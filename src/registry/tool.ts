// What the tool face serves: a verb that says when to use it, or a tool that is no row. Who is shown which is decided here.
import type { z } from 'zod'
import { type Caller, claimsOf, principalOf } from '../core/access/caller.ts'
import { type DeclaredTiers, isToolGranted, isToolListed, type Policy, toolListing } from '../core/access/policy.ts'
import type { Reach } from '../core/access/reach.ts'
import type { ToolTiers } from '../core/access/tiers.ts'
import { Refusal } from '../lib/refusal.ts'
import type { Context, RequestContext } from './context.ts'
import type { NamedVerb, Verb } from './resource.ts'

/** `A` is what is known of whoever asks. */
export interface Tool<A = RequestContext> {
  /** What a grant names as mcp:<name>. */
  readonly name: string
  /** When an agent should use it. */
  readonly when: string
  /** The smallest reach of a turn that may use it; absent: all. */
  readonly reach?: Reach
  /** Which tiers may have it and have it by default; absent: any may, and only the root does. */
  readonly tiers?: ToolTiers
  /** Its arguments, as the caller writes them. */
  readonly input: z.ZodType
  /** Whether the instance has what it needs; absent: always. */
  isAvailable?(asking: A): boolean
  /** From the arguments to the answer: text stays text, nothing is `ok`. Throws `Unlisted` before any other refusal. */
  run(asking: A, args: unknown): Promise<unknown>
}

/** To the caller it is as if there were no such tool; the audit row knows better. */
export class ToolNotListed extends Refusal {
  constructor(tool: string) {
    super('forbidden', `${tool}: not listed for the caller`)
    this.name = 'Unlisted'
  }
}

export interface ToolVisibility {
  readonly listed: boolean
  /** The rules of an agent that name the tool. */
  readonly rules: readonly string[]
}

/** Decision A4: whether the caller is shown the tool at all. */
export function toolVisibility(policy: Policy, caller: Caller, tool: DeclaredTiers): ToolVisibility {
  if (caller.kind === 'agent') return toolListing(policy, caller.folder, tool)
  return { listed: isListed(policy, caller, tool), rules: [] }
}

function isListed(policy: Policy, caller: Caller, tool: DeclaredTiers): boolean {
  if (caller.kind === 'host') return true
  if (caller.kind === 'agent') return isToolListed(policy, caller.folder, tool)
  return isToolGranted(policy, { principal: principalOf(caller), claims: claimsOf(caller) }, tool.tool)
}

/** A tool that is no row. One transaction judges, records and audits it; `finish` touches the outside world. */
export function defineTool<I extends z.ZodObject, O = void, P = undefined>(
  declared: Omit<Verb<I, O>, 'http' | 'status' | 'tool' | 'when' | 'prepare' | 'run'> & {
    readonly name: string
    readonly when: string
    prepare?(asking: RequestContext, input: z.output<I>): Promise<P>
    run(ctx: Context, input: z.output<I>, prepared: P): Promise<O>
    /** The arguments that say what it was done to, for the audit row. */
    readonly key?: readonly string[]
  },
): NamedVerb<I, O> {
  const { name, key = [], ...verb } = declared
  const named = { id: `tools.${name}`, resource: 'tools', verb: name, key, toolName: name, tool: name }
  // The same members and types; only that there are no others.
  return { ...verb, input: verb.input.strict() as unknown as I, ...named }
}

export async function mustBeListed(ctx: Context): Promise<void> {
  if (!isListed(await ctx.policy(), ctx.caller, ctx)) throw new ToolNotListed(ctx.tool)
}
