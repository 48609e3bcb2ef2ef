// Calls that an operator must approve first: an acl row `hold:mcp:<tool>` suspends what the agent may otherwise do.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { consumeApproval, hasApproval, holdForApproval, type ToolCallKey } from '../core/access/approvals.ts'
import { needsApproval } from '../core/access/policy.ts'
import { inbox } from '../core/messages/inbox.ts'
import { summaryWithContent } from './audit.ts'
import { actingFolder, allowAnyone } from './authorization.ts'
import { callParsed, callVerb } from './call.ts'
import type { Context, RequestContext } from './context.ts'
import type { NamedVerb } from './resource.ts'
import { defineTool } from './tool.ts'

/** Thrown out of the transaction of a call that must wait: nothing of it is done. */
export class ApprovalRequired extends Error {
  constructor(tool: string) {
    super(`${tool}: held until an operator approves it`)
    this.name = 'HeldCall'
  }
}

type Input = z.output<z.ZodObject>

/** The call of a verb that rows may hold: what it gives, or that it must wait. Only what is permitted is held. */
export function withApproval(verb: NamedVerb): (asking: RequestContext, input: Input) => Promise<unknown> {
  const { reads, ...changing } = verb
  const open = { ...verb, needs: requireApproval(verb, async () => false) }
  // The approval is taken in the transaction that uses it, also for a read, which then writes that much.
  const released: NamedVerb = {
    ...changing,
    ...(reads ? { audited: () => undefined } : {}),
    needs: requireApproval(verb, isApproved),
    run: async (ctx, input, prepared) => {
      if (!(await consumeApproval(ctx.tx, askedCall(ctx, input), ctx.clock.now()))) throw new ApprovalRequired(ctx.tool)
      return verb.run(ctx, input, prepared)
    },
  }
  return async (asking, input) => {
    const first = await callParsed(asking, open, input).catch(orApprovalRequired)
    return first instanceof ApprovalRequired ? callParsed(asking, released, input).catch(orApprovalRequired) : first
  }
}

function orApprovalRequired(error: unknown): ApprovalRequired {
  if (error instanceof ApprovalRequired) return error
  throw error
}

type ApprovalCheck = (ctx: Context, input: Input) => Promise<boolean>

function requireApproval(verb: NamedVerb, isApproved: ApprovalCheck): NamedVerb['needs'] {
  return async (ctx, input) => {
    await verb.needs(ctx, input)
    if ((await mustBeApproved(ctx)) && !(await isApproved(ctx, input))) throw new ApprovalRequired(ctx.tool)
  }
}

async function mustBeApproved(ctx: Context): Promise<boolean> {
  const { caller, tool, params } = ctx
  if (caller.kind !== 'agent') return false
  const { folder } = caller
  return needsApproval(await ctx.policy(), folder, { tool, scope: folder, params }) && !(await isElevated(ctx))
}

const isApproved: ApprovalCheck = (ctx, input) => hasApproval(ctx.tx, askedCall(ctx, input), ctx.clock.now())

function askedCall({ caller, tool }: Context, input: Input): ToolCallKey {
  const folder = caller.kind === 'agent' ? caller.folder : ''
  return { folder, tool, args_hash: hashOf(input) }
}

/** What an operator has asked the root for needs no second word (`/root`). */
async function isElevated(ctx: Context): Promise<boolean> {
  const turn = await ctx.turn()
  return turn !== undefined && (await inbox.find(ctx.tx, { id: turn.id }))?.verb === 'root'
}

const PendingCall = z.object({ tool: z.string(), args_hash: z.string(), summary: z.string() })

const holdCall = defineTool({
  name: 'hold',
  when: '',
  // Only what the turn may use is held.
  reach: 'chat',
  key: ['tool'],
  input: PendingCall,
  output: z.object({ id: z.string(), isNew: z.boolean() }),
  needs: allowAnyone,
  // Its arguments are audited when it is made.
  audited: ({ tool }, { id, isNew }) => (isNew ? { tool, id } : undefined),
  run: async (ctx, held) => {
    const [folder, turn] = [await actingFolder(ctx), await ctx.turn()]
    return holdForApproval(ctx.tx, ctx, { ...held, folder, jid: turn?.jid, reach: ctx.reach })
  },
})

/** Records what waits, and says so: no error, and not done either. */
export async function requestApproval(asking: RequestContext, verb: NamedVerb, input: object): Promise<object> {
  const { id } = await callVerb(asking, holdCall, {
    tool: verb.toolName,
    args_hash: hashOf(input),
    summary: summaryWithContent(input, verb.input),
  })
  const message = `${verb.toolName} is held until an operator sends /approve ${id}. Nothing was done yet; you will be told.`
  return { pending: true, id, message }
}

/** The same for the same arguments, in whatever order they were written. */
function hashOf(input: object): string {
  const sorted = (_name: string, value: unknown): unknown =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : value
  return createHash('sha256').update(JSON.stringify(input, sorted)).digest('hex')
}
