// What svc asks for at Discord, each by one call, but unpinning all and long histories.
import { readFile } from 'node:fs/promises'
import {
  type Button,
  type Connector,
  type ConnectorActions,
  type ConnectorContext,
  type OutgoingFilePart,
  type OutgoingPart,
  type Place,
  PlatformError,
  type PlatformHistoryMessage,
  type TargetMessage,
} from '../process/port.ts'
import { RepeatedTyping } from '../process/typing-indicators.ts'
import type { ChannelDirectory } from './channel-directory.ts'
import { type DiscordApi, DiscordError, type DiscordRequest } from './discord-api.ts'
import { type DiscordBot, memberName, messageText, secondsOf, userJid } from './discord-events.ts'
import { rememberThread, threadOf } from './message-threads.ts'
import { readOpusFile } from './opus-file.ts'
import { toDiscordMarkdown } from './outgoing-markdown.ts'
import { idOf, type Payload, payloadOf, payloadsOf } from './payload.ts'
import { isSnowflake, snowflakeAt } from './snowflake.ts'

/** Discord shows it for ten seconds. */
const TYPING_EVERY_MS = 9000
const NONCE_MAX = 25
/** Discord knows a nonce for "a few minutes". */
const NONCE_MS = 2 * 60_000
const [UNKNOWN_MESSAGE, UNKNOWN_EMOJI] = [10008, 10014]
const VOICE_MESSAGE = 1 << 13
const FORWARD = 1
const [ROW, BUTTON] = [1, 2]
const ROW_MAX = 5
const BUTTON_STYLES = { primary: 1, danger: 4, other: 2 } as const
const PAGE = 100
const PINS_MAX = 250

export interface MessageActionsOptions {
  readonly context: ConnectorContext
  readonly api: DiscordApi
  /** Known once Discord has been reached. */
  readonly started: () => { readonly bot: DiscordBot; readonly directory: ChannelDirectory } | undefined
}

export class MessageActions {
  readonly #options: MessageActionsOptions
  readonly #typing: RepeatedTyping

  constructor(options: MessageActionsOptions) {
    this.#options = options
    const { now, guard } = options.context
    const show = (place: Place): Promise<unknown> => this.#call('POST', `${this.#channelPath(place)}/typing`)
    this.#typing = new RepeatedTyping({ everyMs: TYPING_EVERY_MS, now, guard, show })
  }

  /** A message is never sent again when Discord may have forgotten its nonce. */
  readonly repeats: Exclude<Connector['repeats'], 'safe'> = async (_, { beganAt }) => {
    const age = this.#options.context.now() - beganAt
    if (age >= 0 && age < NONCE_MS) return undefined
    throw new PlatformError('refused', 'an earlier attempt ended without an answer of Discord: it may have been sent')
  }

