// Telegram: receives by long polling, where an update stays at the platform until a later offset is asked for, and sends through
// the Bot API, which has no keys: a message whose answer was lost is never sent again. See docs/telegram.md.
import { setTimeout as pause } from 'node:timers/promises'
import { type Api, GrammyError, InputFile } from 'grammy'
import type { ReactionTypeEmoji, Update } from 'grammy/types'
import {
  type AccountAccess,
  type AccountCheck,
  type Connector,
  type ConnectorContext,
  type InboundAttachment,
  type InboundEvent,
  type OutgoingFilePart,
  type OutgoingPart,
  type Place,
  PlatformError,
  type TargetMessage,
} from '../process/port.ts'
import { baseUrl, callApi, isTokenFault, openApi } from './telegram-api.ts'
import {
  ALLOWED_UPDATES,
  type Bot,
  joinAlbums,
  type RemoteFile,
  readUpdate,
  type TelegramEvent,
} from './telegram-events.ts'

const POLL_S = 50
const UPDATES_MAX = 100
const PAUSE_MS = 1000
const PAUSE_MAX_MS = 30_000
/** A token that is refused may be a mistake of the platform. */
const REFUSED_PAUSE_MS = 60_000
/** The Bot API gives no larger files. */
const DOWNLOAD_MAX = 20 * 1024 * 1024
const DOWNLOAD_MS = 120_000
/** The platform shows it for five seconds. */
const TYPING_EVERY_MS = 4500
const TYPING_MAX_MS = 5 * 60_000

const COMMANDS = [
  { command: 'new', description: 'Start a new conversation' },
  { command: 'stop', description: 'Stop the answer' },
  { command: 'status', description: 'Show the state of the agent' },
]

export async function checkAccount(account: AccountAccess): Promise<AccountCheck> {
  const api = openApi(account)
  const me = await api.getMe(toAbortSignal(account.signal)).catch((error) => {
    if (isTokenFault(error))
      throw new PlatformError('refused', 'Telegram does not accept this token; @BotFather shows it with /token')
    return callApi(Promise.reject(error))
  })
  const steps = me.can_read_all_group_messages
    ? []
    : [
        'In groups the bot sees only mentions, replies and commands. To let it read everything: /setprivacy, Disable, at @BotFather',
      ]
  return { name: `@${me.username} (${me.first_name})`, inviteUrl: `https://t.me/${me.username}?startgroup=true`, steps }
}

export async function openConnector(context: ConnectorContext): Promise<Connector> {
  const api = openApi(context)
  const typing = new TypingIndicators(context, api)
  const polling = new Poller(context, api).run()
  polling.catch(
    context.guard((error: unknown) => {
      throw error
    }),
  )
  return {
    limits: { text: 4096, caption: 1024, fileBytes: 50 * 1024 * 1024 },
    actions: createActions(context, api, typing),
    close: async () => {
      typing.close()
      await polling.catch(() => undefined)
    },
  }
}

/** Asks for updates, and for the next ones only when svc has stored these. */
class Poller {
  readonly #context: ConnectorContext
  readonly #api: Api

  constructor(context: ConnectorContext, api: Api) {
    this.#context = context
    this.#api = api
  }

  async run(): Promise<void> {
    const { signal } = this.#context
    let [bot, failures]: [Bot | undefined, number] = [undefined, 0]
    while (!signal.aborted) {
      try {
        bot ??= await this.#start()
        await this.#poll(bot)
        failures = 0
        this.#context.setHealth('ok')
      } catch (error) {
        if (signal.aborted) return
        if (!(error instanceof Error) || !isPlatformFault(error)) throw error
        await this.#pause(error, failures++)
      }
    }
  }

