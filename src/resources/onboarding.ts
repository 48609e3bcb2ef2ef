// Onboarding: chats that nobody routes yet, on their way to a folder. Rows are made by the front; here they are judged.
import { z } from 'zod'
import { Onboarding, onboarding } from '../core/people/onboarding.ts'
import { Jid } from '../core/values.ts'
import { INSTANCE_SCOPE, requireTool } from '../registry/authorization.ts'
import { listVerb, mustFindRow } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const operators = requireTool(() => INSTANCE_SCOPE)

export const onboardingResource = defineResource({
  of: onboarding,
  title: 'Onboarding',
  servedBy: 'onbod',
  verbs: (table) => ({
    list: listVerb(table, 'onboarding', {
      authorize: operators,
      order: [
        ['created', 'asc'],
        ['jid', 'asc'],
      ],
      when: 'See who is waiting to be let in.',
    }),

    update: defineVerb({
      http: 'PATCH /{jid}',
      when: 'Let a waiting chat in, turn it away, or greet it again.',
      input: z.object({ jid: Jid, action: z.enum(['approve', 'refuse', 'reprompt']) }),
      output: Onboarding,
      authorize: operators,
      run: async (ctx, { jid, action }) => {
        await mustFindRow(ctx, table, { jid }, `chat ${jid} in onboarding`)
        const changes = {
          approve: { status: 'approved' as const, admitted_at: ctx.now },
          refuse: { status: 'refused' as const, admitted_at: undefined },
          // Without a prompt time the next message is greeted as the first one was.
          reprompt: { status: 'awaiting_message' as const, prompted_at: undefined, admitted_at: undefined },
        }
        await table.update(ctx.tx, { jid }, changes[action])
        return mustFindRow(ctx, table, { jid }, `chat ${jid} in onboarding`)
      },
    }),
  }),
})
