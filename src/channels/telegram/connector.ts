// Telegram: receives by long polling, where an update stays at the platform until a later offset is asked for, and sends through
// the Bot API, which has no keys: a message whose answer was lost is never sent again. See docs/telegram.md.
import { setTimeout as pause } from 'node:timers/promises'
import { type Api, GrammyError, HttpError, InputFile } from 'grammy'
import type { InlineKeyboardMarkup, ReactionTypeEmoji, Update } from 'grammy/types'
import { isObject } from '../../lib/text/json.ts'
import {
  type AccountAccess,
  type AccountCheck,
  type Connector,
  type ConnectorContext,
  type EventReceipt,
  type InboundAttachment,
  type InboundEvent,
  type OutgoingFilePart,
  type OutgoingPart,
  type OutgoingTextPart,
  type Place,
  PlatformError,
  type TargetMessage,
} from '../process/port.ts'
import { RepeatedTyping } from '../process/typing-indicators.ts'
import { apiRootOf, callApi, isTokenFault, openApi } from './telegram-api.ts'
import {
  ALLOWED_UPDATES,
  type Bot,
  joinAlbums,
  type RemoteFile,
  readUpdate,
  startOfLastAlbum,
  type TelegramEvent,
} from './telegram-events.ts'
import { TelegramWebhook } from './telegram-webhook.ts'

const POLL_S = 50
const UPDATES_MAX = 100
const PAUSE_MS = 1000
const PAUSE_MAX_MS = 30_000
/** A token that is refused may be a mistake of the platform. */
const REFUSED_PAUSE_MS = 60_000
/** The Bot API gives no larger files. */
const DOWNLOAD_MAX = 20 * 1024 * 1024
const DOWNLOAD_MS = 120_000
/** A file that fails as often, while updates arrive, holds up the bot no longer. */
const DOWNLOAD_ATTEMPTS = 5
const FAILED_MAX = 1000
/** No pause that the platform asks for may stop the bot for longer. */
const LIMITED_MAX_MS = 3_600_000
/** The pictures of an album arrive one by one. */
const ALBUM_PAUSE_MS = 400
const ALBUM_MAX = 10
/** The platform shows it for five seconds. */
const TYPING_EVERY_MS = 4500

/** One message a second in a chat, and 20 a minute in a group. */
const PRIVATE_DRAFT_MS = 1100
const GROUP_DRAFT_MS = 3100

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
  const show = (place: Place): Promise<unknown> =>
    callApi(api.sendChatAction(chatIdOf(place), 'typing', threadOf(place)))
  const typing = new RepeatedTyping({ everyMs: TYPING_EVERY_MS, now: context.now, guard: context.guard, show })
  const poller = new Poller(context, api)
  const webhook = context.settings.receive === 'webhook' ? new TelegramWebhook(context, api, poller) : undefined
  const receiving = (webhook ?? poller).run()
  receiving.catch(
    context.guard((error: unknown) => {
      throw error
    }),
  )
  return {
    limits: { text: 4096, caption: 1024, fileBytes: 50 * 1024 * 1024 },
    hasButtons: true,
    draftEveryMs: ({ chat }) => (chat.startsWith('user/') ? PRIVATE_DRAFT_MS : GROUP_DRAFT_MS),
    actions: createActions(context, api, typing),
    ...(webhook ? { webhook: (request) => webhook.receive(request) } : {}),
    close: async () => {
      typing.close()
      await receiving.catch(() => undefined)
    },
  }
}

