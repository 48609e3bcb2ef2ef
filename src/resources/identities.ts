// Identities: which subs belong to one person. For the command line and the dashboard; people link and unlink their own accounts on their page,
// and agents use inspect_identity. See docs/decisions.md#accounts-and-linking.
import { z } from 'zod'
import { hasGrant } from '../core/access/policy.ts'
import { Account, accounts, linkedAccounts, recordAccount } from '../core/people/accounts.ts'
import { Identity, type IdentityClaim, identities, identityClaims } from '../core/people/identities.ts'
import { listPasskeys } from '../core/people/passkeys.ts'
import { revokeSession, sessions } from '../core/people/sessions.ts'
import { Sub } from '../core/values.ts'
import { timestamp, uuidv7 } from '../lib/clock.ts'
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
        to: Sub.optional().describe('An account of the person, in place of their id'),
        move: z.boolean().default(false).describe('Also if the sub belongs to another person'),
      }),
      output: LinkResult,
      authorize: requireUnrestrictedOperator,
      run: async (ctx, { sub, name, to, move, ...given }) => {
        if (to !== undefined && given.id !== undefined) refuse('invalid', 'give id or to, not both')
        const id = to === undefined ? given.id : await findOrCreateIdentityOf(ctx, to)
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

    /** The caller has signed in with the account, and with their own before. */
    link_own: defineVerb({
      input: z.object({ account: Account.omit({ created_at: true, signed_in_at: true }) }),
      output: z.object({ id: z.string(), created: z.boolean() }),
      authorize: (ctx) => {
        mustHaveOwnSession(ctx)
      },
      run: async (ctx, { account }) => {
        const own = mustHaveOwnSession(ctx)
        const claim = await identityClaims.find(ctx.tx, { sub: own })
        if (account.sub === own) return { id: claim?.identity_id ?? '', created: false }
        const other = await identityClaims.find(ctx.tx, { sub: account.sub })
        if (other && other.identity_id === claim?.identity_id) return { id: other.identity_id, created: false }
        if (other || (await isPersonOfItsOwn(ctx, account.sub))) refuseOtherPerson(account.sub)
        const id = claim?.identity_id ?? (await createIdentityOf(ctx, own))
        await recordAccount(ctx.tx, account, ctx.now)
        await identityClaims.insert(ctx.tx, { sub: account.sub, identity_id: id, claimed_at: ctx.now })
        return { id, created: true }
      },
    }),

    unlink_own: defineVerb({
      input: z.object({ sub: Sub }),
      authorize: (ctx) => {
        mustHaveOwnSession(ctx)
      },
      run: async (ctx, { sub }) => {
        const own = mustHaveOwnSession(ctx)
        if (sub === own) refuse('conflict', `${sub} is the account that you act as`, 'unlink the others from it')
        const linked = await linkedAccounts(ctx.tx, own)
        if (!linked.some((account) => account.sub === sub)) refuse('not_found', `${sub} is not linked to your account`)
        // Local accounts sign in only with the help of the operator.
        const others = linked.filter((account) => account.sub !== sub && !account.sub.startsWith('local:'))
        if (others.length === 0 && (await listPasskeys(ctx.tx, own)).length === 0)
          refuse(
            'conflict',
            `${sub} is the only account with which you can sign in`,
            'link another one or add a passkey first',
          )
        await identityClaims.remove(ctx.tx, { sub })
        // It was never a person of its own, so that it may be linked again.
        await accounts.remove(ctx.tx, { sub })
        await revokeSessionsOf(ctx, own, sub)
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

function mustHaveOwnSession({ caller }: Context): string {
  if (caller.kind === 'person' && caller.session !== undefined) return caller.sub
  return refuse('forbidden', 'linking accounts needs a browser session')
}

/** An account that has signed in by itself, or has rights, is another person, even if the same human owns it. */
async function isPersonOfItsOwn(ctx: Context, sub: string): Promise<boolean> {
  return (await accounts.find(ctx.tx, { sub })) !== undefined || hasGrant(await ctx.policy(), sub)
}

function refuseOtherPerson(sub: string): never {
  refuse(
    'conflict',
    `${sub} belongs to another person of this server`,
    `if that is you, ask the operator to link it with svc identity`,
  )
}

/** The first account stays the one that the person acts as: its claim is older than every later one. */
async function createIdentityOf(ctx: Context, own: string): Promise<string> {
  const id = uuidv7(ctx.clock, ctx.random)
  const account = await accounts.find(ctx.tx, { sub: own })
  await identities.insert(ctx.tx, { id, name: account?.name ?? own, created_at: ctx.now })
  await identityClaims.insert(ctx.tx, {
    sub: own,
    identity_id: id,
    claimed_at: timestamp(Date.parse(ctx.now) - 1),
  })
  return id
}

/** The person of an account; a person who was only an account gets an identity. */
async function findOrCreateIdentityOf(ctx: Context, sub: string): Promise<string> {
  return (await identityClaims.find(ctx.tx, { sub }))?.identity_id ?? (await createIdentityOf(ctx, sub))
}

/** Ends the person's other sessions that the provider of the account started. */
async function revokeSessionsOf({ tx, caller }: Context, own: string, account: string): Promise<void> {
  const provider = /^oidc:([^/]+)\//.exec(account)?.[1] ?? account.slice(0, account.indexOf(':'))
  const current = caller.kind === 'person' ? caller.session : undefined
  for (const { family_id } of await sessions.list(tx, { sub: own, method: provider, status: 'active' }))
    if (family_id !== current) await revokeSession(tx, family_id)
}

async function refuseClaimed({ tx }: Context, { sub, identity_id }: z.output<typeof IdentityClaim>): Promise<never> {
  const person = await identities.find(tx, { id: identity_id })
  return refuse(
    'conflict',
    `${sub} belongs to ${person?.name ?? 'a person'} (${identity_id}) already`,
    'link it with --move to take it from that person',
  )
}
