// Tool calls that wait for an approval. Only for the command line and the dashboard; in a chat, operators send /approve and
// /reject.
import { z } from 'zod'
import {
  decideHeldCall,
  listDecidedCalls,
  listHeldCalls,
  PendingAction,
  pendingActions,
} from '../core/access/approvals.ts'
import { principalOf } from '../core/access/caller.ts'
import { line, pageLimit } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { adminFilter, canOperate, INSTANCE_SCOPE, operatorWho, requireOperator } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

/** Without the hash, which only matches calls. */
const HeldCall = PendingAction.omit({ args_hash: true })
type HeldCall = z.output<typeof HeldCall>

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
          calls.filter(({ folder }) => maySee(folder)).map(({ args_hash: _, ...call }) => call)
        const decisions = visible(await listDecidedCalls(ctx.tx, DECIDED_MAX))
        return {
          held: visible(await listHeldCalls(ctx.tx, ctx.clock.now())),
          decided: decisions.slice(0, decided),
        }
      },
    }),

    decide: defineVerb({
      input: z.object({ id: line(64), decision: z.enum(['approve', 'reject']) }),
      output: HeldCall,
      authorize: requireOperator,
      appendsMessages: true,
      run: async (ctx, { id, decision }) => {
        const by = principalOf(ctx.caller)
        const decided = await decideHeldCall(ctx.tx, ctx, { id, by, isApproved: decision === 'approve' })
        if (!decided)
          return refuse('not_found', `no tool call with the id ${id} waits for approval`, 'a call expires after a day')
        ctx.afterCommit(() => ctx.signals.emit())
        const { args_hash: _, ...call } = decided
        return { ...call, decided_by: by }
      },
    }),
  }),
})

async function visibleFolders(ctx: Context): Promise<(folder: string) => boolean> {
  if (ctx.caller.kind === 'host' || (await canOperate(ctx, INSTANCE_SCOPE))) return () => true
  return adminFilter(ctx)
}