/** Asks for updates, and for the next ones only when svc has stored these. */
class Poller {
  readonly #context: ConnectorContext
  readonly #api: Api
  readonly #failedDownloads = new Map<string, number>()
  /** Events with files follow each other, as they are in memory until svc has stored them. */
  #lastFile: Promise<unknown> = Promise.resolve()
  #isConnected = false
  /** Not kept over restarts: Telegram repeats what was not confirmed, and svc stores no message twice. */
  #offset = 0

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
        this.#isConnected = true
        this.#context.setHealth('ok')
      } catch (error) {
        if (signal.aborted) return
        this.#isConnected = false
        await this.waitAfter(error, failures++)
      }
    }
  }

  /** Polling and a webhook exclude each other. */
  async #start(): Promise<Bot> {
    const bot = await this.identify()
    await this.#api.deleteWebhook({ drop_pending_updates: false }, this.#signal())
    return bot
  }

  async identify(): Promise<Bot> {
    const me = await this.#api.getMe(this.#signal())
    // Without the list of commands the bot works, too.
    await this.#api.setMyCommands(COMMANDS, {}, this.#signal()).catch(() => undefined)
    return { id: me.id, username: me.username }
  }

  async #poll(bot: Bot): Promise<void> {
    const updates = await this.#getWithAlbums(this.#offset)
    // What was asked for is confirmed by now. Ids may start anew, as those of Telegram do after a week.
    if (updates.length === 0) this.#offset = 0
    if (updates.length === 0) return
    const ids = updates.map(({ update_id }) => update_id).filter((id) => Number.isSafeInteger(id) && id >= 0)
    if (ids.length === 0) throw new PlatformError('unavailable', 'Telegram sends updates without an id')
    await this.store(bot, updates)
    this.#offset = 1 + Math.max(...ids)
    this.#failedDownloads.clear()
  }

  /** Waits for the rest of an album at the end. */
  async #getWithAlbums(offset: number): Promise<Update[]> {
    let updates = await this.#getUpdates(offset, this.#isConnected ? POLL_S : 0)
    for (let waits = 0; waits < ALBUM_MAX && updates.length < UPDATES_MAX; waits++) {
      if (startOfLastAlbum(updates) === undefined) return updates
      await pause(ALBUM_PAUSE_MS, undefined, { signal: this.#context.signal })
      const more = await this.#getUpdates(offset, 0)
      if (more.length <= updates.length) return updates
      updates = more
    }
    const start = startOfLastAlbum(updates) ?? 0
    return updates.length < UPDATES_MAX || start === 0 ? updates : updates.slice(0, start)
  }

  async #getUpdates(offset: number, timeout: number): Promise<Update[]> {
    const updates: unknown = await this.#api.getUpdates(
      { offset, timeout, limit: UPDATES_MAX, allowed_updates: ALLOWED_UPDATES },
      this.#signal(),
    )
    if (!Array.isArray(updates)) throw new PlatformError('unavailable', 'Telegram sends no list of updates')
    return updates.filter((update: Update) => isObject(update))
  }

  /** Each chat in order, and all chats at once. */
  async store(bot: Bot, updates: readonly Update[]): Promise<void> {
    const { account, settings, log } = this.#context
    const events = updates.flatMap((update) => {
      const onUnreadable = (): void => log.warn({ update: update.update_id }, 'an update of Telegram cannot be read')
      const moved = update.message?.migrate_to_chat_id
      if (moved !== undefined)
        log.warn(
          { from: update.message?.chat?.id, to: moved },
          'a group has become a supergroup, which is another chat',
        )
      return readUpdate({ account, bot, areBotsHeard: settings.bots === 'allow', onUnreadable }, update)
    })
    const chats = Map.groupBy(events, ({ event }) => event.chat_jid)
    const stored = await Promise.allSettled([...chats.values()].map((chat) => this.#storeChat(chat)))
    for (const result of stored) if (result.status === 'rejected') throw result.reason
  }

  async #storeChat(events: readonly TelegramEvent[]): Promise<void> {
    for (const { event, files, press } of joinAlbums(events, DOWNLOAD_MAX)) {
      if (files.length === 0) await this.#context.receive(event)
      else await this.#storeWithFiles(event, files)
      // Ends the waiting sign at the button; after a while the platform does so itself.
      if (press !== undefined) await this.#api.answerCallbackQuery(press, {}, this.#signal()).catch(() => undefined)
    }
  }

  #storeWithFiles(event: InboundEvent, files: readonly RemoteFile[]): Promise<EventReceipt> {
    const stored = this.#lastFile.then(async () => this.#context.receive(await this.#withFiles(event, files)))
    this.#lastFile = stored.catch(() => undefined)
    return stored
  }

  async #withFiles(event: InboundEvent, files: readonly RemoteFile[]): Promise<InboundEvent> {
    const attachments: InboundAttachment[] = []
    const missing: string[] = []
    let left = DOWNLOAD_MAX
    for (const file of files) {
      const data = await this.#download(file, left)
      if (data === undefined) missing.push(`[the file ${file.name} is too large to receive, or gone]`)
      else attachments.push({ mime: file.mime, filename: file.name, data })
      left -= data?.length ?? 0
    }
    const content = [event.content, ...missing].filter((text) => text !== undefined).join('\n')
    return { ...event, attachments, content: content === '' ? undefined : content }
  }

  /** Undefined if the platform does not give it. */
  async #download(file: RemoteFile, max: number): Promise<Uint8Array | undefined> {
    const { log, signal } = this.#context
    if ((file.size ?? 0) > max) return undefined
    try {
      return await this.#fetchFile(file.id, max)
    } catch (error) {
      const isOfFile = !(error instanceof GrammyError) || error.error_code >= 500
      if (signal.aborted || !isOfFile) throw error
      const failures = 1 + (this.#failedDownloads.get(file.id) ?? 0)
      if (this.#failedDownloads.size >= FAILED_MAX) this.#failedDownloads.clear()
      this.#failedDownloads.set(file.id, failures)
      // The error may contain the token.
      if (failures < DOWNLOAD_ATTEMPTS) throw new PlatformError('unavailable', 'Telegram does not send a file')
      log.warn({ attempts: failures }, 'a file of Telegram cannot be received')
      return undefined
    }
  }

  async #fetchFile(id: string, max: number): Promise<Uint8Array | undefined> {
    const { secrets, signal } = this.#context
    const file = await this.#api.getFile(id, this.#signal()).catch((error) => {
      if (error instanceof GrammyError && error.error_code === 400) return undefined
      throw error
    })
    if (file?.file_path === undefined) return undefined
    const url = `${apiRootOf(this.#context)}/file/bot${secrets.token}/${file.file_path}`
    const response = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(DOWNLOAD_MS)]) })
    if (response.status === 404) return undefined
    if (!response.ok) throw new Error(`status ${response.status}`)
    const chunks: Uint8Array[] = []
    let size = 0
    for await (const chunk of response.body ?? []) {
      size += chunk.length
      if (size > max) return undefined
      chunks.push(chunk)
    }
    return Buffer.concat(chunks)
  }

  async waitAfter(error: unknown, failures: number): Promise<void> {
    if (!(error instanceof Error) || !isPlatformFault(error)) throw error
    const { setHealth, signal } = this.#context
    const isOfAddress = error instanceof PlatformError && error.kind === 'refused'
    const isRefused = isTokenFault(error) || isOfAddress
    const isShared = error instanceof GrammyError && error.error_code === 409
    if (isRefused) setHealth('refused', isOfAddress ? error.message : 'Telegram does not accept the token')
    else if (isShared) setHealth('refused', 'another program receives the messages of this bot')
    else setHealth('connecting', 'Telegram cannot be reached')
    const limited =
      error instanceof GrammyError ? Math.min(LIMITED_MAX_MS, (Number(error.parameters.retry_after) || 0) * 1000) : 0
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
  return error instanceof GrammyError || error instanceof HttpError || error instanceof PlatformError
}

