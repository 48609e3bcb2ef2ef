// Invites: the person who redeems one becomes admin of the folders that its glob matches. The token is stored as a hash, and
// the row of a revoked invite is kept.
import { z } from 'zod'
import { type Caller, creatorOf } from '../core/access/caller.ts'
import { groups } from '../core/groups/groups.ts'
import { hashToken } from '../core/links/link-token.ts'
import { accounts } from '../core/people/accounts.ts'
import {
  createInviteToken,
  findOpenInvite,
  findRedeemedInvite,
  Invite,
  type InviteRow,
  invites,
  useInvite,
} from '../core/people/invites.ts'
import { line } from '../core/values.ts'
import { timestamp } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'
import { mustBeSignedIn } from '../permissions/signed-in-person.ts'
import {
  allowAnyone,
  canAdministerGlob,
  globBase,
  hasTool,
  INSTANCE_SCOPE,
  mustHaveTool,
  readableFolderFilter,
  requireToolForAgents,
} from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { ascending, listPage, listSchema, mustFindRow, Paging } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

/** Length of the token prefix that identifies an invite. See docs/decisions.md#invites. */
const ID_LENGTH = 12

const CREATE_TOOL = 'invite_create'
const CREATE_TIERS = { max: 1, granted: 1 } as const

/** Bounds the work for a guessed path; tokens have 43 characters. */
const RawToken = z.string().max(256)

export const invitesResource = defineResource({
  of: invites,
  title: 'Invites',
  servedBy: 'onbod',
  key: ['token_id'],
  verbs: (table) => ({
    list: defineVerb({
      http: 'GET /',
      isReadOnly: true,
      input: Paging.extend({ issued_by: line(256).optional().describe('Only invites issued by this sub') }),
      output: listSchema(table, 'invites'),
      authorize: requireToolForAgents,
      run: async (ctx, { issued_by, ...paging }) => {
        const isVisible = await inviteFilter(ctx)
        return listPage(ctx, table, 'invites', {
          where: issued_by === undefined ? {} : { issued_by_sub: issued_by },
          order: [['issued_at', 'desc'], ...ascending('token_id')],
          keep: isVisible,
          ...paging,
        })
      },
    }),

    create: defineVerb({
      http: 'POST /',
      status: 201,
      tool: CREATE_TOOL,
      tiers: CREATE_TIERS,
      when: 'Invite someone to administer a folder.',
      input: z.object({
        target_glob: Invite.shape.target_glob,
        max_uses: Invite.shape.max_uses.default(1),
        expires_at: Invite.shape.expires_at.describe('Time of expiry: in the future, before the year 10000'),
      }),
      output: z.object({
        token: z.string().describe('The raw token, shown only once'),
        target_glob: z.string(),
        max_uses: z.int(),
        expires_at: z.string().optional(),
        accept_url: z.string().optional(),
      }),
      authorize: async (ctx, { target_glob }) => {
        if (ctx.caller.kind === 'agent') await mustHaveTool(ctx, ctx.caller.folder)
        if (await canAdministerGlob(ctx, target_glob)) return
        refuse('forbidden', `${ctx.tool}: not permitted: your authority does not cover ${target_glob}`)
      },
      run: create,
    }),

    revoke: defineVerb({
      http: 'DELETE /{token_id}',
      // Shortened by the schema, so that no audit row contains a token.
      input: z.object({
        token_id: line(256)
          .transform((token) => token.slice(0, ID_LENGTH))
          .describe('The first 12 characters of the token, or all of it'),
      }),
      authorize: async (ctx, { token_id }) => {
        const invite = await table.find(ctx.tx, { token_id })
        // The same error for a foreign invite as for an unknown one.
        if (!invite || !(await inviteFilter(ctx))(invite)) refuse('not_found', 'there is no such invite')
      },
      run: async (ctx, { token_id }) => {
        const { token_hash, revoked_at } = await mustFindRow(ctx, table, { token_id }, 'such invite')
        if (revoked_at !== undefined) refuse('not_found', 'that invite is revoked already')
        await table.update(ctx.tx, { token_hash }, { revoked_at: ctx.now })
      },
    }),

    /** For the page of an invite. The caller holds the token and may be a stranger. */
    preview: defineVerb({
      needsNoSession: true,
      isReadOnly: true,
      input: z.object({ token: RawToken }),
      output: z.object({ target_glob: z.string(), issued_by: z.string(), is_redeemed: z.boolean() }),
      authorize: allowAnyone,
      run: async (ctx, { token }) => {
        const redeemed = await findRedeemed(ctx, token)
        const invite = redeemed ?? (await findOpenInvite(ctx.tx, token, ctx.now)) ?? refuseInvite()
        if (!redeemed && (await issuerFault(ctx, invite)) !== undefined) refuseInvite()
        const { target_glob, issued_by_sub } = invite
        return { target_glob, issued_by: await issuerName(ctx, issued_by_sub), is_redeemed: redeemed !== undefined }
      },
    }),

    /** Accepts an invite for the signed-in person. Accepting it again changes nothing. */
    redeem: defineVerb({
      input: z.object({ token: RawToken }),
      output: z.object({ token_id: z.string(), target_glob: z.string(), is_new: z.boolean() }),
      authorize: async (ctx, { token }) => {
        mustBeSignedIn(ctx)
        if (await findRedeemed(ctx, token)) return
        const invite = (await findOpenInvite(ctx.tx, token, ctx.now)) ?? refuseInvite()
        const fault = await issuerFault(ctx, invite)
        // For the audit log and the operator; the page shows the same as for an unknown token.
        if (fault !== undefined) refuse('forbidden', `invite ${invite.token_id}: ${fault}`)
      },
      run: async (ctx, { token }) => {
        const redeemed = await findRedeemed(ctx, token)
        const invite = redeemed ?? (await findOpenInvite(ctx.tx, token, ctx.now)) ?? refuseInvite()
        if (!redeemed && !(await useInvite(ctx.tx, invite, mustBeSignedIn(ctx), ctx.now))) refuseInvite()
        return { token_id: invite.token_id, target_glob: invite.target_glob, is_new: !redeemed }
      },
      auditInput: (input, { is_new }) => (is_new ? input : undefined),
    }),
  }),
})

