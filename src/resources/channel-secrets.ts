// Secrets of channel adapters, each with the platforms that the adapter may serve. Only for the command line and the dashboard.
import { z } from 'zod'
import { creatorOf } from '../core/access/caller.ts'
import { platformOf } from '../core/delivery/channel.ts'
import {
  ChannelRegistration,
  channelRegistrations,
  deregisterOthers,
  deregisterSecret,
} from '../core/delivery/channel-registrations.ts'
import { ChannelSecret, channelSecrets, hashSecret, secretOfPlatform } from '../core/secrets/channel-secrets.ts'
import { refuse } from '../lib/refusal.ts'
import { requireOperator } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { mustFindRow } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const Adapter = ChannelRegistration.pick({
  name: true,
  url: true,
  jid_prefixes: true,
  health_fails: true,
  seen_at: true,
  state: true,
  detail: true,
  since: true,
  reported_at: true,
})
const ListedSecret = ChannelSecret.pick({ platforms: true }).extend({
  name: z.string().optional().describe('Absent for adapters with the shared secret'),
  created_at: z.string().optional(),
  created_by: z.string().optional(),
  adapters: z.array(Adapter).describe('Adapters that are registered now'),
})
const CreatedSecret = ChannelSecret.pick({ name: true, platforms: true }).extend({
  secret: z.string().describe('Shown only once'),
  ended: z.array(z.string()).describe('Adapters whose registration has ended'),
})

export const channelSecretsResource = defineResource({
  of: channelSecrets,
  title: 'ChannelSecrets',
  servedBy: [],
  verbs: (table) => ({
    list: defineVerb({
      isReadOnly: true,
      input: z.object({}),
      output: z.object({ channel_secrets: z.array(ListedSecret) }),
      authorize: requireOperator,
      run: async (ctx) => {
        const registrations = await channelRegistrations.list(ctx.tx)
        const adaptersOf = (secret_name: string | undefined) =>
          registrations.filter((row) => row.secret_name === secret_name).map(listedAdapter)
        const secrets = await table.list(ctx.tx)
        const listed: z.output<typeof ListedSecret>[] = secrets.map(({ secret_hash: _, ...row }) => ({
          ...row,
          adapters: adaptersOf(row.name),
        }))
        const shared = adaptersOf(undefined)
        const platforms = new Set(shared.flatMap(({ jid_prefixes }) => jid_prefixes.map(platformOf)))
        if (shared.length > 0) listed.push({ platforms: [...platforms].sort(), adapters: shared })
        return { channel_secrets: listed }
      },
    }),

    add: defineVerb({
      input: ChannelSecret.pick({ name: true, platforms: true }),
      output: CreatedSecret,
      authorize: requireOperator,
      run: async (ctx, { name, platforms: named }) => {
        if (await table.find(ctx.tx, { name }))
          refuse(
            'conflict',
            `the adapter ${name} has a secret already`,
            `svc channel ${ctx.instance} rotate ${name} replaces it; svc channel ${ctx.instance} rm ${name} ends it`,
          )
        const platforms = [...new Set(named)].sort()
        for (const platform of platforms) {
          const owner = await secretOfPlatform(ctx.tx, platform)
          if (owner)
            refuse(
              'conflict',
              `the platform ${platform} belongs to the adapter ${owner.name}`,
              `svc channel ${ctx.instance} rm ${owner.name} ends it`,
            )
        }
        const secret = newSecret(ctx)
        await table.insert(ctx.tx, {
          name,
          platforms,
          secret_hash: hashSecret(secret),
          created_at: ctx.now,
          created_by: creatorOf(ctx.caller),
        })
        return { name, platforms, secret, ended: await deregisterOthers(ctx.tx, { name, platforms }) }
      },
    }),

    /** Also ends registrations made with the old secret, which may have leaked. */
    rotate: defineVerb({
      input: ChannelSecret.pick({ name: true }),
      output: CreatedSecret,
      authorize: requireOperator,
      run: async (ctx, { name }) => {
        const { platforms } = await mustFindRow(ctx, table, { name }, `secret for the adapter ${name}`)
        const secret = newSecret(ctx)
        await table.update(ctx.tx, { name }, { secret_hash: hashSecret(secret) })
        return { name, platforms, secret, ended: await deregisterSecret(ctx.tx, name) }
      },
    }),

    remove: defineVerb({
      input: ChannelSecret.pick({ name: true }),
      output: z.object({ ended: z.array(z.string()) }),
      authorize: requireOperator,
      run: async (ctx, { name }) => {
        await mustFindRow(ctx, table, { name }, `secret for the adapter ${name}`)
        await table.remove(ctx.tx, { name })
        return { ended: await deregisterSecret(ctx.tx, name) }
      },
    }),
  }),
})

function listedAdapter(row: ChannelRegistration): z.output<typeof Adapter> {
  const { capabilities, token_hash, token_sealed, qr_sealed, checked_at, registered_at, secret_name, ...listed } = row
  return listed
}

function newSecret({ random }: Context): string {
  return Buffer.from(random.bytes(32)).toString('base64url')
}
