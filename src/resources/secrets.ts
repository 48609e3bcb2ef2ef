// Secrets of folders and users. They can be written and deleted but not read, and are stored encrypted.
import { principalOf } from '../core/access/caller.ts'
import { writeSecret } from '../core/secrets/operator-endpoints.ts'
import { reservedVariableFault } from '../core/secrets/reserved-variables.ts'
import { Secret, SecretName, secrets } from '../core/secrets/secrets.ts'
import { codePoints, EnvValue, FOLDER_SHAPE, folderFault, SUB_SHAPE, Sub } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { canOperate, INSTANCE_SCOPE, isByOperator, mustHaveTool, operatorWho } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { listPage, listSchema, mustFindGroup, Paging } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const VALUE_MAX = 65_536

export const secretsResource = defineResource({
  of: secrets,
  title: 'Secrets',
  servedBy: 'routd',
  exported: { ignoredByApply: true, omit: ['value'] },
  verbs: (table) => ({
    create: defineVerb({
      http: 'POST /',
      status: 201,
      input: SecretName.extend({
        value: EnvValue.refine((value) => value !== '', 'must not be empty')
          .refine((value) => codePoints(value) <= VALUE_MAX, `is longer than ${VALUE_MAX} characters`)
          .meta({ writeOnly: true, minLength: 1, maxLength: VALUE_MAX }),
      }),
      memberRules: {
        if: { properties: { scope_kind: { const: 'user' } } },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { properties: { owner: SUB_SHAPE } },
        else: { properties: { owner: FOLDER_SHAPE } },
      },
      output: Secret.omit({ value: true }),
      authorize: async (ctx, { value: _, ...key }) => {
        const fault = ownerFault(key)
        if (fault) refuse('invalid', `owner ${fault}`)
        await mustOwnSecret(ctx, key)
        const reserved = reservedVariableFault(key)
        if (reserved) refuse('invalid', reserved, 'choose another name')
      },
      run: async (ctx, { value, ...key }) => {
        if (key.scope_kind === 'folder') await mustFindGroup(ctx, key.owner)
        await writeSecret({ ...ctx, isByOperator: () => isByOperator(ctx) }, key, value)
        return { ...key, created_at: ctx.now }
      },
    }),

    delete: defineVerb({
      http: 'DELETE /{pk}',
      input: SecretName,
      authorize: async (ctx, key) => {
        const fault = ownerFault(key)
        if (fault) refuse('not_found', `there is no such secret: owner ${fault}`)
        await mustOwnSecret(ctx, key)
      },
      run: async (ctx, key) => {
        if ((await table.remove(ctx.tx, key)) === 0)
          refuse('not_found', `there is no secret ${key.key} of ${key.owner}`)
      },
    }),

    list_of: defineVerb({
      isReadOnly: true,
      input: Paging.extend({ scope_kind: Secret.shape.scope_kind, owner: Secret.shape.owner }),
      output: listSchema(table, 'secrets'),
      authorize: operatorWho((ctx, { scope_kind, owner }) => {
        if (scope_kind === 'folder') return canOperate(ctx, owner)
        return principalOf(ctx.caller) === owner || canOperate(ctx, INSTANCE_SCOPE)
      }),
      run: async (ctx, { scope_kind, owner, ...paging }) => {
        const page = await listPage(ctx, table, 'secrets', {
          where: { scope_kind, owner },
          order: [['key', 'asc']],
          ...paging,
        })
        // A removed group may still have secrets.
        if (page.secrets.length === 0 && scope_kind === 'folder') await mustFindGroup(ctx, owner)
        return page
      },
    }),
  }),
})

function ownerFault({ scope_kind, owner }: SecretName): string | undefined {
  if (scope_kind === 'folder') return folderFault(owner)
  return Sub.safeParse(owner).error?.issues[0]?.message
}

/** Admins manage the secrets of their folders; people manage their own, and operators those of everyone. */
async function mustOwnSecret(ctx: Context, { scope_kind, owner }: SecretName): Promise<void> {
  if (scope_kind === 'user') {
    if (ctx.caller.kind === 'person' && principalOf(ctx.caller) === owner) return
    return mustHaveTool(ctx, INSTANCE_SCOPE)
  }
  await mustHaveTool(ctx, owner)
}
