// Discord: receives from the gateway, which replays what came after a sequence, and sends through the REST API with nonces. See
// docs/discord.md.
import { createHash } from 'node:crypto'
import { FileDownloads } from '../process/file-downloads.ts'
import {
  type AccountAccess,
  type AccountCheck,
  type Connector,
  type ConnectorContext,
  PlatformError,
} from '../process/port.ts'
import { ChannelDirectory } from './channel-directory.ts'
import { DiscordApi, isDiscordTokenFault, TOKEN_FAULT } from './discord-api.ts'
import { type DiscordBot, type DiscordFile, memberName } from './discord-events.ts'
import { fetchDiscordFile } from './discord-files.ts'
import { EventInbox } from './event-inbox.ts'
import { type GatewayConnection, runGateway } from './gateway.ts'
import { MessageActions } from './message-actions.ts'
import { toDiscordMarkdown } from './outgoing-markdown.ts'
import { idOf, numberOf, type Payload, payloadOf, shortText } from './payload.ts'

const TEXT_MAX = 2000
const FILE_MAX = 10 * 1024 * 1024
/** Discord allows about five messages and edits in five seconds. */
const DRAFT_EVERY_MS = 1500

/** "Message Content Intent", for bots in less and in more than 100 servers. */
const CONTENT_FLAGS = (1 << 18) | (1 << 19)
/** View, send, also in threads, attach files, read the history, react, voice messages, pin. */
const PERMISSIONS = [10, 11, 14, 15, 16, 38, 6, 46, 51].reduce((sum, bit) => sum | (1n << BigInt(bit)), 0n)

const [CHAT_INPUT, TEXT_OPTION] = [1, 3]
const [REPLY, UPDATE_LATER] = [4, 6]
const EPHEMERAL = 1 << 6
const COMMAND_INTERACTION = 2
/** In servers and in direct chats. */
const CONTEXTS = [0, 1]
const COMMANDS = [
  {
    ...{ type: CHAT_INPUT, name: 'new', description: 'Start a new conversation', contexts: CONTEXTS },
    options: [{ type: TEXT_OPTION, name: 'message', description: 'The first message', required: false }],
  },
  { type: CHAT_INPUT, name: 'stop', description: 'Stop the answer', contexts: CONTEXTS },
  { type: CHAT_INPUT, name: 'status', description: 'Show the state of the agent', contexts: CONTEXTS },
]

export async function checkAccount(account: AccountAccess): Promise<AccountCheck> {
  const api = new DiscordApi(account)
  const read = (path: `/${string}`): Promise<Payload> =>
    api.request({ method: 'GET', path }).then(payloadOf, (error) => {
      throw isDiscordTokenFault(error)
        ? new PlatformError('refused', `${TOKEN_FAULT}; "Bot", "Reset Token" of the application makes a new one`)
        : error
    })
  const [me, application] = [await read('/users/@me'), await read('/applications/@me')]
  const steps = []
  if (((numberOf(application.flags) ?? 0) & CONTENT_FLAGS) === 0)
    steps.push(
      'Turn on "Message Content Intent" at discord.com/developers/applications, "Bot", "Privileged Gateway Intents": without it the bot does not start',
    )
  if (application.bot_require_code_grant === true) steps.push('Turn off "Requires OAuth2 Code Grant" at the same place')
  const query = new URLSearchParams({
    client_id: idOf(application.id) ?? '',
    scope: 'bot applications.commands',
    permissions: String(PERMISSIONS),
  })
  return {
    name: `${shortText(me.username) ?? ''} (${shortText(application.name) ?? ''})`,
    inviteUrl: `https://discord.com/oauth2/authorize?${query}`,
    steps,
  }
}

