// Settings of the instance in the store. Only for operators, on the command line, the dashboard and in manifests.
import { z } from 'zod'
import { SEALED } from '../core/secrets/model-keys.ts'
import { StoredSetting, settingContext, storedSettings } from '../core/settings/stored-settings.ts'
import { refuse } from '../lib/refusal.ts'
import { requireOperator } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const CHANGES_MAX = 200

const { key, value } = StoredSetting.shape
/** Without a value the setting is removed from the store. */
const Change = z.object({ key, value: value.optional() })

export const settingsResource = defineResource({
  of: storedSettings,
  title: 'Settings',
  servedBy: [],
  exported: {
    fill: (ctx, row, current) => {
      // An exported secret has no value: the stored one stays.
      if (row.value === SEALED) return { ...row, updated_at: row.updated_at ?? current?.updated_at ?? ctx.now }
      const filled = sealedRow(ctx, row.key, row.value)
      const isKept = current?.value === filled.value && !filled.sealed
      return { ...filled, updated_at: isKept ? current.updated_at : ctx.now }
    },
  },
  verbs: (table) => ({
    /** All of them or none. */
    save: defineVerb({
      // A URL may contain a password, so audit rows only name the settings.
      input: z.object({ changes: z.array(Change).min(1).max(CHANGES_MAX).meta({ writeOnly: true }) }),
      output: z.object({ changed: z.array(z.string()) }),
      authorize: requireOperator,
      auditInput: ({ changes }) => ({ settings: changes.map(({ key: name }) => name).join(' ') }),
      run: async (ctx, { changes }) => {
        const faults = changes.flatMap(({ key: name, value: text }) =>
          text === undefined ? [] : (ctx.settingRules.fault(name, text) ?? []),
        )
        if (faults.length > 0) refuse('invalid', faults.join('; '))
        for (const { key: name, value: text } of changes)
          if (text === undefined) await table.remove(ctx.tx, { key: name })
          else await table.upsert(ctx.tx, sealedRow(ctx, name, text))
        return { changed: changes.map(({ key: name }) => name) }
      },
    }),

    /** Without the values of secrets. */
    list: defineVerb({
      isReadOnly: true,
      input: z.object({}),
      output: z.object({ settings: z.array(StoredSetting.omit({ sealed: true })) }),
      authorize: requireOperator,
      run: async ({ tx }) => ({
        settings: (await table.list(tx)).map(({ sealed: _, ...row }) => row),
      }),
    }),
  }),
})

function sealedRow(ctx: Context, name: string, text: string): StoredSetting {
  const fault = ctx.settingRules.fault(name, text)
  if (fault !== undefined) refuse('invalid', fault)
  if (!ctx.settingRules.isSecret(name, text)) return { key: name, value: text, updated_at: ctx.now }
  return { key: name, value: SEALED, sealed: ctx.keyring.seal(text, settingContext(name)), updated_at: ctx.now }
}
