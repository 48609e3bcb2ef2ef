// Secrets of channel adapters.
import { channelRegistrationsResource } from '../../resources/channel-registrations.ts'
import { channelSecretsResource } from '../../resources/channel-secrets.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'

const secrets = channelSecretsResource.verbs

const registrations = channelRegistrationsResource.verbs

const SHARED = '(shared)'

interface ChannelSecret {
  readonly name: string
  readonly platforms: readonly string[]
  readonly secret: string
  readonly ended: readonly string[]
}

function printSecret({ print }: SvcContext, created: ChannelSecret): void {
  const { name, platforms, secret, ended } = created
  print.record({ name, platforms: platforms.join(','), secret }, created)
  print.say(
    'The adapter registers with this secret instead of CHANNEL_SECRET. It is stored as a hash and not shown again.',
  )
  if (ended.length > 0) print.say(`ended the registration of ${ended.join(', ')}`)
}

async function printQr({ print }: SvcContext, adapter: string, content: string): Promise<void> {
  const { renderUnicodeCompact } = await import('uqr')
  print.say(
    `Scan this with the account of ${adapter}. It is a secret, and the platform replaces it soon: run this again for the next one.`,
  )
  for (const row of renderUnicodeCompact(content).split('\n')) print.line(row)
}

export const channelCommands = [
  defineSvcCommand({
    usage: 'channel <instance> add <name> --platforms|-p <list> [--json]',
    about: 'create a secret for an adapter, which alone may use these platforms; the secret is shown only once',
    example: 'channel demo add chatbridge --platforms discord,slack',
    run: async (svc, { name, platforms }) => {
      const names = platforms.split(',').map((platform) => platform.trim())
      printSecret(svc, await svc.call(secrets.add, { name, platforms: names.filter(Boolean) }))
    },
  }),
  defineSvcCommand({
    usage: 'channel <instance> list [--json]',
    about: `list adapter secrets, never their values, and registered adapters; ${SHARED} is CHANNEL_SECRET`,
    example: 'channel demo list',
    run: async (svc) =>
      svc.print.table({
        rows: (await svc.call(secrets.list, {})).channel_secrets,
        columns: {
          NAME: ({ name }) => name ?? SHARED,
          PLATFORMS: ({ platforms }) => platforms.join(','),
          CREATED_AT: ({ created_at }) => created_at ?? '-',
          ADAPTERS: ({ adapters }) => adapters.map(({ name, url }) => `${name} at ${url}`).join(', ') || '-',
        },
        empty: 'no adapter secrets, and no adapter is registered',
      }),
  }),
  defineSvcCommand({
    usage: 'channel <instance> rotate <name> [--json]',
    about: 'replace the secret of an adapter; the old secret and its registrations end at once',
    example: 'channel demo rotate chatbridge',
    run: async (svc, { name }) => printSecret(svc, await svc.call(secrets.rotate, { name })),
  }),
  defineSvcCommand({
    usage: 'channel <instance> rm <name> [--json]',
    about: 'delete the secret of an adapter; its registrations end at once',
    example: 'channel demo rm chatbridge',
    run: async (svc, { name }) => {
      const { ended } = await svc.call(secrets.remove, { name })
      const adapters = ended.length === 0 ? '' : ` and the registration of ${ended.join(', ')}`
      if (svc.print.json) svc.print.record({}, { name, ended })
      else svc.print.line(`removed the secret of ${name}${adapters}`)
    },
  }),
  defineSvcCommand({
    usage: 'channel <instance> status [--json]',
    about: 'show registered adapters with health, state and sign-in QR code, and how many messages wait or failed',
    example: 'channel demo status',
    run: async (svc) => {
      const { adapters, platforms } = await svc.call(registrations.list, {})
      if (svc.print.json) return svc.print.record({}, { adapters, platforms })
      svc.print.table({
        rows: adapters,
        columns: {
          ADAPTER: ({ name }) => name,
          PLATFORMS: (adapter) => adapter.platforms.join(','),
          HEALTH: ({ health }) => health,
          CHECKED_AT: ({ checked_at }) => checked_at,
          SEEN_AT: ({ seen_at }) => seen_at,
          STATE: ({ state }) => state ?? '-',
          SINCE: ({ since }) => since ?? '-',
          DETAIL: ({ detail }) => detail ?? '-',
        },
        empty: 'no adapter is registered',
      })
      if (platforms.length > 0)
        svc.print.table({
          rows: platforms,
          columns: {
            PLATFORM: ({ platform }) => platform,
            'DELIVERED BY': ({ delivered_by, adapters: names }) => names.join(',') || delivered_by,
            WAITING: ({ waiting }) => waiting,
            FAILED: ({ failed }) => failed,
          },
          empty: '',
        })
      for (const { name, qr } of adapters) if (qr !== undefined) await printQr(svc, name, qr)
    },
  }),
  defineSvcCommand({
    usage: 'channel <instance> undelivered [--waiting] [--json]',
    about: 'list messages that were not delivered, newest first; with --waiting those that will be tried again',
    example: 'channel demo undelivered',
    run: async (svc, { waiting }) =>
      svc.print.table({
        rows: await svc.listAll(registrations.undelivered, 'undelivered', { kind: waiting ? 'waiting' : 'failed' }),
        columns: {
          ID: ({ id }) => id,
          CHAT: ({ jid }) => jid,
          FOLDER: ({ folder }) => folder ?? '-',
          STATE: ({ state }) => state,
          ATTEMPTS: ({ attempts }) => attempts,
          CREATED_AT: ({ created_at }) => created_at,
          ERROR: ({ error }) => error ?? '-',
        },
        empty: waiting ? 'no messages wait for delivery' : 'no messages failed',
      }),
  }),
]