  /** Polling and a webhook exclude each other. */
  async #start(): Promise<Bot> {
    const me = await this.#api.getMe(this.#signal())
    await this.#api.deleteWebhook({ drop_pending_updates: false }, this.#signal())
    // Without the list of commands the bot works, too.
    await this.#api.setMyCommands(COMMANDS, {}, this.#signal()).catch(() => undefined)
    return { id: me.id, username: me.username }
  }

  async #poll(bot: Bot): Promise<void> {
    const { state } = this.#context
    const offset = Number(state.cursor('offset') ?? 0)
    const updates = await this.#api.getUpdates(
      { offset, timeout: POLL_S, limit: UPDATES_MAX, allowed_updates: ALLOWED_UPDATES },
      this.#signal(),
    )
    if (updates.length === 0) return
    await this.#store(bot, updates)
    state.setCursor('offset', String(1 + Math.max(...updates.map(({ update_id }) => update_id))))
  }

  /** Each chat in order, and all chats at once. */
  async #store(bot: Bot, updates: readonly Update[]): Promise<void> {
    const { account, settings } = this.#context
    const events = updates.flatMap((update) =>
      readUpdate({ account, bot, areBotsHeard: settings.bots === 'allow' }, update),
    )
    const chats = Map.groupBy(events, ({ event }) => event.chat_jid)
    await Promise.all([...chats.values()].map((chat) => this.#storeChat(chat)))
  }

  async #storeChat(events: readonly TelegramEvent[]): Promise<void> {
    for (const { event, files } of joinAlbums(events, DOWNLOAD_MAX))
      await this.#context.receive(await this.#withFiles(event, files))
  }

  async #withFiles(event: InboundEvent, files: readonly RemoteFile[]): Promise<InboundEvent> {
    if (files.length === 0) return event
    const attachments: InboundAttachment[] = []
    const missing: string[] = []
    for (const file of files) {
      const data = await this.#download(file)
      if (data === undefined) missing.push(`[the file ${file.name} is too large to receive, or gone]`)
      else attachments.push({ mime: file.mime, filename: file.name, data })
    }
    const content = [event.content, ...missing].filter((text) => text !== undefined).join('\n')
    return { ...event, attachments, content: content === '' ? undefined : content }
  }

  /** Undefined if the platform does not give it. */
  async #download({ id, size = 0 }: RemoteFile): Promise<Uint8Array | undefined> {
    const { secrets, apiUrl, signal } = this.#context
    if (size > DOWNLOAD_MAX) return undefined
    const file = await this.#api.getFile(id, this.#signal()).catch((error) => {
      if (error instanceof GrammyError && error.error_code === 400) return undefined
      throw error
    })
    if (file?.file_path === undefined) return undefined
    const url = `${baseUrl(apiUrl)}/file/bot${secrets.token}/${file.file_path}`
    const response = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(DOWNLOAD_MS)]) })
    if (response.status === 404) return undefined
    if (!response.ok) throw new PlatformError('unavailable', `Telegram answers ${response.status} for a file`)
    const data = new Uint8Array(await response.arrayBuffer())
    return data.length > DOWNLOAD_MAX ? undefined : data
  }

  async #pause(error: Error, failures: number): Promise<void> {
    const { setHealth, signal } = this.#context
    const isRefused = isTokenFault(error)
    const isShared = error instanceof GrammyError && error.error_code === 409
    if (isRefused) setHealth('refused', 'Telegram does not accept the token')
    else if (isShared) setHealth('refused', 'another program receives the messages of this bot')
    else setHealth('connecting', 'Telegram cannot be reached')
    const limited = error instanceof GrammyError ? (error.parameters.retry_after ?? 0) * 1000 : 0
    const ms = isRefused
      ? REFUSED_PAUSE_MS
      : Math.max(limited, Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** Math.min(failures, 6)))
    await pause(ms, undefined, { signal }).catch(() => undefined)
  }

  #signal(): ReturnType<typeof toAbortSignal> {
    return toAbortSignal(this.#context.signal)
  }
}

/** Faults of the platform or of the way to it; any other is a bug and ends the process. */
function isPlatformFault(error: Error): boolean {
  return (
    error instanceof GrammyError ||
    error instanceof PlatformError ||
    ['HttpError', 'TimeoutError', 'TypeError'].includes(error.name)
  )
}

/** The package declares the signal of another library. */
function toAbortSignal(signal: AbortSignal) {
  return signal as Parameters<Api['getMe']>[0]
}

