// Secrets: written and deleted, never read back. Sealed before they reach the store.
import { z } from 'zod'
import { principalOf } from '../core/caller.ts'
import { groups } from '../core/groups.ts'
import { Secret, SecretName, secretContext, secrets } from '../core/secrets.ts'
import { codePoints, EnvValue, folderFault, Sub } from '../core/values.ts'
import { parse } from '../lib/parse.ts'
import { refuse } from '../lib/refusal.ts'
import type { Context } from '../registry/context.ts'
import { listing, Paging, pageOf } from '../registry/crud.ts'
import { hostOnly, INSTANCE, mustHaveTool } from '../registry/needs.ts'
import { resource, verb } from '../registry/resource.ts'

const VALUE_MAX = 65_536

export const secretsResource = resource({
  of: secrets,
  title: 'Secrets',
  servedBy: 'routd',
  exported: { ignoredByApply: true, omit: ['value'] },
  verbs: (table) => ({
    create: verb({
      http: 'POST /',
      status: 201,
      input: SecretName.extend({
        value: EnvValue.refine((value) => value !== '', 'must not be empty')
          .refine((value) => codePoints(value) <= VALUE_MAX, `is longer than ${VALUE_MAX} characters`)
          .meta({ writeOnly: true }),
      }),
      output: Secret.omit({ value: true }),
      needs: mayKeep,
      run: async (ctx, { value, ...key }) => {
        if (key.scope_kind === 'folder') await mustBeGroup(ctx, key.owner)
        const sealed = ctx.keyring.seal(value, secretContext(key))
        await table.upsert(ctx.tx, { ...key, value: sealed, created_at: ctx.now })
        return { ...key, created_at: ctx.now }
      },
    }),

    delete: verb({
      http: 'DELETE /{pk}',
      input: SecretName,
      needs: mayKeep,
      run: async (ctx, key) => {
        if ((await table.remove(ctx.tx, key)) === 0)
          refuse('not_found', `there is no secret ${key.key} of ${key.owner}`)
      },
    }),

    list_of: verb({
      reads: true,
      input: Paging.extend({ scope_kind: Secret.shape.scope_kind, owner: Secret.shape.owner }),
      output: listing(table, 'secrets'),
      needs: hostOnly,
      run: async (ctx, { scope_kind, owner, ...paging }) => {
        const page = await pageOf(ctx, table, 'secrets', {
          where: { scope_kind, owner },
          order: [['key', 'asc']],
          ...paging,
        })
        // A group that is gone may have left some.
        if (page.secrets.length === 0 && scope_kind === 'folder') await mustBeGroup(ctx, owner)
        return page
      },
    }),
  }),
})

async function mustBeGroup({ tx }: Context, folder: string): Promise<void> {
  if (!(await groups.find(tx, { folder }))) refuse('not_found', `there is no group ${folder}`)
}

/** A folder's secrets are its admins'; a person's are their own and the operators'. */
async function mayKeep(ctx: Context, { scope_kind, owner }: SecretName): Promise<void> {
  if (scope_kind === 'user') {
    parse(z.object({ owner: Sub }), { owner })
    if (ctx.caller.kind === 'person' && principalOf(ctx.caller) === owner) return
    return mustHaveTool(ctx, INSTANCE)
  }
  const fault = folderFault(owner)
  if (fault) refuse('invalid', `owner ${fault}`)
  await mustHaveTool(ctx, owner)
}
