// Accounts of chat platforms whose adapters svc starts. Only for the command line.
import { z } from 'zod'
import { creatorOf } from '../core/access/caller.ts'
import {
  ChannelAccount,
  channelAccounts,
  openAccountSecrets,
  sealAccountSecrets,
} from '../core/delivery/channel-accounts.ts'
import { deregisterOthers, deregisterSecret } from '../core/delivery/channel-registrations.ts'
import {
  CONNECTED_PLATFORMS,
  isConnectedPlatform,
  mustBeAccount,
  mustBeReachable,
  mustBeSettings,
  neededSecrets,
} from '../core/delivery/platform-accounts.ts'
import { channelSecrets, hashSecret, secretOfPlatform } from '../core/secrets/channel-secrets.ts'
import { line } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { requireOperator } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { mustFindRow } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const Named = ChannelAccount.pick({ account: true })
const ListedAccount = ChannelAccount.pick({
  account: true,
  platform: true,
  settings: true,
  created_at: true,
  created_by: true,
})

export const channelAccountsResource = defineResource({
  of: channelAccounts,
  title: 'ChannelAccounts',
  servedBy: [],
  verbs: (table) => ({
    list: defineVerb({
      isReadOnly: true,
      input: z.object({}),
      output: z.object({ channel_accounts: z.array(ListedAccount) }),
      authorize: requireOperator,
      run: async ({ tx }) => {
        const rows = await table.list(tx, {}, [['account', 'asc']])
        return { channel_accounts: rows.map(listedAccount) }
      },
    }),

    /** Its adapter starts within seconds where svc serves. */
    add: defineVerb({
      input: ChannelAccount.pick({ account: true, settings: true }).extend({
        platform: z.enum(CONNECTED_PLATFORMS),
        secrets: z.record(z.string(), z.string()).meta({ writeOnly: true }),
      }),
      output: ListedAccount.extend({ ended: z.array(z.string()).describe('Adapters whose registration has ended') }),
      authorize: requireOperator,
      run: async (ctx, { account, platform, settings, secrets }) => {
        mustBeAccount(platform, { settings, secrets })
        mustBeReachable(platform, settings, ctx.webBase)
        const owner = await secretOfPlatform(ctx.tx, account)
        const isTaken = owner ?? (await channelSecrets.find(ctx.tx, { name: account }))
        if (isTaken)
          refuse(
            'conflict',
            `the platform ${account} belongs to the adapter ${isTaken.name}`,
            `svc channel ${ctx.instance} rm ${isTaken.name} ends it; --account <name> adds a further account`,
          )
        const channel = Buffer.from(ctx.random.bytes(32)).toString('base64url')
        const row = {
          ...{ account, platform, settings, leased_until: 0, created_at: ctx.now, created_by: creatorOf(ctx.caller) },
          secrets_sealed: sealAccountSecrets(ctx.keyring, account, { channel, platform: secrets }),
        }
        await table.insert(ctx.tx, row)
        const secret_hash = hashSecret(channel)
        const { created_at, created_by } = row
        await channelSecrets.insert(ctx.tx, {
          name: account,
          platforms: [account],
          secret_hash,
          created_at,
          created_by,
        })
        return {
          ...listedAccount(row),
          ended: await deregisterOthers(ctx.tx, { name: account, platforms: [account] }),
        }
      },
    }),

    /** Its adapter starts again with it. */
    set: defineVerb({
      input: Named.extend({ name: line(32), value: line(1000) }),
      output: ListedAccount,
      authorize: requireOperator,
      run: async (ctx, { account, name, value }) => {
        const row = await mustFindRow(ctx, table, { account }, `account ${account}`)
        const settings = { ...row.settings, [name]: value }
        mustBeSettings(row.platform, settings)
        if (name === 'receive') mustHaveSecrets(ctx, row, settings)
        mustBeReachable(row.platform, settings, ctx.webBase)
        await table.update(ctx.tx, { account }, { settings })
        return listedAccount({ ...row, settings })
      },
    }),

    /** Its adapter stops within seconds. Its cursors and keys stay for an account of the same name. */
    remove: defineVerb({
      input: Named,
      output: z.object({ ended: z.array(z.string()) }),
      authorize: requireOperator,
      run: async (ctx, { account }) => {
        await mustFindRow(ctx, table, { account }, `account ${account}`)
        await table.remove(ctx.tx, { account })
        await channelSecrets.remove(ctx.tx, { name: account })
        return { ended: await deregisterSecret(ctx.tx, account) }
      },
    }),
  }),
})

/** Another way to receive may need a secret that was not entered. */
function mustHaveSecrets(
  { keyring, instance }: Pick<Context, 'keyring' | 'instance'>,
  row: ChannelAccount,
  settings: ChannelAccount['settings'],
): void {
  const { platform, account } = row
  if (!isConnectedPlatform(platform)) return
  const { platform: secrets } = openAccountSecrets(keyring, row)
  const missing = neededSecrets(platform, settings).find(({ name }) => !secrets[name])
  if (missing)
    refuse(
      'invalid',
      `receive=${settings.receive} needs the ${missing.label}, which ${account} does not have`,
      `svc channel ${instance} rm ${account}, then add it again with --set receive=${settings.receive}`,
    )
}

function listedAccount(row: ChannelAccount): z.output<typeof ListedAccount> {
  const { account, platform, settings, created_at, created_by } = row
  return { account, platform, settings, created_at, created_by }
}
