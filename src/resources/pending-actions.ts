// Tool calls that wait for an approval. Only for the command line and the dashboard; in a chat, operators send /approve and
// /reject.
import { z } from 'zod'
import { decideHeldCall } from '../core/access/approval-decisions.ts'
import { listDecidedCalls, listHeldCalls, PendingAction, pendingActions } from '../core/access/approvals.ts'
import { principalOf } from '../core/access/caller.ts'
import { line, pageLimit } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { adminFilter, canOperate, INSTANCE_SCOPE, operatorWho, requireOperator } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

/** Without the hash, which only matches calls. */
const HeldCall = PendingAction.omit({ args_hash: true, prompt_seq: true })
type HeldCall = z.output<typeof HeldCall>

/** The ids of the buttons, too. */
export const DECISIONS = ['approve', 'reject'] as const

/** The last decisions of the instance; those of a person's folders are among them. */
const DECIDED_MAX = 200

export const pendingActionsResource = defineResource({
  of: pendingActions,
  title: 'PendingActions',
  servedBy: [],
  verbs: () => ({
    /** Held calls, oldest first, and the last decisions, newest first. Administrators see those of their folders. */
    list: defineVerb({
      isReadOnly: true,
      input: z.object({ decided: pageLimit(20, DECIDED_MAX).describe('Number of decisions') }),
      output: z.object({ held: z.array(HeldCall), decided: z.array(HeldCall) }),
      authorize: operatorWho(() => true),
      run: async (ctx, { decided }) => {
        const maySee = await visibleFolders(ctx)
        const visible = (calls: readonly z.output<typeof PendingAction>[]): HeldCall[] =>
          calls.filter(({ folder }) => maySee(folder)).map(shownCall)
        const decisions = visible(await listDecidedCalls(ctx.tx, DECIDED_MAX))
        return {
          held: visible(await listHeldCalls(ctx.tx, ctx.clock.now())),
          decided: decisions.slice(0, decided),
        }
      },
    }),

    decide: defineVerb({
      input: z.object({ id: line(64), decision: z.enum(DECISIONS) }),
      output: HeldCall,
      authorize: requireOperator,
      appendsMessages: true,
      run: async (ctx, { id, decision }) => {
        const by = principalOf(ctx.caller)
        const decided = await decideHeldCall(ctx.tx, ctx, { id, by, isApproved: decision === 'approve' })
        if (!decided)
          return refuse('not_found', `no tool call with the id ${id} waits for approval`, 'a call expires after a day')
        ctx.afterCommit(() => ctx.signals.emit())
        return { ...shownCall(decided), decided_by: by }
      },
    }),

    /** For the press of a button in a chat. Only operators: nobody else may know what the agent asks for. */
    decide_in_chat: defineVerb({
      input: z.object({ id: line(64), decision: z.enum(DECISIONS), name: line(256).optional() }),
      output: z.object({ isDecided: z.boolean() }),
      authorize: async (ctx) => {
        const { caller } = ctx
        const isPerson = caller.kind === 'person' && !/^(?:injected|anon):/.test(caller.sub)
        if (!isPerson || !(await canOperate(ctx, INSTANCE_SCOPE)))
          refuse('forbidden', `${ctx.tool}: only operators decide on held calls`)
      },
      appendsMessages: true,
      auditInput: (input, { isDecided }) => (isDecided ? input : undefined),
      run: async (ctx, { id, decision, name }) => {
        const by = principalOf(ctx.caller)
        const decided = await decideHeldCall(ctx.tx, ctx, { id, by, name, isApproved: decision === 'approve' })
        ctx.afterCommit(() => ctx.signals.emit())
        return { isDecided: decided !== undefined }
      },
    }),
  }),
})

function shownCall({ args_hash: _hash, prompt_seq: _prompt, ...call }: z.output<typeof PendingAction>): HeldCall {
  return call
}

async function visibleFolders(ctx: Context): Promise<(folder: string) => boolean> {
  if (ctx.caller.kind === 'host' || (await canOperate(ctx, INSTANCE_SCOPE))) return () => true
  return adminFilter(ctx)
}