/** The package declares the signal of another library. */
function toAbortSignal(signal: AbortSignal) {
  return signal as Parameters<Api['getMe']>[0]
}

function createActions(context: ConnectorContext, api: Api, typing: RepeatedTyping): Connector['actions'] {
  const checked = async <T>(call: Promise<T>): Promise<T> => {
    call.catch((error) => {
      if (isTokenFault(error) && error.error_code === 401)
        context.setHealth('refused', 'Telegram does not accept the token')
    })
    return callApi(call)
  }
  const idOf = ({ message_id }: { readonly message_id: number }): string => String(message_id)
  const sendText = async ({ text, buttons, ...out }: OutgoingTextPart): Promise<string> => {
    const options = { ...optionsOf(out), ...keyboardOf(buttons) }
    const rich = await checked(
      api.sendRichMessage(chatIdOf(out), { markdown: text }, options).catch((error) => {
        if (isFormatFault(error)) return undefined
        throw error
      }),
    )
    return idOf(rich ?? (await checked(api.sendMessage(chatIdOf(out), text, options))))
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
            if (error instanceof GrammyError && [400, 413].includes(error.error_code)) return undefined
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
      if (edited === undefined)
        await checked(
          api.editMessageText(chat, id, text).catch((error) => {
            if (!isUnchanged(error)) throw error
          }),
        )
    },
    delete: async (target) => {
      const [chat, id] = [chatIdOf(target), messageIdOf(target.id)]
      await checked(
        api.deleteMessage(chat, id).catch((error) => {
          if (!isGone(error)) throw error
        }),
      )
    },
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

/** Deleted by an earlier attempt, or by a person. */
function isGone(error: unknown): boolean {
  return error instanceof GrammyError && /message to delete not found/i.test(error.description)
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

/** An edit without a keyboard removes it. */
function keyboardOf(buttons: OutgoingTextPart['buttons']): { reply_markup?: InlineKeyboardMarkup } {
  if (!buttons) return {}
  const row = buttons.map(({ id, label, style }) => ({ text: label, callback_data: id, ...(style ? { style } : {}) }))
  return { reply_markup: { inline_keyboard: [row] } }
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
