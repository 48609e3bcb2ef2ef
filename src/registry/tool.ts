// Agent tools: verbs of resources with a `when`, and tools without a resource. Also decides which callers see a tool.
import type { z } from 'zod'
import type { Caller } from '../core/access/caller.ts'
import { type DeclaredTiers, isToolGranted, isToolListed, type Policy, toolListing } from '../core/access/policy.ts'
import type { Reach } from '../core/access/reach.ts'
import type { ToolTiers } from '../core/access/tiers.ts'
import { Refusal } from '../lib/refusal.ts'
import { subjectOf } from './authorization.ts'
import type { Context, RequestContext } from './context.ts'
import type { NamedVerb, Verb } from './resource.ts'

/** `A` is the request. */
export interface Tool<A = RequestContext> {
  /** The name in grants: mcp:<name>. */
  readonly name: string
  /** When an agent should use the tool. */
  readonly when: string
  /** What readers of a chat see while it runs. */
  readonly activity?: string
  /** The smallest reach of a turn that may use the tool; default: all. */
  readonly reach?: Reach
  /** Which tiers may have the tool, and which have it by default; absent: any tier may, only the root does. */
  readonly tiers?: ToolTiers
  readonly input: z.ZodObject
  /** Whether the instance has the parts that the tool needs; default: true. */
  isAvailable?(request: A): boolean
  /** A reply of undefined is shown as `ok`. Throws `ToolNotListed` before any other refusal. */
  run(request: A, args: unknown): Promise<unknown>
}

/** The caller gets the error of an unknown tool; the audit row has this reason. */
export class ToolNotListed extends Refusal {
  constructor(tool: string) {
    super('forbidden', `${tool}: not listed for the caller`)
    this.name = 'ToolNotListed'
  }
}

export interface ToolVisibility {
  readonly listed: boolean
  /** The rules of an agent that name the tool. */
  readonly rules: readonly string[]
}

/** See docs/decisions.md#rights-are-read-at-every-call. */
export function toolVisibility(policy: Policy, caller: Caller, tool: DeclaredTiers): ToolVisibility {
  if (caller.kind === 'agent') return toolListing(policy, caller.folder, tool)
  return { listed: isListed(policy, caller, tool), rules: [] }
}

function isListed(policy: Policy, caller: Caller, tool: DeclaredTiers): boolean {
  if (caller.kind === 'host') return true
  if (caller.kind === 'agent') return isToolListed(policy, caller.folder, tool)
  return isToolGranted(policy, subjectOf(caller), tool.tool)
}

/** Defines a tool without a resource. */
export function defineTool<I extends z.ZodObject, O = void, P = undefined>(
  declared: Omit<Verb<I, O>, 'http' | 'status' | 'tool' | 'when' | 'prepare' | 'run'> & {
    readonly name: string
    readonly when: string
    prepare?(request: RequestContext, input: z.output<I>): Promise<P>
    run(ctx: Context, input: z.output<I>, prepared: P): Promise<O>
    /** The arguments that form the key in the audit row. */
    readonly key?: readonly string[]
  },
): NamedVerb<I, O> {
  const { name, key = [], ...verb } = declared
  const identity = { id: `tools.${name}`, resource: 'tools', verb: name, key, toolName: name, tool: name }
  // strict() keeps the members and their types.
  return { ...verb, input: verb.input.strict() as unknown as I, ...identity }
}

/** `finish` of verbs whose messages or tasks should be picked up at once. */
export async function signalCommit<O>({ host }: RequestContext, reply: O): Promise<O> {
  host.signals.emit()
  return reply
}

export async function mustBeListed(ctx: Context): Promise<void> {
  if (!isListed(await ctx.policy(), ctx.caller, ctx)) throw new ToolNotListed(ctx.tool)
}
