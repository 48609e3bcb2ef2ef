// What the tool face serves: a verb that says when to use it, or a tool that is no row. Who is shown which is decided here.
import type { z } from 'zod'
import { isToolHeld, isToolListed, type Policy, toolListing } from '../core/access.ts'
import { type Caller, claimsOf, principalOf } from '../core/caller.ts'
import type { Reach } from '../core/reach.ts'
import { Refusal } from '../lib/refusal.ts'
import type { Asking, Context } from './context.ts'
import type { NamedVerb, Verb } from './resource.ts'

/** `A` is what is known of whoever asks. */
export interface Tool<A = Asking> {
  /** What a grant names as mcp:<name>. */
  readonly name: string
  /** When an agent should use it. */
  readonly when: string
  /** The smallest reach of a turn that may use it; absent: all. */
  readonly reach?: Reach
  /** Its arguments, as the caller writes them. */
  readonly input: z.ZodType
  /** Whether the instance has what it needs; absent: always. */
  isThere?(asking: A): boolean
  /** From the arguments to the answer: text stays text, nothing is `ok`. Throws `Unlisted` before any other refusal. */
  run(asking: A, args: unknown): Promise<unknown>
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
  return { listed: isListed(policy, caller, tool), rules: [] }
}

function isListed(policy: Policy, caller: Caller, tool: string): boolean {
  if (caller.kind === 'host') return true
  if (caller.kind === 'agent') return isToolListed(policy, caller.folder, tool)
  return isToolHeld(policy, { principal: principalOf(caller), claims: claimsOf(caller) }, tool)
}

/** A tool that is no row. One transaction judges, records and audits it; `finish` touches the outside world. */
export function hotTool<I extends z.ZodObject, O = void, P = undefined>(
  declared: Omit<Verb<I, O>, 'http' | 'status' | 'tool' | 'when' | 'prepare' | 'run'> & {
    readonly name: string
    readonly when: string
    prepare?(asking: Asking, input: z.output<I>): Promise<P>
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
  if (!isListed(await ctx.policy(), ctx.caller, ctx.tool)) throw new Unlisted(ctx.tool)
}