  readonly actions: Partial<ConnectorActions> = {
    sendText: ({ text, buttons, ...out }) =>
      this.#send(out, { content: toDiscordMarkdown(text), ...(buttons ? { components: rowsOf(buttons) } : {}) }),
    sendFile: (out) => this.#sendFile(out),
    sendVoice: async (out) => {
      const voice = out.caption === undefined ? readOpusFile(await readFile(out.path)) : undefined
      // A voice message has no text.
      return this.#sendFile(out, voice && { duration_secs: voice.seconds, waveform: voice.waveform })
    },
    forward: ({ source, ...out }) =>
      this.#send(out, {
        message_reference: { type: FORWARD, channel_id: this.#channelOf(source, source.id), message_id: idIn(source) },
      }),
    quote: ({ source, text, ...out }) =>
      this.#send({ ...out, replyTo: source.id }, { content: toDiscordMarkdown(text) }),
    like: (target) => this.#react(target, target.reaction === '' ? '👍' : target.reaction),
    dislike: (target) => this.#react(target, '👎'),
    edit: async ({ text, ...target }) => {
      const body = { content: toDiscordMarkdown(text), components: [], allowed_mentions: { parse: [] } }
      await this.#call('PATCH', this.#messagePath(target), body)
    },
    delete: (target) => this.#call('DELETE', this.#messagePath(target)).then(nothing, ignoreUnknownMessage),
    pin: (target) => this.#call('PUT', this.#pinPath(target)).then(nothing),
    unpin: (target) => this.#call('DELETE', this.#pinPath(target)).then(nothing, ignoreUnknownMessage),
    unpinAll: (place) => this.#unpinAll(place),
    history: (query) => this.#history(query),
    typing: ({ on, ...place }) => this.#typing.set(place, on),
  }

  close(): void {
    this.#typing.close()
  }

  async #send(out: OutgoingPart, body: object, more: Pick<DiscordRequest, 'files'> = {}): Promise<string> {
    const { api, context } = this.#options
    const { replyTo, nonce } = out
    const channel = this.#channelOf(out, replyTo)
    const sent = await api.request({
      method: 'POST',
      path: `/channels/${channel}/messages`,
      body: {
        allowed_mentions: { parse: [], replied_user: false },
        nonce: nonce.slice(0, NONCE_MAX),
        enforce_nonce: true,
        // The message may have been deleted since.
        ...(isSnowflake(replyTo) ? { message_reference: { message_id: replyTo, fail_if_not_exists: false } } : {}),
        ...body,
      },
      ...more,
    })
    const id = idOf(payloadOf(sent).id)
    if (id === undefined) throw new PlatformError('unclear', 'Discord sends no id of the message')
    rememberThread(context.state, id, channel === chatChannel(out) ? undefined : channel)
    return id
  }

  async #sendFile({ path, filename, mime, caption, ...out }: OutgoingFilePart, voice?: object): Promise<string> {
    const name = filename.replace(/["\\\p{Cc}]/gu, '_')
    const file = { name, data: await readFile(path), ...(mime === undefined ? {} : { contentType: mime }) }
    const body = {
      attachments: [{ id: 0, filename: name, ...voice }],
      ...(voice ? { flags: VOICE_MESSAGE } : {}),
      ...(caption === undefined ? {} : { content: toDiscordMarkdown(caption) }),
    }
    return this.#send(out, body, { files: [file] })
  }

  /** Emoji of a server are given as `name:id`. */
  async #react(target: TargetMessage, reaction: string): Promise<void> {
    const path = `${this.#messagePath(target)}/reactions/${encodeURIComponent(reaction)}/@me` as const
    await this.#call('PUT', path).catch((error) => {
      if (error instanceof DiscordError && error.code === UNKNOWN_EMOJI)
        throw new PlatformError('refused', 'Discord takes only emoji as reactions, or name:id for one of the server')
      throw error
    })
  }

  async #unpinAll(place: Place): Promise<void> {
    const path = `${this.#channelPath(place)}/messages/pins` as const
    for (let unpinned = 0; unpinned < PINS_MAX; ) {
      const { items } = payloadOf(await this.#call('GET', path))
      const ids = payloadsOf(items).flatMap(({ message }) => idOf(payloadOf(message).id) ?? [])
      if (ids.length === 0) return
      for (const id of ids) await this.#call('DELETE', `${path}/${id}`).catch(ignoreUnknownMessage)
      unpinned += ids.length
    }
  }

  /** The latest, oldest first. */
  async #history({
    limit,
    before,
    ...place
  }: Place & { readonly limit: number; readonly before?: string | undefined }) {
    const found: Payload[] = []
    let last = before === undefined ? undefined : snowflakeOf(before)
    while (found.length < limit) {
      const count = Math.min(PAGE, limit - found.length)
      const query = { limit: String(count), ...(last === undefined ? {} : { before: last }) }
      const { api } = this.#options
      const page = payloadsOf(
        await api.request({ method: 'GET', path: `${this.#channelPath(place)}/messages`, query }),
      ).filter(({ id }) => isSnowflake(id))
      found.push(...page)
      last = idOf(page.at(-1)?.id)
      if (page.length < count) break
    }
    const { threadId } = place
    const messages = found.flatMap((message) => this.#historyMessage(message, threadId))
    return { messages: messages.reverse() }
  }

  #historyMessage(message: Payload, topic: string | undefined): PlatformHistoryMessage[] {
    const author = payloadOf(message.author)
    const [id, user] = [idOf(message.id), idOf(author.id)]
    const bot = this.#options.started()?.bot ?? { id: '', name: '' }
    if (id === undefined || user === undefined) return []
    const files = payloadsOf(message.attachments).map(({ filename }) => `[file ${String(filename)}]`)
    const names = { role: () => undefined, channel: () => undefined }
    const content = [messageText({ bot, names }, message), ...files].filter((text) => text !== '').join('\n')
    return [
      {
        id,
        content,
        sender: userJid(user),
        sender_name: memberName({}, author),
        timestamp: secondsOf(id),
        topic,
        reply_to: idOf(payloadOf(message.message_reference).message_id),
        is_from_me: user === bot.id || undefined,
      },
    ]
  }

  #call(method: DiscordRequest['method'], path: DiscordRequest['path'], body?: object): Promise<unknown> {
    return this.#options.api.request({ method, path, body })
  }

  #channelOf(place: Place, message?: string): string {
    const channel = chatChannel(place)
    const thread = threadOf(this.#options.context.state, place, message)
    return isSnowflake(thread) ? thread : channel
  }

  #channelPath(place: Place): `/channels/${string}` {
    return `/channels/${this.#channelOf(place)}`
  }

  #messagePath(target: TargetMessage): `/channels/${string}` {
    return `/channels/${this.#channelOf(target, target.id)}/messages/${idIn(target)}`
  }

  #pinPath(target: TargetMessage): `/channels/${string}` {
    return `/channels/${this.#channelOf(target, target.id)}/messages/pins/${idIn(target)}`
  }
}

function nothing(): void {
  // Discord's answer is empty.
}

/** Deleted by an earlier attempt, or by a person. */
function ignoreUnknownMessage(error: unknown): void {
  if (!(error instanceof DiscordError && error.code === UNKNOWN_MESSAGE)) throw error
}

function chatChannel({ chat }: Place): string {
  const [, channel] = /^(?:\d{15,20}|dm)\/(\d{15,20})$/.exec(chat) ?? []
  if (channel === undefined)
    throw new PlatformError(
      'refused',
      `${chat} is no chat of Discord: it must look like <server>/<channel> or dm/<channel>`,
    )
  return channel
}

function idIn({ id }: TargetMessage): string {
  if (!isSnowflake(id)) throw new PlatformError('refused', `${id} is no message of Discord`)
  return id
}

function snowflakeOf(time: string): string {
  const ms = Date.parse(time)
  if (Number.isNaN(ms)) throw new PlatformError('refused', `before must be a time such as 2026-01-31T12:00:00Z`)
  return snowflakeAt(ms)
}

function rowsOf(buttons: readonly Button[]): object[] {
  const shown = buttons.map(({ id, label, style = 'other' as const }) => ({
    type: BUTTON,
    style: BUTTON_STYLES[style],
    label,
    custom_id: id,
  }))
  const rows: object[] = []
  for (let at = 0; at < shown.length; at += ROW_MAX) rows.push({ type: ROW, components: shown.slice(at, at + ROW_MAX) })
  return rows
}
