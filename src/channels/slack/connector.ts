// Slack: receives by Socket Mode or the Events API, where an event stays at Slack for some minutes until it is confirmed, and sends
// through the Web API.
// See docs/slack.md.
import { WebClient } from '@slack/web-api'
import {
  type AccountAccess,
  type AccountCheck,
  type Connector,
  type ConnectorContext,
  PlatformError,
} from '../process/port.ts'
import { CAPTION_MAX, createSlackActions, TEXT_MAX } from './slack-actions.ts'
import { checked, isSlackTokenFault, objectOf, openSlackApi, SILENT, textOf, webOptions } from './slack-api.ts'
import { SlackConnection } from './slack-connection.ts'
import { SlackDirectory } from './slack-directory.ts'
import { SlackGaps } from './slack-gaps.ts'
import { SlackIntake } from './slack-intake.ts'
import { SlackWebhook } from './slack-webhook.ts'

/** Slack takes 1 GB; svc has no larger files. */
const FILE_MAX = 1024 * 1024 * 1024
/** Slack allows about 50 edits a minute in all chats. */
const DRAFT_EVERY_MS = 3000

/** Those of the manifest in docs/slack.md. */
export const SLACK_SCOPES = [
  ...[
    'app_mentions:read',
    'assistant:write',
    'channels:history',
    'channels:read',
    'chat:write',
    'chat:write.customize',
  ],
  ...[
    'commands',
    'files:read',
    'files:write',
    'groups:history',
    'groups:read',
    'im:history',
    'im:read',
    'mpim:history',
  ],
  ...['mpim:read', 'pins:read', 'pins:write', 'reactions:read', 'reactions:write', 'users:read'],
]

export async function openConnector(context: ConnectorContext): Promise<Connector> {
  const call = openSlackApi(context)
  const { state, now, log, signal } = context
  const directory = new SlackDirectory({ call, state, now })
  const gaps = new SlackGaps({ call, state, log, signal })
  const intake = new SlackIntake({ context, call, directory, gaps })
  const webhook = receivesEvents(context) ? new SlackWebhook({ context, call, intake, gaps }) : undefined
  const connection = webhook ?? new SlackConnection({ context, call, intake, gaps })
  const running = connection.run()
  running.catch(
    context.guard((error: unknown) => {
      throw error
    }),
  )
  const actions = createSlackActions({
    ...{ context, call, directory },
    bot: () => connection.bot,
    onTokenFault: () => connection.restart(),
  })
  return {
    ...actions,
    limits: { text: TEXT_MAX, caption: CAPTION_MAX, fileBytes: FILE_MAX },
    hasButtons: true,
    draftEveryMs: DRAFT_EVERY_MS,
    ...(webhook ? { webhook: (request) => webhook.receive(request) } : {}),
    close: () => running.catch(() => undefined),
  }
}

function receivesEvents({ settings }: Pick<AccountAccess, 'settings'>): boolean {
  return settings.receive === 'events'
}

export async function checkAccount(account: AccountAccess): Promise<AccountCheck> {
  const call = openSlackApi(account)
  const me = await call('auth.test').catch((error) => {
    throw isSlackTokenFault(error)
      ? new PlatformError(
          'refused',
          'Slack does not accept the token of the bot: "OAuth & Permissions" of the app shows it',
        )
      : error
  })
  const app = await appOf(account, textOf(me.bot_id))
  if (!receivesEvents(account)) await checkAppToken(account, app)
  const given = objectOf(me.response_metadata).scopes
  const missing = Array.isArray(given) ? SLACK_SCOPES.filter((scope) => !given.includes(scope)) : []
  const name = textOf(me.user) ?? 'the bot'
  const steps = [
    ...(missing.length === 0
      ? []
      : [`The app has not all rights. Add ${missing.join(', ')} at "OAuth & Permissions", and install it again`]),
    `The bot reads channels that it is a member of: write /invite @${name} there`,
  ]
  const opening =
    app === undefined ? {} : { inviteUrl: `https://slack.com/app_redirect?app=${app}&team=${textOf(me.team_id)}` }
  return { name: `@${name} (${textOf(me.team) ?? 'Slack'})`, ...opening, steps }
}

/** Undefined if Slack does not say it, as the scope may be missing. */
async function appOf(account: AccountAccess, bot: string | undefined): Promise<string | undefined> {
  const found = await openSlackApi(account)('bots.info', { bot }).catch(() => undefined)
  return textOf(objectOf(found?.bot).app_id)
}

/** An app-level token contains the id of its app. */
async function checkAppToken({ secrets, ...account }: AccountAccess, app: string | undefined): Promise<void> {
  const token = secrets.app_token ?? ''
  const of = token.split('-')[2]
  if (app !== undefined && of !== undefined && /^A[A-Z0-9]{6,}$/.test(of) && of !== app)
    throw new PlatformError('refused', 'the two tokens are of different apps')
  const client = new WebClient(token, { ...webOptions(account), logger: SILENT })
  await checked(client.apiCall('apps.connections.open')).catch((error) => {
    if (!(error instanceof PlatformError) || error.kind !== 'refused') throw error
    throw new PlatformError(
      'refused',
      `Slack does not open a connection with the app-level token. It needs the scope connections:write, and Socket Mode must be on. ${error.message}`,
    )
  })
}
