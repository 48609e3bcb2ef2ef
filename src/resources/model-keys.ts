// Model keys of the instance and model settings of folders, for `svc model`. Only for the command line and the dashboard.
import { z } from 'zod'
import { memberText } from '../core/groups/group-config.ts'
import { groups } from '../core/groups/groups.ts'
import { MODEL_SETTINGS, ModelKey, modelKeyContext, modelKeys } from '../core/secrets/model-keys.ts'
import { MODEL_FAMILIES } from '../core/secrets/model-variables.ts'
import { writeSecret } from '../core/secrets/operator-endpoints.ts'
import { secrets } from '../core/secrets/secrets.ts'
import { storedSettings } from '../core/settings/stored-settings.ts'
import { EnvValue, Folder } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { INSTANCE_SCOPE, isByOperator, operatorOn, requireOperator } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const KEY_MAX = 16_384
const KeyText = EnvValue.refine((value) => value !== '', 'must not be empty')
  .refine((value) => value.length <= KEY_MAX, `is longer than ${KEY_MAX} characters`)
  .meta({ writeOnly: true })

const VARIABLES = MODEL_FAMILIES.flat()
const Variable = z.string().refine((name) => VARIABLES.includes(name), 'must be a variable of a model endpoint')

const FolderModel = z.object({
  folder: Folder,
  config: groups.row.shape.config.describe('The new config of the group'),
  cleared: z.array(Variable).describe("Variables to remove from the folder's secrets first"),
  secrets: z.array(z.object({ key: Variable, value: KeyText })).meta({ writeOnly: true }),
})

export const modelKeysResource = defineResource({
  of: modelKeys,
  title: 'ModelKeys',
  servedBy: [],
  verbs: (table) => ({
    set: defineVerb({
      input: ModelKey.pick({ variable: true, endpoint: true }).extend({ value: KeyText }),
      authorize: requireOperator,
      run: async (ctx, { variable, endpoint, value }) => {
        const sealed = ctx.keyring.seal(value, modelKeyContext({ variable, endpoint }))
        await table.upsert(ctx.tx, { variable, endpoint, value: sealed, created_at: ctx.now })
      },
    }),

    clear: defineVerb({
      input: ModelKey.pick({ variable: true }),
      output: z.object({ removed: z.boolean() }),
      authorize: requireOperator,
      run: async (ctx, { variable }) => ({ removed: (await table.remove(ctx.tx, { variable })) > 0 }),
    }),

    /** The keys that are set, without their values. */
    list: defineVerb({
      isReadOnly: true,
      input: z.object({}),
      output: z.object({ keys: z.array(ModelKey.omit({ value: true })) }),
      authorize: requireOperator,
      run: async ({ tx }) => ({ keys: (await table.list(tx)).map(({ value: _, ...key }) => key) }),
    }),

    /** Writes the settings of the instance's model to the store; without a value a setting is empty there, whatever .env says. */
    set_instance: defineVerb({
      input: z.object({
        // A URL may contain credentials, so audit rows only name the variables.
        changes: z
          .array(z.object({ variable: z.enum(MODEL_SETTINGS), value: EnvValue.default('') }))
          .max(20)
          .meta({ writeOnly: true }),
      }),
      authorize: requireOperator,
      auditInput: ({ changes }) => ({ variables: changes.map(({ variable }) => variable).join(' ') }),
      run: async (ctx, { changes }) => {
        for (const { variable, value } of changes) {
          const fault = ctx.settingRules.fault(variable, value)
          if (fault !== undefined) refuse('invalid', fault)
          await storedSettings.upsert(ctx.tx, { key: variable, value, updated_at: ctx.now })
        }
      },
    }),

    /** Changes endpoint, model and key of a folder in one transaction. */
    set_folder: defineVerb({
      input: FolderModel,
      authorize: operatorOn(scopeOfModel),
      run: async (ctx, { folder, config, cleared, secrets: wanted }) => {
        if ((await groups.update(ctx.tx, { folder }, { config, updated_at: ctx.now })) === 0)
          refuse('not_found', `there is no group ${folder}`)
        const nameOf = (key: string) => ({ scope_kind: 'folder' as const, owner: folder, key })
        for (const key of cleared) await secrets.remove(ctx.tx, nameOf(key))
        const writer = { ...ctx, isByOperator: () => isByOperator(ctx) }
        for (const { key, value } of wanted) await writeSecret(writer, nameOf(key), value)
      },
    }),
  }),
})

/** Members of the config that decide which program runs on this machine. */
const LAUNCH_SETTINGS = ['runtime', 'command', 'permission_mode']

/** Administrators of a folder choose its model; only operators choose what runs. */
async function scopeOfModel({ folder, config }: z.output<typeof FolderModel>, { tx }: Context): Promise<string> {
  const current = (await groups.find(tx, { folder }))?.config
  const isKept = LAUNCH_SETTINGS.every((key) => memberText(config, key) === memberText(current, key))
  return isKept ? folder : INSTANCE_SCOPE
}
