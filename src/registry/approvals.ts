// Approvals: an acl row `hold:mcp:<tool>` suspends an agent's permitted calls until an operator approves them.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { askForDecision } from '../core/access/approval-decisions.ts'
import { consumeApproval, hasApproval, holdForApproval, type ToolCallKey } from '../core/access/approvals.ts'
import { needsApproval } from '../core/access/policy.ts'
import { inbox, messageIdOfTurn } from '../core/messages/inbox.ts'
import { summaryWithContent } from './audit.ts'
import { actingFolder, allowAnyone } from './authorization.ts'
import { callParsed, callVerb } from './call.ts'
import type { Context, RequestContext } from './context.ts'
import type { NamedVerb } from './resource.ts'
import { defineTool } from './tool.ts'

/** Rolls back the transaction of a call that needs approval. */
export class ApprovalRequired extends Error {
  constructor(tool: string) {
    super(`${tool}: held until an operator approves it`)
    this.name = 'ApprovalRequired'
  }
}

type Input = z.output<z.ZodObject>

/** Calls the verb; resolves to `ApprovalRequired` where the call is permitted but not approved yet. */
export function withApproval(verb: NamedVerb): (request: RequestContext, input: Input) => Promise<unknown> {
  const { isReadOnly, ...writing } = verb
  const unapproved: NamedVerb = { ...verb, authorize: requireApproval(verb, async () => false) }
  // Consumes the approval in the transaction that uses it, so an approved read runs in a write transaction too.
  const approved: NamedVerb = {
    ...writing,
    ...(isReadOnly ? { auditInput: () => undefined } : {}),
    authorize: requireApproval(verb, isApproved),
    run: async (ctx, input, prepared) => {
      if (!(await consumeApproval(ctx.tx, callKey(ctx, input), ctx.clock.now()))) throw new ApprovalRequired(ctx.tool)
      return verb.run(ctx, input, prepared)
    },
  }
  return async (request, input) => {
    const first = await callParsed(request, unapproved, input).catch(returnApprovalRequired)
    if (!(first instanceof ApprovalRequired)) return first
    return callParsed(request, approved, input).catch(returnApprovalRequired)
  }
}

function returnApprovalRequired(error: unknown): ApprovalRequired {
  if (error instanceof ApprovalRequired) return error
  throw error
}

type ApprovalCheck = (ctx: Context, input: Input) => Promise<boolean>

function requireApproval(verb: NamedVerb, isApproved: ApprovalCheck): NamedVerb['authorize'] {
  return async (ctx, input) => {
    await verb.authorize(ctx, input)
    if ((await isApprovalNeeded(ctx)) && !(await isApproved(ctx, input))) throw new ApprovalRequired(ctx.tool)
  }
}

async function isApprovalNeeded(ctx: Context): Promise<boolean> {
  const { caller, tool, params } = ctx
  if (caller.kind !== 'agent') return false
  const { folder } = caller
  return needsApproval(await ctx.policy(), folder, { tool, scope: folder, params }) && !(await isElevated(ctx))
}

const isApproved: ApprovalCheck = (ctx, input) => hasApproval(ctx.tx, callKey(ctx, input), ctx.clock.now())

function callKey({ caller, tool }: Context, input: Input): ToolCallKey {
  const folder = caller.kind === 'agent' ? caller.folder : ''
  return { folder, tool, args_hash: hashArguments(input) }
}

/** An operator's `/root` message needs no further approval. */
async function isElevated(ctx: Context): Promise<boolean> {
  const turn = await ctx.turn()
  return turn !== undefined && (await inbox.find(ctx.tx, { id: messageIdOfTurn(turn.id) }))?.verb === 'root'
}

const PendingCall = z.object({ tool: z.string(), args_hash: z.string(), summary: z.string() })

const holdCall = defineTool({
  name: 'hold',
  when: '',
  // The suspended call has passed its own reach check.
  reach: 'chat',
  key: ['tool'],
  input: PendingCall,
  output: z.object({ id: z.string(), isNew: z.boolean() }),
  appendsMessages: true,
  authorize: allowAnyone,
  // The arguments are audited when the approved call runs.
  auditInput: ({ tool }, { id, isNew }) => (isNew ? { tool, id } : undefined),
  run: async (ctx, call) => {
    const [folder, turn] = [await actingFolder(ctx), await ctx.turn()]
    return holdForApproval(
      ctx.tx,
      ctx,
      { ...call, folder, jid: turn?.jid, reach: ctx.reach },
      approvalPrompt(ctx, { ...call, folder }),
    )
  },
})

/** Undefined unless operators have a chat for it. */
function approvalPrompt(ctx: Context, call: Omit<Parameters<typeof askForDecision>[2], 'id'>) {
  const { approvalChat: jid } = ctx.limits
  if (jid === undefined) return undefined
  return async (id: string) => {
    const asked = await askForDecision(ctx.tx, ctx, { ...call, id }, { jid, routes: await ctx.routes() })
    ctx.afterCommit(() => ctx.signals.emit(asked.keys, ['outbox']))
    return asked
  }
}

/** Records the pending call and returns the tool's reply: not an error, but nothing was done. */
export async function requestApproval(request: RequestContext, verb: NamedVerb, input: object): Promise<object> {
  const { id } = await callVerb(request, holdCall, {
    tool: verb.toolName,
    args_hash: hashArguments(input),
    summary: summaryWithContent(input, verb.input),
  })
  const message = `${verb.toolName} is held until an operator sends /approve ${id}. Nothing was done yet; you will get a message.`
  return { pending: true, id, message }
}

/** Independent of the order of the arguments. */
function hashArguments(input: object): string {
  const sorted = (_name: string, value: unknown): unknown =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : value
  return createHash('sha256').update(JSON.stringify(input, sorted)).digest('hex')
}