function createActions(context: ConnectorContext, api: Api, typing: TypingIndicators): Connector['actions'] {
  const checked = async <T>(call: Promise<T>): Promise<T> => {
    call.catch((error) => {
      if (isTokenFault(error) && error.error_code === 401)
        context.setHealth('refused', 'Telegram does not accept the token')
    })
    return callApi(call)
  }
  const idOf = ({ message_id }: { readonly message_id: number }): string => String(message_id)
  const sendText = async ({ text, ...out }: OutgoingPart & { readonly text: string }): Promise<string> => {
    const rich = await checked(
      api.sendRichMessage(chatIdOf(out), { markdown: text }, optionsOf(out)).catch((error) => {
        if (isFormatFault(error)) return undefined
        throw error
      }),
    )
    return idOf(rich ?? (await checked(api.sendMessage(chatIdOf(out), text, optionsOf(out)))))
  }
  // The package writes the name into a header as it is.
  const file = ({ path, filename }: OutgoingFilePart): InputFile =>
    new InputFile(path, `"${filename.replace(/["\\\r\n]/g, '_')}"`)
  const react = (target: TargetMessage, emoji: string): Promise<void> =>
    done(
      checked(
        api.setMessageReaction(chatIdOf(target), messageIdOf(target.id), [
          { type: 'emoji', emoji: emoji as ReactionTypeEmoji['emoji'] },
        ]),
      ),
    )
  return {
    sendText,
    sendFile: async (out) => {
      const options = { ...optionsOf(out), ...(out.caption === undefined ? {} : { caption: out.caption }) }
      const chat = chatIdOf(out)
      if (/^image\/(?:png|jpeg|webp)$/.test(out.mime ?? '')) {
        const photo = await checked(
          api.sendPhoto(chat, file(out), options).catch((error) => {
            // Too large or too long for a photo.
            if (error instanceof GrammyError && error.error_code === 400) return undefined
            throw error
          }),
        )
        if (photo) return idOf(photo)
      }
      return idOf(await checked(api.sendDocument(chat, file(out), options)))
    },
    sendVoice: async (out) =>
      idOf(
        await checked(
          api.sendVoice(chatIdOf(out), file(out), {
            ...optionsOf(out),
            ...(out.caption === undefined ? {} : { caption: out.caption }),
          }),
        ),
      ),
    forward: async ({ source, ...out }) =>
      idOf(await checked(api.forwardMessage(chatIdOf(out), chatIdOf(source), messageIdOf(source.id), threadOf(out)))),
    quote: ({ source, ...out }) => sendText({ ...out, replyTo: source.id }),
    like: (target) => react(target, target.reaction === '' ? '👍' : target.reaction),
    dislike: (target) => react(target, '👎'),
    edit: async ({ text, ...target }) => {
      const [chat, id] = [chatIdOf(target), messageIdOf(target.id)]
      const edited = await checked(
        api.raw.editMessageText({ chat_id: chat, message_id: id, rich_message: { markdown: text } }).catch((error) => {
          if (isUnchanged(error)) return true as const
          if (isFormatFault(error)) return undefined
          throw error
        }),
      )
      if (edited === undefined) await checked(api.editMessageText(chat, id, text))
    },
    delete: (target) => done(checked(api.deleteMessage(chatIdOf(target), messageIdOf(target.id)))),
    pin: (target) => done(checked(api.pinChatMessage(chatIdOf(target), messageIdOf(target.id)))),
    unpin: (target) => done(checked(api.unpinChatMessage(chatIdOf(target), messageIdOf(target.id)))),
    unpinAll: (place) => done(checked(api.unpinAllChatMessages(chatIdOf(place)))),
    typing: async ({ on, ...place }) => typing.set(place, on),
  }
}

async function done(call: Promise<unknown>): Promise<void> {
  await call
}

/** An older server of the Bot API, or text that it cannot format. */
function isFormatFault(error: unknown): boolean {
  if (!(error instanceof GrammyError)) return false
  const { error_code: code, description } = error
  return (code === 404 && /method/i.test(description)) || (code === 400 && /parse|rich|entit|format/i.test(description))
}

function isUnchanged(error: unknown): boolean {
  return error instanceof GrammyError && /message is not modified/i.test(error.description)
}

function chatIdOf({ chat }: Place): number {
  const [, id] = /^(?:user|group)\/(-?\d{1,20})$/.exec(chat) ?? []
  if (id === undefined)
    throw new PlatformError('refused', `${chat} is no chat of Telegram: it must look like user/42 or group/-42`)
  return Number(id)
}

function messageIdOf(id: string): number {
  if (!/^\d{1,15}$/.test(id)) throw new PlatformError('refused', `${id} is no message of Telegram`)
  return Number(id)
}

function threadOf({ threadId }: Place): { message_thread_id?: number } {
  return threadId !== undefined && /^\d{1,15}$/.test(threadId) ? { message_thread_id: Number(threadId) } : {}
}

function optionsOf({ replyTo, ...out }: OutgoingPart) {
  return {
    ...threadOf(out),
    // The message may have been deleted since.
    ...(replyTo !== undefined && /^\d{1,15}$/.test(replyTo)
      ? { reply_parameters: { message_id: Number(replyTo), allow_sending_without_reply: true } }
      : {}),
  }
}

class TypingIndicators {
  readonly #context: ConnectorContext
  readonly #api: Api
  readonly #timers = new Map<string, { readonly timer: NodeJS.Timeout; readonly until: number }>()

  constructor(context: ConnectorContext, api: Api) {
    this.#context = context
    this.#api = api
  }

  async set(place: Place, isOn: boolean): Promise<void> {
    const key = `${place.chat} ${place.threadId ?? ''}`
    clearInterval(this.#timers.get(key)?.timer)
    this.#timers.delete(key)
    if (!isOn) return
    const until = this.#context.now() + TYPING_MAX_MS
    const timer = setInterval(
      this.#context.guard(() => this.#show(key, place)),
      TYPING_EVERY_MS,
    ).unref()
    this.#timers.set(key, { timer, until })
    await callApi(this.#api.sendChatAction(chatIdOf(place), 'typing', threadOf(place)))
  }

  close(): void {
    for (const { timer } of this.#timers.values()) clearInterval(timer)
    this.#timers.clear()
  }

  async #show(key: string, place: Place): Promise<void> {
    const running = this.#timers.get(key)
    if (!running) return
    if (this.#context.now() > running.until) {
      clearInterval(running.timer)
      this.#timers.delete(key)
      return
    }
    // The next one comes soon.
    await this.#api.sendChatAction(chatIdOf(place), 'typing', threadOf(place)).catch(() => undefined)
  }
}
