// Bearers: people make their own on a page, the command line makes them for anyone. Shown once, listed and revocable.
import { z } from 'zod'
import { creatorOf, principalOf } from '../core/access/caller.ts'
import {
  IssuedBearer,
  type IssuedBearerRow,
  issuedBearers,
  revokeAllBearers,
  revokeBearer,
} from '../core/access/issued-bearers.ts'
import { checkAccess } from '../core/access/policy.ts'
import { groups } from '../core/groups/groups.ts'
import { refuse } from '../lib/refusal.ts'
import { mustHaveSignedInRecently } from '../permissions/signed-in-person.ts'
import {
  canOperateUnrestricted,
  hasTool,
  INSTANCE_SCOPE,
  requireOperator,
  subjectOf,
} from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { listPage, listSchema, mustFindRow, Paging } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

/** A longer bearer needs a recent sign-in. */
const UNCONFIRMED_MAX_MS = 24 * 3_600_000

const NewBearer = z.object({
  sub: IssuedBearer.shape.sub.optional().describe('On the command line: the person or service that it identifies'),
  name: IssuedBearer.shape.name,
  folder: IssuedBearer.shape.folder,
  ttl_ms: z.number().optional(),
})

export const bearersResource = defineResource({
  of: issuedBearers,
  title: 'Bearers',
  servedBy: [],
  verbs: (table) => ({
    list: defineVerb({
      isReadOnly: true,
      input: Paging.extend({ sub: IssuedBearer.shape.sub.optional().describe('Only bearers of this person') }),
      output: listSchema(table, 'bearers'),
      authorize: mustBePersonOrHost,
      run: async (ctx, { sub, ...paging }) => {
        const own = (await hasTool(ctx, INSTANCE_SCOPE)) ? sub : principalOf(ctx.caller)
        return listPage(ctx, table, 'bearers', {
          where: own === undefined ? {} : { sub: own },
          order: [
            ['created_at', 'desc'],
            ['id', 'desc'],
          ],
          ...paging,
        })
      },
    }),

    create: defineVerb({
      input: NewBearer,
      output: z.object({ id: z.string(), bearer: z.string(), expires_at: z.string() }),
      authorize: async (ctx, { sub, ttl_ms = 0 }) => {
        await mustBeOwn(ctx, sub)
        if (ctx.caller.kind === 'person' && ttl_ms > UNCONFIRMED_MAX_MS)
          await mustHaveSignedInRecently(ctx, 'creating a bearer for longer than a day')
      },
      // Signing reads the key in its own transaction; the bearer is returned only after its row is committed.
      prepare: async ({ host, caller }, { sub = principalOf(caller), folder, ttl_ms: ttlMs }) => {
        const { signBearer } = await import('../core/access/bearers.ts')
        return signBearer(host, { sub, folder, ttlMs, kind: sub.startsWith('service:') ? 'service' : 'user' })
      },
      run: async (ctx, { name, folder }, prepared) => {
        if (folder !== undefined) await mustUseFolder(ctx, folder)
        // The result of `prepare`.
        const { bearer, row } = prepared as { bearer: string; row: Omit<IssuedBearerRow, 'created_by' | 'name'> }
        await table.insert(ctx.tx, {
          ...row,
          created_by: creatorOf(ctx.caller),
          ...(name === undefined ? {} : { name }),
        })
        return { id: row.id, bearer, expires_at: row.expires_at }
      },
    }),

    revoke: defineVerb({
      input: IssuedBearer.pick({ id: true }),
      authorize: async (ctx, { id }) => {
        mustBePersonOrHost(ctx)
        const { sub } = await mustFindRow(ctx, table, { id }, 'such bearer')
        if (sub === principalOf(ctx.caller) || (await hasTool(ctx, INSTANCE_SCOPE))) return
        refuse('not_found', 'there is no such bearer')
      },
      run: async (ctx, { id }) => {
        if (!(await revokeBearer(ctx.tx, id, ctx.now))) refuse('not_found', 'that bearer has ended already')
      },
    }),

    revoke_all: defineVerb({
      input: IssuedBearer.pick({ sub: true }),
      output: z.object({ revoked: z.int() }),
      authorize: requireOperator,
      auditInput: (input, { revoked }) => (revoked === 0 ? undefined : input),
      run: async (ctx, { sub }) => ({ revoked: await revokeAllBearers(ctx.tx, sub, ctx.now) }),
    }),
  }),
})

function mustBePersonOrHost({ caller, tool }: Context): void {
  if (caller.kind !== 'person' && caller.kind !== 'host') refuse('forbidden', `${tool} is for people`)
}

/** A bearer may not make bearers: a stolen one would outlive its revocation. */
async function mustBeOwn(ctx: Context, sub: string | undefined): Promise<void> {
  const { caller, tool } = ctx
  if (caller.kind === 'host') {
    if (sub === undefined) refuse('invalid', 'sub is missing', 'name the person, such as github:42')
    return
  }
  if (caller.kind !== 'person' || caller.session === undefined || ctx.face !== 'dash')
    refuse('forbidden', 'creating a bearer needs a browser session, not a bearer', 'sign in and open /auth/bearers')
  if (sub === undefined || sub === caller.sub) return
  // Bearers of services pass between daemons; no page hands them out.
  if (sub.startsWith('service:') || !(await canOperateUnrestricted(ctx, '**')))
    refuse('forbidden', `${tool}: not permitted for others: you can create bearers for yourself`)
}

/** One answer for folders that do not exist and for those that the person may not use. */
async function mustUseFolder(ctx: Context, folder: string): Promise<void> {
  const group = await groups.find(ctx.tx, { folder })
  if (ctx.caller.kind === 'host') {
    if (!group) refuse('not_found', `there is no group ${folder}`, `svc group ${ctx.instance} list shows them`)
    return
  }
  if (!group || !checkAccess(await ctx.policy(), subjectOf(ctx.caller), { action: 'interact', scope: folder }).allow)
    refuse('not_found', `there is no group ${folder} that you may use`)
}
