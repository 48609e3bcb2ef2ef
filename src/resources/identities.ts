// Identities: which subs belong to one person. Only for the command line and the dashboard; agents use inspect_identity.
import { z } from 'zod'
import { Identity, type IdentityClaim, identities, identityClaims } from '../core/people/identities.ts'
import { Sub } from '../core/values.ts'
import { uuidv7 } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'
import { requireOperator, requireUnrestrictedOperator } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { ascending } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const LinkResult = z.object({ id: z.string(), name: z.string(), created: z.boolean() })

export const identitiesResource = defineResource({
  of: identities,
  title: 'Identities',
  servedBy: [],
  verbs: (table) => ({
    list: defineVerb({
      isReadOnly: true,
      input: z.object({}),
      output: z.object({ identities: z.array(Identity.extend({ subs: z.array(z.string()) })) }),
      authorize: requireOperator,
      run: async (ctx) => {
        const claims = await identityClaims.list(ctx.tx, {}, ascending('claimed_at', 'sub'))
        const rows = await table.list(ctx.tx, {}, ascending('created_at', 'id'))
        const subsOf = Map.groupBy(claims, ({ identity_id }) => identity_id)
        return { identities: rows.map((row) => ({ ...row, subs: (subsOf.get(row.id) ?? []).map(({ sub }) => sub) })) }
      },
    }),

    link: defineVerb({
      input: z.object({
        sub: Sub,
        name: Identity.shape.name.optional(),
        id: z.string().max(64).optional(),
        move: z.boolean().default(false).describe('Also if the sub belongs to another person'),
      }),
      output: LinkResult,
      authorize: requireUnrestrictedOperator,
      run: async (ctx, { sub, name, id, move }) => {
        const known = id === undefined ? undefined : await table.find(ctx.tx, { id })
        if (id !== undefined && !known) refuse('not_found', `there is no identity ${id}`)
        const claim = await identityClaims.find(ctx.tx, { sub })
        if (claim && claim.identity_id !== id && !move) await refuseClaimed(ctx, claim)
        const identity = known ?? { id: uuidv7(ctx.clock, ctx.random), name: name ?? sub, created_at: ctx.now }
        if (!known) await table.insert(ctx.tx, identity)
        if (claim?.identity_id !== identity.id)
          await identityClaims.upsert(ctx.tx, { sub, identity_id: identity.id, claimed_at: ctx.now })
        return { id: identity.id, name: identity.name, created: !known }
      },
    }),

    unlink: defineVerb({
      input: z.object({ sub: Sub }),
      output: z.object({ removed: z.boolean() }),
      authorize: requireUnrestrictedOperator,
      auditInput: (input, { removed }) => (removed ? input : undefined),
      run: async (ctx, { sub }) => ({ removed: (await identityClaims.remove(ctx.tx, { sub })) > 0 }),
    }),
  }),
})

async function refuseClaimed({ tx }: Context, { sub, identity_id }: z.output<typeof IdentityClaim>): Promise<never> {
  const person = await identities.find(tx, { id: identity_id })
  return refuse(
    'conflict',
    `${sub} belongs to ${person?.name ?? 'a person'} (${identity_id}) already`,
    'link it with --move to take it from that person',
  )
}