/** One answer for unknown, expired, used up and revoked invites. */
export function refuseInvite(): never {
  refuse('not_found', 'this invite is not valid; ask the person who sent it for a new one')
}

async function findRedeemed({ tx, caller }: Context, token: string): Promise<InviteRow | undefined> {
  return caller.kind === 'person' ? findRedeemedInvite(tx, token, caller.sub) : undefined
}

/** Why the issuer could not create this invite now; undefined if they could. */
async function issuerFault(
  ctx: Context,
  { issued_by_sub, target_glob, max_uses }: InviteRow,
): Promise<string | undefined> {
  const caller = issuerOf(issued_by_sub)
  if (caller.kind === 'agent' && !(await groups.find(ctx.tx, { folder: caller.folder })))
    return `the folder ${caller.folder} that issued it no longer exists`
  const params = { target_glob, max_uses: String(max_uses) }
  const asIssuer: Context = { ...ctx, caller, tool: CREATE_TOOL, tiers: CREATE_TIERS, params, reach: 'all' }
  const isPermitted =
    (caller.kind !== 'agent' || (await hasTool(asIssuer, caller.folder))) &&
    (await canAdministerGlob(asIssuer, target_glob))
  return isPermitted ? undefined : `${issued_by_sub} no longer has authority over ${target_glob}`
}

/** With the account, because people choose their names. */
async function issuerName({ tx }: Context, issued_by: string): Promise<string> {
  const caller = issuerOf(issued_by)
  if (caller.kind === 'host') return 'The operator of this server'
  if (caller.kind === 'agent') return `The agent of ${caller.folder}`
  const name = (await accounts.find(tx, { sub: issued_by }))?.name
  return name === undefined ? issued_by : `${name} (${issued_by})`
}

/** The inverse of `creatorOf`. */
function issuerOf(issued_by: string): Caller {
  if (issued_by === 'cli') return { kind: 'host', sub: 'cli' }
  const folder = /^folder:(.+)$/.exec(issued_by)?.[1]
  if (folder !== undefined) return { kind: 'agent', folder }
  return issued_by.startsWith('service:') ? { kind: 'service', sub: issued_by } : { kind: 'person', sub: issued_by }
}

/** Visible to its issuer, and to operators unless a row denies them the folder. */
async function inviteFilter(ctx: Context): Promise<(invite: z.output<typeof Invite>) => boolean> {
  const [mayAll, maySee, own] = [
    await hasTool(ctx, INSTANCE_SCOPE),
    await readableFolderFilter(ctx),
    creatorOf(ctx.caller),
  ]
  return ({ issued_by_sub, target_glob }) => issued_by_sub === own || (mayAll && maySee(globBase(target_glob)))
}

/** Converts to UTC, because times in the store are compared as text. */
function futureTime(ctx: Context, given: string): string {
  const moment = Date.parse(given)
  if (moment <= ctx.clock.now()) refuse('invalid', 'expires_at is in the past')
  // With an offset, the UTC time can be after 9999, which RFC 3339 does not allow.
  return new Date(moment).getUTCFullYear() > 9999 ? refuse('invalid', 'expires_at is after 9999') : timestamp(moment)
}

async function create(ctx: Context, input: { target_glob: string; max_uses: number; expires_at?: string | undefined }) {
  const { target_glob, max_uses } = input
  const expires_at = input.expires_at === undefined ? undefined : futureTime(ctx, input.expires_at)
  const token = createInviteToken(ctx.random)
  await invites.insert(ctx.tx, {
    token_hash: hashToken(token),
    token_id: token.slice(0, ID_LENGTH),
    target_glob,
    issued_by_sub: creatorOf(ctx.caller),
    issued_at: ctx.now,
    expires_at,
    max_uses,
    used_count: 0,
  })
  const expiry = expires_at === undefined ? {} : { expires_at }
  return { token, target_glob, max_uses, ...expiry, accept_url: `${ctx.webBase}/invite/${token}` }
}
