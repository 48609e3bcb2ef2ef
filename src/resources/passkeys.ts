// Passkeys of people. The pages of authd call these verbs after they have verified the response of the authenticator.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import {
  isCounterFall,
  listPasskeys,
  PASSKEYS_MAX,
  Passkey,
  type PasskeyRow,
  passkeys,
  takeChallenge,
} from '../core/people/passkeys.ts'
import { Sub } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { mustHaveSignedInRecently } from '../permissions/signed-in-person.ts'
import { hasTool, INSTANCE_SCOPE } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const PasskeyKey = Passkey.pick({ id: true })
const PublicPasskey = Passkey.omit({ user_handle: true, public_key: true })

export type PublicPasskey = z.output<typeof PublicPasskey>

/** The challenge that the authenticator signed, and when it expires in milliseconds since 1970. */
const Challenge = z.object({
  challenge: z.string().min(1).max(86).meta({ writeOnly: true }),
  expires_ms: z.int(),
})

export const passkeysResource = defineResource({
  of: passkeys,
  title: 'Passkeys',
  servedBy: [],
  verbs: (table) => ({
    /** Without `sub`: those of the caller. */
    list: defineVerb({
      isReadOnly: true,
      input: z.object({ sub: Sub.optional() }),
      output: z.object({ passkeys: z.array(PublicPasskey) }),
      authorize: async (ctx, { sub }) => {
        if (sub === undefined || sub === principalOf(ctx.caller) || (await hasTool(ctx, INSTANCE_SCOPE))) return
        refuse('forbidden', 'you may list only your own passkeys')
      },
      run: async (ctx, { sub = principalOf(ctx.caller) }) => ({
        passkeys: (await listPasskeys(ctx.tx, sub)).map(({ user_handle: _, public_key: __, ...shown }) => shown),
      }),
    }),

    add: defineVerb({
      input: Passkey.omit({ sub: true, created_at: true, last_used_at: true }).extend(Challenge.shape),
      authorize: (ctx) => mustHaveSignedInRecently(ctx, 'adding a passkey'),
      auditInput: ({ id, name }) => ({ id, name }),
      run: async (ctx, { challenge, expires_ms, ...added }) => {
        await mustBeFirstUse(ctx, challenge, expires_ms)
        const sub = principalOf(ctx.caller)
        if (await table.find(ctx.tx, { id: added.id }))
          refuse('conflict', 'this passkey is in use already', 'choose another passkey or device')
        if ((await listPasskeys(ctx.tx, sub)).length >= PASSKEYS_MAX)
          refuse('conflict', `you have ${PASSKEYS_MAX} passkeys already`, 'remove one that you no longer use')
        await table.insert(ctx.tx, { ...added, sub, created_at: ctx.now })
      },
    }),

    /** Records a sign-in with a verified response. Called as the person of the passkey, who has no session yet. */
    use: defineVerb({
      needsNoSession: true,
      input: Passkey.pick({ id: true, counter: true, is_backup_eligible: true, is_backed_up: true }).extend(
        Challenge.shape,
      ),
      authorize: async (ctx, { id, counter }) => {
        const passkey = await mustBeOwn(ctx, id)
        if (isCounterFall(passkey, counter))
          refuse(
            'forbidden',
            `the passkey ${passkey.name} may have been copied: its counter is ${counter} after ${passkey.counter}`,
            'sign in another way, then remove this passkey',
          )
      },
      auditInput: ({ id }) => ({ id }),
      run: async (ctx, { id, challenge, expires_ms, ...changes }) => {
        await mustBeFirstUse(ctx, challenge, expires_ms)
        await table.update(ctx.tx, { id }, { ...changes, last_used_at: ctx.now })
      },
    }),

    rename: defineVerb({
      input: PasskeyKey.extend({ name: Passkey.shape.name }),
      authorize: async (ctx, { id }) => {
        await mustBeOwn(ctx, id)
      },
      run: async (ctx, { id, name }) => {
        await table.update(ctx.tx, { id }, { name })
      },
    }),

    remove: defineVerb({
      input: PasskeyKey,
      authorize: async (ctx, { id }) => {
        if (!(await hasTool(ctx, INSTANCE_SCOPE))) await mustBeOwn(ctx, id)
      },
      run: async (ctx, { id }) => {
        if ((await table.remove(ctx.tx, { id })) === 0) refuseUnknown()
      },
    }),
  }),
})

/** One answer for unknown passkeys and those of others. */
function refuseUnknown(): never {
  refuse('not_found', 'there is no such passkey')
}

async function mustBeOwn({ tx, caller }: Context, id: string): Promise<PasskeyRow> {
  const passkey = await passkeys.find(tx, { id })
  return passkey?.sub === principalOf(caller) ? passkey : refuseUnknown()
}

async function mustBeFirstUse({ tx, clock }: Context, challenge: string, expiresMs: number): Promise<void> {
  const nowMs = clock.now()
  if (nowMs >= expiresMs || !(await takeChallenge(tx, challenge, expiresMs, nowMs)))
    refuse('invalid', 'this response of a passkey was used before or is too old', 'try again')
}
