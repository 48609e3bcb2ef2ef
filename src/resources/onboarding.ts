// Onboarding: chats without a route that wait for admission. The router creates the rows; operators decide on them here.
import { z } from 'zod'
import { Onboarding, onboarding } from '../core/people/onboarding.ts'
import { Jid } from '../core/values.ts'
import { requireInstanceTool } from '../registry/authorization.ts'
import { ascending, listVerb, mustFindRow } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

export const onboardingResource = defineResource({
  of: onboarding,
  title: 'Onboarding',
  servedBy: 'onbod',
  verbs: (table) => ({
    list: listVerb(table, 'onboarding', {
      authorize: requireInstanceTool,
      order: ascending('created', 'jid'),
      when: 'List the chats that wait for admission.',
    }),

    update: defineVerb({
      http: 'PATCH /{jid}',
      when: 'Approve or refuse a waiting chat, or prompt it again.',
      input: z.object({ jid: Jid, action: z.enum(['approve', 'refuse', 'reprompt']) }),
      output: Onboarding,
      authorize: requireInstanceTool,
      run: async (ctx, { jid, action }) => {
        await mustFindRow(ctx, table, { jid }, `chat ${jid} in onboarding`)
        const changes = {
          approve: { status: 'approved' as const, admitted_at: ctx.now },
          refuse: { status: 'refused' as const, admitted_at: undefined },
          // Without a prompt time, the next message is prompted like the first one.
          reprompt: { status: 'awaiting_message' as const, prompted_at: undefined, admitted_at: undefined },
        }
        await table.update(ctx.tx, { jid }, changes[action])
        return mustFindRow(ctx, table, { jid }, `chat ${jid} in onboarding`)
      },
    }),
  }),
})
