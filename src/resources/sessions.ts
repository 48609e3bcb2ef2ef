// Sessions of signed-in people, in browsers and OAuth clients. Every way to sign in ends in `sign_in`.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import { isAccount } from '../core/access/namespaces.ts'
import { administersAny, hasGrant, isOperator } from '../core/access/policy.ts'
import { Account, accounts, LOCAL_ISSUER, primaryAccount, recordAccount } from '../core/people/accounts.ts'
import { isInviteOpen } from '../core/people/invites.ts'
import {
  createSession,
  revokeAllSessions,
  revokeOtherSessions,
  revokeSession,
  Session,
  sessions,
} from '../core/people/sessions.ts'
import { createSignInLink, findSignInLink, takeSignInLink } from '../core/people/sign-in-links.ts'
import { line, Sub } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import {
  hasTool,
  INSTANCE_SCOPE,
  requireOperator,
  requireToolForAgents,
  requireUnrestrictedOperator,
} from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { listPage, listSchema, mustFindRow, Paging } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

/** `link`: the operator created a one-time link; `invite`: a new account of the holder of an invite. */
const SignIn = z.object({
  account: Account.omit({ created_at: true, signed_in_at: true }),
  method: line(64).describe('link, passkey, or the name of the provider'),
  is_allowed: z.boolean().describe('Whether SIGN_IN_ALLOW admits the account'),
  link_token: z.string().optional().describe('The one-time link that is used up by this sign-in'),
  invite_token: z.string().optional().describe('An invite that the person is about to redeem'),
  browser: line(256).optional(),
  address: line(64).optional(),
  replaces: line(64).optional().describe('The session of the same browser, which ends'),
  idle_ms: z.int(),
  max_ms: z.int(),
})

export const sessionsResource = defineResource({
  of: sessions,
  title: 'Sessions',
  servedBy: 'authd',
  verbs: (table) => ({
    list: defineVerb({
      http: 'GET /',
      isReadOnly: true,
      input: Paging.extend({ sub: Session.shape.sub.optional().describe('Only sessions of this person') }),
      output: listSchema(table, 'sessions'),
      authorize: requireToolForAgents,
      run: async (ctx, { sub, ...paging }) => {
        const own = (await hasTool(ctx, INSTANCE_SCOPE)) ? sub : principalOf(ctx.caller)
        return listPage(ctx, table, 'sessions', {
          where: own === undefined ? {} : { sub: own },
          // Both in the direction of the index, which can be read backwards.
          order: [
            ['started_at', 'desc'],
            ['family_id', 'desc'],
          ],
          ...paging,
        })
      },
    }),

    delete: defineVerb({
      http: 'DELETE /{family_id}',
      input: Session.pick({ family_id: true }),
      authorize: async (ctx, { family_id }) => {
        const session = await mustFindRow(ctx, table, { family_id }, 'such session')
        if (session.sub === principalOf(ctx.caller) || (await hasTool(ctx, INSTANCE_SCOPE))) return
        refuse('not_found', 'there is no such session')
      },
      run: async (ctx, { family_id }) => {
        if (!(await revokeSession(ctx.tx, family_id))) refuse('not_found', 'that session has ended already')
      },
    }),

    /** Ends every session of the caller but the one that the request came with. */
    delete_others: defineVerb({
      input: z.object({}),
      output: z.object({ deleted: z.int() }),
      authorize: (ctx) => {
        mustHaveSession(ctx)
      },
      run: async (ctx) => ({
        deleted: await revokeOtherSessions(ctx.tx, principalOf(ctx.caller), mustHaveSession(ctx)),
      }),
    }),

    /** Ends every session of a person, also the one of the request. */
    delete_all: defineVerb({
      input: z.object({ sub: Sub }),
      output: z.object({ deleted: z.int() }),
      authorize: requireOperator,
      auditInput: (input, { deleted }) => (deleted === 0 ? undefined : input),
      run: async (ctx, { sub }) => ({ deleted: await revokeAllSessions(ctx.tx, sub) }),
    }),

    /** A one-time link for a person, known or not: the operator vouches for them. */
    create_link: defineVerb({
      input: z.object({ sub: Sub }),
      output: z.object({ path: z.string(), has_grant: z.boolean(), has_dashboard: z.boolean() }),
      authorize: requireUnrestrictedOperator,
      run: async (ctx, { sub }) => {
        if (!isAccount(sub))
          refuse(
            'invalid',
            `${JSON.stringify(sub)} is not an account of a person`,
            'use local:<name>, github:<id>, or oidc:<provider>/<subject>',
          )
        const token = await createSignInLink(ctx.tx, ctx, sub)
        const [policy, person] = [await ctx.policy(), await primaryAccount(ctx.tx, sub)]
        return {
          path: `/auth/link/${token}`,
          has_grant: hasGrant(policy, person) || isOperator(policy, person),
          has_dashboard: administersAny(policy, person),
        }
      },
    }),

    sign_in: defineVerb({
      needsNoSession: true,
      input: SignIn,
      output: z.object({ token: z.string(), family_id: z.string(), sub: z.string() }),
      authorize: mayEnter,
      run: async (ctx, { account, method, link_token, browser: name, address, replaces, ...input }) => {
        // Of parallel requests with one link, one gets the session.
        if (method === 'link' && (await takeSignInLink(ctx.tx, link_token ?? '', ctx.clock.now())) !== account.sub)
          refuseSignInLink()
        await recordAccount(ctx.tx, account, ctx.now)
        const sub = await primaryAccount(ctx.tx, account.sub)
        if (replaces !== undefined) await revokeSession(ctx.tx, replaces)
        const times = { idleMs: input.idle_ms, maxMs: input.max_ms }
        const started = { sub, kind: 'browser', method, name, address, ...times } as const
        const { session, token } = await createSession(ctx.tx, ctx, started)
        return { token, family_id: session.family_id, sub }
      },
    }),
  }),
})

