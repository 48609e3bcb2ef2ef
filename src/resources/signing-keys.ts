// Signing keys of bearers with their state, without the private keys.
import { z } from 'zod'
import { type KeyRotation, rotateOldKey, rotateSigningKey } from '../core/secrets/signing-key-rotation.ts'
import { signingKeys } from '../core/secrets/signing-keys.ts'
import { requireHost, requireInstanceTool, requireOperator } from '../registry/authorization.ts'
import { ascending, listVerb } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const Rotation = z.object({
  kid: z.string().optional().describe('The new active key; absent if no rotation was due'),
  ended: z.array(z.string()).describe('Keys that ended at once'),
})

export const signingKeysResource = defineResource({
  of: signingKeys,
  title: 'SigningKeys',
  servedBy: 'authd',
  verbs: (table) => ({
    list: listVerb(table, 'signing_keys', {
      authorize: requireInstanceTool,
      order: [['created_at', 'desc'], ...ascending('kid')],
    }),

    rotate: defineVerb({
      input: z.object({ now: z.boolean().default(false).describe('End all earlier keys at once, with their bearers') }),
      output: Rotation,
      authorize: requireOperator,
      run: async (ctx, { now }) => resultOf(await rotateSigningKey(ctx.tx, ctx, { endsNow: now })),
    }),

    /** For authd, which calls it regularly. */
    rotate_by_age: defineVerb({
      input: z.object({ age_ms: z.int() }),
      output: Rotation,
      authorize: requireHost,
      auditInput: (input, { kid }) => (kid === undefined ? undefined : input),
      run: async (ctx, { age_ms }) => resultOf(await rotateOldKey(ctx.tx, ctx, age_ms)),
    }),
  }),
})

function resultOf(rotation: KeyRotation | undefined): z.output<typeof Rotation> {
  return rotation ? { kid: rotation.created.kid, ended: [...rotation.ended] } : { ended: [] }
}