export async function openConnector(context: ConnectorContext): Promise<Connector> {
  let started: Identity | undefined
  let connection: GatewayConnection | undefined
  const api = new DiscordApi(context, (isAccepted) => {
    if (!isAccepted) context.setHealth('refused', TOKEN_FAULT)
    else if (connection?.isConnected) context.setHealth('ok')
  })
  const messages = new MessageActions({ context, api, started: () => started })
  const run = async (): Promise<void> => {
    started = await startAccount(context, api)
    if (!started) return
    const inbox = openInbox(context, api, started, () => void connection?.close().catch(() => undefined))
    await runGateway(context, api, inbox, (opened) => {
      connection = opened
    })
  }
  const running = run()
  running.catch(
    context.guard((error: unknown) => {
      if (!context.signal.aborted) throw error
    }),
  )
  return {
    limits: { text: TEXT_MAX, fileBytes: FILE_MAX, measure: (text) => toDiscordMarkdown(text).length },
    actions: messages.actions,
    hasButtons: true,
    draftEveryMs: DRAFT_EVERY_MS,
    repeats: messages.repeats,
    close: async () => {
      messages.close()
      await connection?.close()
      await running.catch(() => undefined)
    },
  }
}

interface Identity {
  readonly bot: DiscordBot
  readonly applicationId: string
  readonly directory: ChannelDirectory
}

/** Waits until Discord answers; undefined if the process stops. */
async function startAccount(context: ConnectorContext, api: DiscordApi): Promise<Identity | undefined> {
  const { account, state, signal, setHealth } = context
  for (let failures = 0; !signal.aborted; failures++) {
    try {
      const me = payloadOf(await api.request({ method: 'GET', path: '/users/@me' }))
      const application = payloadOf(await api.request({ method: 'GET', path: '/applications/@me' }))
      const [id, applicationId] = [idOf(me.id), idOf(application.id)]
      if (id === undefined || applicationId === undefined) throw new PlatformError('unavailable', 'Discord sends no id')
      await registerCommands(context, api, applicationId)
      const bot = { id, name: memberName({}, me) ?? id }
      return { bot, applicationId, directory: new ChannelDirectory({ account, state, api, botId: id }) }
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error
      const isRefused = error.kind === 'refused'
      setHealth(isRefused ? 'refused' : 'connecting', isRefused ? error.message : 'Discord cannot be reached')
      await api.pauseAfter(error, failures)
    }
  }
  return undefined
}

/** Discord counts registrations, so they are repeated only after a change. Without them the bot works, too. */
async function registerCommands({ state, log }: ConnectorContext, api: DiscordApi, application: string): Promise<void> {
  const digest = createHash('sha256')
    .update(JSON.stringify([application, COMMANDS]))
    .digest('hex')
  if (state.cursor('commands') === digest) return
  try {
    // The package takes objects, and an array is one.
    await api.request({ method: 'PUT', path: `/applications/${application}/commands`, body: COMMANDS })
    state.setCursor('commands', digest)
  } catch (error) {
    if (isDiscordTokenFault(error) || !(error instanceof PlatformError)) throw error
    log.warn({ detail: error.message }, 'the slash commands could not be registered')
  }
}

function openInbox(context: ConnectorContext, api: DiscordApi, { bot, directory }: Identity, onFull: () => void) {
  const downloads = new FileDownloads<DiscordFile>(context, (...file) => fetchDiscordFile(context, ...file))
  const onStored = (interaction: Payload): Promise<void> => answerInteraction(context, api, interaction)
  return new EventInbox({ context, api, bot, directory, downloads, onStored, onFull })
}

/** Discord shows an error to the person unless it is answered in three seconds, which are over if svc was not available. */
async function answerInteraction({ log }: ConnectorContext, api: DiscordApi, interaction: Payload): Promise<void> {
  const [id, token] = [idOf(interaction.id), interaction.token]
  if (id === undefined || typeof token !== 'string') return
  const { name } = payloadOf(interaction.data)
  const body =
    interaction.type === COMMAND_INTERACTION
      ? { type: REPLY, data: { content: `/${shortText(name) ?? ''} was received.`, flags: EPHEMERAL } }
      : { type: UPDATE_LATER }
  const path = `/interactions/${id}/${encodeURIComponent(token)}/callback` as const
  await api.request({ method: 'POST', path, body }).catch((error) => {
    log.info({ detail: error instanceof PlatformError ? error.message : 'unknown' }, 'a command was answered too late')
  })
}
