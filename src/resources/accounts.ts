// People: their accounts, roles, grants, sessions and spending. For the command line and the dashboard; Person (core/people) is
// what both show.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import { Account, accounts, type LinkedAccount, linkedAccounts } from '../core/people/accounts.ts'
import { describePerson, listPeople, Person, type PersonRow } from '../core/people/people.ts'
import { line, Sub } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { canOperate, INSTANCE_SCOPE, operatorWho, requireOperator } from '../registry/authorization.ts'
import { Paging } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const PartialAccount = Account.partial().required({ sub: true })

export const accountsResource = defineResource({
  of: accounts,
  title: 'Accounts',
  servedBy: [],
  verbs: () => ({
    list: defineVerb({
      isReadOnly: true,
      input: Paging.extend({
        search: line(256).optional().describe('Part of an account, a name or an e-mail address'),
      }),
      output: z.object({ people: z.array(Person), next: z.string().optional() }),
      authorize: requireOperator,
      run: async (ctx, request) =>
        listPeople(ctx.tx, { ...request, policy: await ctx.policy(), nowMs: ctx.clock.now() }),
    }),

    /** Any account of the person; operators see everyone, people themselves. */
    show: defineVerb({
      isReadOnly: true,
      input: z.object({ sub: Sub }),
      output: z.object({ person: Person, accounts: z.array(PartialAccount) }),
      authorize: operatorWho(
        async (ctx, { sub }) => principalOf(ctx.caller) === sub || canOperate(ctx, INSTANCE_SCOPE),
      ),
      run: async (ctx, { sub }) => {
        const person = await describePerson(ctx.tx, sub, await ctx.policy(), ctx.clock.now())
        const linked = await linkedAccounts(ctx.tx, sub)
        if (!isKnown(person, linked)) refuse('not_found', `there is no person ${sub}`)
        return { person, accounts: linked }
      },
    }),
  }),
})

function isKnown({ subs, roles, grants, cap }: PersonRow, linked: readonly LinkedAccount[]): boolean {
  const hasSignedIn = linked.some(({ created_at }) => created_at !== undefined)
  return hasSignedIn || subs.length > 1 || roles.length > 0 || grants > 0 || cap !== undefined
}
