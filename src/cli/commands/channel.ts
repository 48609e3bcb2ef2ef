// Secrets of channel adapters.
import { channelSecretsResource } from '../../resources/channel-secrets.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'

const secrets = channelSecretsResource.verbs

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
]
