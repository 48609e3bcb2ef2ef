// Accounts of chat platforms, whose adapters svc starts, and secrets of other adapters.
import {
  type AccountField,
  accountName,
  CONNECTED_PLATFORMS,
  type ConnectedPlatform,
  isConnectedPlatform,
  mustBeAccount,
  neededSecrets,
  PLATFORM_ACCOUNTS,
} from '../../core/delivery/platform-accounts.ts'
import { checkPlatformAccount, type ProbedAccount, probeAccounts } from '../../daemons/process/account-check.ts'
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
const NO_CHECK_HINT = '--no-check saves it without a check'

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
      'channel <instance> add <name> [--platforms|-p <list>] [--account <name>] [--token <source>] [--app-token <source>] [--bot-token <source>] [--signing-secret <source>] [--address <address>] [--imap <host:port>] [--smtp <host:port>] [--user <name>] [--password <source>] [--tls <mode>] [--set <setting>] [--no-check] [--json]',
    about: `connect an account of ${CONNECTED_PLATFORMS.join(', ')}: svc starts its adapter; prompts on a terminal, and --token - reads secrets from stdin, one a line; with --platforms, create a secret for an adapter of your own, shown only once`,
    example: 'channel demo add chatbridge --platforms discord,slack',
    run: async (svc, { name, platforms, account, set, noCheck, json: _, instance: __, ...flags }) => {
      const given = new Map(
        Object.entries(flags).flatMap(([flag, value]) => (value === undefined ? [] : [[flagName(flag), value]])),
      )
      if (platforms === undefined) return addAccount(svc, { name, account, given, set, isChecked: !noCheck })
      if (account !== undefined || given.size > 0 || set !== undefined || noCheck)
        throwUsageError('--platforms makes a secret for an adapter of your own, which has none of the other flags')
      const names = platforms.split(',').map((platform) => platform.trim())
      printSecret(svc, await svc.call(secrets.add, { name, platforms: names.filter(Boolean) }))
    },
  }),
  defineSvcCommand({
    usage: 'channel <instance> set <account> <name> <value> [--json]',
    about:
      'change a setting of an account: dm decides who may start a direct chat (pairing, allowlist, open or off), bots whether other bots count, receive how messages arrive',
    example: 'channel demo set telegram dm open',
    run: async (svc, { account, name, value }) => {
      const changed = await svc.call(accounts.set, { account, name, value })
      if (svc.print.json) svc.print.record({}, changed)
      else svc.print.line(`${account} ${name} -> ${value}`)
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
    usage: 'channel <instance> status [--probe] [--json]',
    about:
      'show registered adapters with health, state and sign-in QR code, and how many messages wait or failed; --probe also asks the platforms about the accounts',
    example: 'channel demo status',
    run: async (svc, { probe }) => {
      const { adapters, platforms } = await svc.call(registrations.list, {})
      const accounts = probe ? await probeAll(svc) : undefined
      if (svc.print.json) return svc.print.record({}, { adapters, platforms, ...(accounts ? { accounts } : {}) })
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
      if (accounts)
        svc.print.table({
          rows: accounts,
          columns: {
            ACCOUNT: ({ account }) => account,
            'THE PLATFORM SAYS': ({ name, fault }) => name ?? `refused: ${fault}`,
          },
          empty: 'no account is connected',
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
  /** Flags by the names of the fields. */
  readonly given: ReadonlyMap<string, string>
  readonly set: string | undefined
  readonly isChecked: boolean
}

/** `appToken` is the field `app_token`. */
function flagName(flag: string): string {
  return flag.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

async function addAccount(svc: SvcContext, { name, account: other, given, set, isChecked }: NewAccount): Promise<void> {
  if (!isConnectedPlatform(name))
    return throwUsageError(
      `${name} is none of ${CONNECTED_PLATFORMS.join(', ')}; --platforms <list> makes a secret for an adapter of your own`,
    )
  const account = accountName(name, other)
  const { settings, secrets: entered } = await readFields(svc, name, given, readSettingPairs(set))
  mustBeAccount(name, { settings, secrets: entered })
  const { sources, name: instance } = await svc.open()
  const check = isChecked
    ? await checkPlatformAccount(name, { settings, secrets: entered, sources, hint: NO_CHECK_HINT })
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

/** Settings from flags, and secrets from stdin, one a line; else both are asked for, secrets without echo. */
async function readFields(
  { io }: SvcContext,
  platform: ConnectedPlatform,
  given: ReadonlyMap<string, string>,
  set: Record<string, string>,
): Promise<{ settings: Record<string, string>; secrets: Record<string, string> }> {
  const { required, optional, secrets } = PLATFORM_ACCOUNTS[platform]
  const known = new Set([...required, ...optional, ...secrets].map(({ name }) => name))
  for (const name of given.keys()) if (!known.has(name)) throwUsageError(`${platform} has no --${flagOf(name)}`)
  const settings = { ...set }
  for (const { name } of [...required, ...optional]) {
    const value = given.get(name)
    if (value !== undefined) settings[name] = value
  }
  for (const { name, label } of required) {
    if (settings[name] !== undefined) continue
    const ask = io.prompt
    if (!ask) return throwUsageError(`no terminal: give the ${label} with --${flagOf(name)}`)
    settings[name] = (await ask(`${label}: `)).trim()
  }
  const needed = neededSecrets(platform, settings)
  const asked = secrets.filter((field) => needed.includes(field) || given.has(field.name))
  return { settings, secrets: await readSecrets(io, asked, given) }
}

function flagOf(field: string): string {
  return field.replaceAll('_', '-')
}

async function readSecrets(
  io: SvcContext['io'],
  fields: readonly AccountField[],
  given: ReadonlyMap<string, string>,
): Promise<Record<string, string>> {
  const sources = fields.map(({ name }) => given.get(name))
  const flags = fields.map(({ name }) => `--${flagOf(name)} -`).join(' ')
  for (const [at, source] of sources.entries())
    if (source !== undefined && source !== '-')
      throwUsageError(`--${flagOf(fields[at]?.name ?? '')} takes -, and the secret comes on stdin`)
  const isStdin = sources.some((source) => source !== undefined)
  if (isStdin && sources.includes(undefined)) throwUsageError(`give all of ${flags}`)
  if (isStdin) {
    const lines = (await readStdinText(io.stdin, STDIN_MAX)).split('\n').map((each) => each.trim())
    const inOrder = [...given.keys()].filter((flag) => fields.some(({ name }) => name === flag))
    return Object.fromEntries(inOrder.map((name, at) => [name, lines[at] ?? '']))
  }
  const ask = io.promptHidden
  if (!ask) return throwUsageError(`no terminal: give ${flags}, and the secrets on stdin, one a line`)
  const answers: Record<string, string> = {}
  for (const { name, label } of fields) answers[name] = (await ask(`${label}: `)).trim()
  return answers
}

async function probeAll(svc: SvcContext): Promise<ProbedAccount[]> {
  await svc.mustBeLocal()
  const { host, sources } = await svc.open()
  return probeAccounts(host, sources)
}

async function findAccount(svc: SvcContext, account: string): Promise<boolean> {
  const { channel_accounts: rows } = await svc.call(accounts.list, {})
  return rows.some((row) => row.account === account)
}