function mustHaveSession({ caller }: Context): string {
  if (caller.kind === 'person' && caller.session !== undefined) return caller.session
  return refuse('forbidden', 'this needs a browser session, not a bearer')
}

/** One answer for unknown, used and expired links. */
export function refuseSignInLink(): never {
  refuse('not_found', 'this sign-in link is not valid', 'it works once, for 15 minutes; ask the operator for a new one')
}

/** An account that an invite creates confirms nothing, so it must not be an account that exists. */
async function mustBeNewAccount(ctx: Context, sub: string): Promise<void> {
  const isTaken =
    (await accounts.find(ctx.tx, { sub })) !== undefined ||
    (await primaryAccount(ctx.tx, sub)) !== sub ||
    hasGrant(await ctx.policy(), sub)
  if (isTaken || !sub.startsWith(`${LOCAL_ISSUER}:`)) refuse('conflict', `the account ${sub} exists already`)
}

/** Strangers do not enter: a person needs a link of the operator, a line in SIGN_IN_ALLOW, a grant, or an open invite. */
async function mayEnter(ctx: Context, input: z.output<typeof SignIn>): Promise<void> {
  const { account, method, is_allowed, link_token, invite_token } = input
  if (method === 'link') {
    if ((await findSignInLink(ctx.tx, link_token ?? '', ctx.clock.now())) !== account.sub) refuseSignInLink()
    return
  }
  if (method === 'invite') await mustBeNewAccount(ctx, account.sub)
  if (is_allowed) return
  const sub = await primaryAccount(ctx.tx, account.sub)
  if (hasGrant(await ctx.policy(), sub)) return
  if (invite_token !== undefined && (await isInviteOpen(ctx.tx, invite_token, ctx.now))) return
  refuse(
    'forbidden',
    `${account.sub} may not sign in`,
    'ask an operator of this server for an invite, or for a line in SIGN_IN_ALLOW',
  )
}
