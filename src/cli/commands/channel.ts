// Accounts of chat platforms, whose adapters svc starts, and secrets of other adapters.
import {
  accountName,
  CONNECTED_PLATFORMS,
  type ConnectedPlatform,
  isConnectedPlatform,
  mustBeAccount,
  PLATFORM_ACCOUNTS,
} from '../../core/delivery/platform-accounts.ts'
import { checkPlatformAccount } from '../../daemons/process/account-check.ts'
import { throwUsageError } from '../../lib/command-line/program.ts'
import { refuse } from '../../lib/refusal.ts'
import { channelAccountsResource } from '../../resources/channel-accounts.ts'
import { channelRegistrationsResource } from '../../resources/channel-registrations.ts'
import { channelSecretsResource } from '../../resources/channel-secrets.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { readStdinText } from '../input/stdin.ts'

const secrets = channelSecretsResource.verbs

const registrations = channelRegistrationsResource.verbs

const accounts = channelAccountsResource.verbs

const STDIN_MAX = 65_536
const CHECK_MS = 30_000

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
    usage:
      'channel <instance> add <name> [--platforms|-p <list>] [--account <name>] [--token <source>] [--set <setting>] [--no-check] [--json]',
    about: `connect an account of ${CONNECTED_PLATFORMS.join(' or ')}: svc starts its adapter; prompts on a terminal, and --token - reads from stdin; with --platforms, create a secret for an adapter of your own, shown only once`,
    example: 'channel demo add chatbridge --platforms discord,slack',
    run: async (svc, { name, platforms, account, token, set, noCheck }) => {
      if (platforms === undefined) return addAccount(svc, { name, account, token, set, isChecked: !noCheck })
      if (account !== undefined || token !== undefined || set !== undefined || noCheck)
        throwUsageError('--platforms makes a secret for an adapter of your own, which has none of the other flags')
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
    run: async (svc, { name }) => {
      if (await findAccount(svc, name))
        refuse('conflict', `svc starts the adapter ${name} itself, and its secret cannot be rotated`)
      printSecret(svc, await svc.call(secrets.rotate, { name }))
    },
  }),
  defineSvcCommand({
    usage: 'channel <instance> rm <name> [--json]',
    about: 'remove an account, whose adapter stops, or the secret of an adapter; its registrations end at once',
    example: 'channel demo rm chatbridge',
    run: async (svc, { name }) => {
      const isAccount = await findAccount(svc, name)
      const { ended } = isAccount
        ? await svc.call(accounts.remove, { account: name })
        : await svc.call(secrets.remove, { name })
      const adapters = ended.length === 0 ? '' : ` and the registration of ${ended.join(', ')}`
      if (svc.print.json) svc.print.record({}, { name, ended })
      else svc.print.line(`removed the ${isAccount ? 'account' : 'secret of'} ${name}${adapters}`)
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

interface NewAccount {
  readonly name: string
  readonly account: string | undefined
  readonly token: string | undefined
  readonly set: string | undefined
  readonly isChecked: boolean
}

async function addAccount(svc: SvcContext, { name, account: given, token, set, isChecked }: NewAccount): Promise<void> {
  if (!isConnectedPlatform(name))
    return throwUsageError(
      `${name} is none of ${CONNECTED_PLATFORMS.join(', ')}; --platforms <list> makes a secret for an adapter of your own`,
    )
  const account = accountName(name, given)
  const settings = readSettingPairs(set)
  const entered = await readSecrets(svc, name, token)
  mustBeAccount(name, { settings, secrets: entered })
  const { sources, name: instance } = await svc.open()
  const check = isChecked
    ? await checkPlatformAccount(name, { settings, secrets: entered, sources, signal: AbortSignal.timeout(CHECK_MS) })
    : undefined
  const added = await svc.call(accounts.add, { account, platform: name, settings, secrets: entered })
  const { created_at: _, created_by: __, ...shown } = added
  if (svc.print.json) return svc.print.record({}, { ...shown, ...check })
  svc.print.line(`connected ${account}${check ? ` as ${check.name}` : ', without a check'}`)
  if (check?.inviteUrl !== undefined) svc.print.line(`invite: ${check.inviteUrl}`)
  for (const step of check?.steps ?? []) svc.print.say(step)
  svc.print.say(
    `svc channel ${instance} status shows its state; svc group ${instance} add ${account}:<chat> <folder> routes a chat`,
  )
}

/** `--set a=b,c=d`. */
function readSettingPairs(given = ''): Record<string, string> {
  const pairs = given.split(',').filter((pair) => pair !== '')
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=')
      return at > 0
        ? [pair.slice(0, at), pair.slice(at + 1)]
        : throwUsageError(`--set takes <name>=<value>, not ${pair}`)
    }),
  )
}

/** From stdin, one a line, else asked for without echo. */
async function readSecrets(
  { io }: SvcContext,
  platform: ConnectedPlatform,
  source: string | undefined,
): Promise<Record<string, string>> {
  const fields = PLATFORM_ACCOUNTS[platform].secrets
  if (source !== undefined && source !== '-') throwUsageError('--token takes -, and the token comes on stdin')
  if (source === '-') {
    const lines = (await readStdinText(io.stdin, STDIN_MAX)).split('\n').map((each) => each.trim())
    return Object.fromEntries(fields.map(({ name }, at) => [name, lines[at] ?? '']))
  }
  const ask = io.promptHidden
  if (!ask) return throwUsageError('no terminal: give the token on stdin with --token -')
  const answers: Record<string, string> = {}
  for (const { name, label } of fields) answers[name] = (await ask(`${label}: `)).trim()
  return answers
}

async function findAccount(svc: SvcContext, account: string): Promise<boolean> {
  const { channel_accounts: rows } = await svc.call(accounts.list, {})
  return rows.some((row) => row.account === account)
}
