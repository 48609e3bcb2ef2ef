// Turns updates of the Bot API into events for svc.
import type { Chat, Message, MessageEntity, ReactionType, Update, User } from 'grammy/types'
import type { InboundEvent } from '../process/port.ts'

export interface Bot {
  readonly id: number
  readonly username: string
}

export interface EventContext {
  readonly account: string
  readonly bot: Bot
  /** Whether messages of other bots count. */
  readonly areBotsHeard: boolean
  /** Called with what is wrong with an update that cannot be read. */
  onUnreadable?(error: unknown): void
}

/** A file that is still at the platform. */
export interface RemoteFile {
  readonly id: string
  readonly mime: string | undefined
  readonly name: string
  readonly size: number | undefined
}

export interface TelegramEvent {
  readonly event: InboundEvent
  readonly files: readonly RemoteFile[]
  /** Messages of one album have the same. */
  readonly album?: string | undefined
  /** Id of the press of a button, which the platform wants an answer to. */
  readonly press?: string | undefined
}

export const ALLOWED_UPDATES = [
  'message',
  'edited_message',
  'channel_post',
  'edited_channel_post',
  'message_reaction',
  'callback_query',
] as const

/** An update may be several events, or none. Never throws: an update that cannot be read would block the bot for ever. */
export function readUpdate(context: EventContext, update: Update): TelegramEvent[] {
  try {
    return readKnownUpdate(context, update).filter(isEvent)
  } catch (error) {
    context.onUnreadable?.(error)
    return []
  }
}

function readKnownUpdate(context: EventContext, update: Update): TelegramEvent[] {
  const message = update.message ?? update.channel_post
  if (message) return readMessage(context, message)
  const edited = update.edited_message ?? update.edited_channel_post
  if (edited) return readEdit(context, edited, update.update_id)
  if (update.callback_query) return readPress(context, update.callback_query)
  if (update.message_reaction) return readReaction(context, update.message_reaction, update.update_id)
  return []
}

/** Members of foreign JSON may have any type. */
function isEvent({ event, files, album, press }: TelegramEvent): boolean {
  const { timestamp, is_group, reaction_removed, attachments, is_from_me, ...texts } = event
  return (
    /^[^:]+:(?:user|group)\/-?\d{1,16}$/.test(event.chat_jid) &&
    /^(?:edit-|reaction-|press-)?\d{1,32}(?:-\d+)?$/.test(event.id ?? '') &&
    Number.isSafeInteger(timestamp) &&
    [...Object.values(texts), album, press].every((text) => text === undefined || typeof text === 'string') &&
    files.every(({ id, mime, name, size }) =>
      [
        typeof id === 'string' && typeof name === 'string',
        mime === undefined || typeof mime === 'string',
        size === undefined || typeof size === 'number',
      ].every(Boolean),
    )
  )
}

export function chatJid(account: string, chat: Pick<Chat, 'id' | 'type'>): string {
  return `${account}:${chat.type === 'private' ? 'user' : 'group'}/${chat.id}`
}

function readMessage(context: EventContext, message: Message): TelegramEvent[] {
  const { bot, account } = context
  const author = authorOf(message, bot)
  if (!author || author.isSelf || (author.isBot && !context.areBotsHeard)) return []
  const content = contentOf(message, bot)
  const files = filesOf(message)
  if (content === '' && files.length === 0) return []
  const isGroup = message.chat.type !== 'private'
  const replied = repliedOf(message)
  return [
    {
      album: message.media_group_id,
      files,
      event: {
        chat_jid: chatJid(account, message.chat),
        id: String(message.message_id),
        content: content === '' ? undefined : content,
        sender: author.jid,
        sender_name: author.name,
        timestamp: message.date,
        topic: topicOf(message),
        is_group: isGroup,
        chat_name: isGroup ? nameOfChat(message.chat) : undefined,
        verb: isGroup && isForBot(message, bot) ? 'mention' : undefined,
        forwarded_from: forwardedFrom(message),
        ...(replied
          ? {
              reply_to: String(replied.message_id),
              reply_to_text: contentOf(replied, bot) || undefined,
              reply_to_sender: authorOf(replied, bot)?.name,
            }
          : {}),
      },
    },
  ]
}

/** Telegram also sends an edit when a link preview or a button changes; svc ignores one with the same text. */
function readEdit(context: EventContext, message: Message, updateId: number): TelegramEvent[] {
  const author = authorOf(message, context.bot)
  const content = contentOf(message, context.bot)
  if (!author || author.isSelf || (author.isBot && !context.areBotsHeard) || content === '') return []
  return [
    {
      files: [],
      event: {
        chat_jid: chatJid(context.account, message.chat),
        id: `edit-${updateId}`,
        edits: String(message.message_id),
        content,
        sender: author.jid,
        sender_name: author.name,
        timestamp: message.edit_date ?? message.date,
      },
    },
  ]
}

function readPress(
  { account, bot, areBotsHeard }: EventContext,
  { id, from, message, data }: NonNullable<Update['callback_query']>,
): TelegramEvent[] {
  if (!message || data === undefined || from.id === bot.id || (from.is_bot && !areBotsHeard)) return []
  return [
    {
      files: [],
      press: id,
      event: {
        chat_jid: chatJid(account, message.chat),
        id: `press-${id}`,
        verb: 'action',
        action: data,
        reply_to: String(message.message_id),
        sender: userJid(from),
        sender_name: nameOfUser(from),
        timestamp: message.date,
        is_group: message.chat.type !== 'private',
      },
    },
  ]
}

function readReaction(
  { account, bot, areBotsHeard }: EventContext,
  { chat, message_id, user, actor_chat, date, old_reaction, new_reaction }: NonNullable<Update['message_reaction']>,
  updateId: number,
): TelegramEvent[] {
  if (user?.id === bot.id || (user?.is_bot && !areBotsHeard)) return []
  const [before, after] = [old_reaction.map(nameOfReaction), new_reaction.map(nameOfReaction)]
  const changed = [
    ...after.filter((each) => !before.includes(each)).map((reaction) => ({ reaction })),
    ...before.filter((each) => !after.includes(each)).map((reaction) => ({ reaction, reaction_removed: true })),
  ]
  return changed.map((each, at) => ({
    files: [],
    event: {
      chat_jid: chatJid(account, chat),
      id: `reaction-${updateId}-${at}`,
      reply_to: String(message_id),
      sender: user ? userJid(user) : actor_chat && `telegram:chat/${actor_chat.id}`,
      sender_name: user ? nameOfUser(user) : actor_chat && nameOfChat(actor_chat),
      timestamp: date,
      is_group: chat.type !== 'private',
      ...each,
    },
  }))
}

interface Author {
  readonly jid: string
  readonly name: string
  readonly isBot: boolean
  readonly isSelf: boolean
}

/** Channels and anonymous administrators write as a chat. */
function authorOf({ from, sender_chat }: Message, bot: Bot): Author | undefined {
  if (sender_chat)
    return { jid: `telegram:chat/${sender_chat.id}`, name: nameOfChat(sender_chat), isBot: false, isSelf: false }
  return from && { jid: userJid(from), name: nameOfUser(from), isBot: from.is_bot, isSelf: from.id === bot.id }
}

function userJid({ id }: User): string {
  return `telegram:user/${id}`
}

function nameOfUser({ first_name, last_name = '' }: User): string {
  return `${first_name} ${last_name}`.trim().slice(0, 256)
}

function nameOfChat(chat: Chat): string {
  const name = chat.title ?? [chat.first_name ?? '', chat.last_name ?? ''].join(' ').trim()
  return (name || String(chat.id)).slice(0, 256)
}

/** A message in a forum topic replies to the one that opened the topic. */
function repliedOf({ reply_to_message: replied }: Message): Message | undefined {
  return replied && !replied.forum_topic_created ? replied : undefined
}

function topicOf({ is_topic_message, message_thread_id: thread }: Message): string | undefined {
  return is_topic_message && thread !== undefined ? String(thread) : undefined
}

/** What people see, as text: svc shows it to the agent. */
function contentOf(message: Message, bot: Bot): string {
  const { text, caption, sticker, poll, location, venue, contact, dice, new_chat_members: joined } = message
  const written = text ?? caption
  if (written !== undefined) return withoutBotSuffix(written, bot)
  if (message.rich_message !== undefined) return '[a message with a format that this adapter cannot read]'
  if (sticker) return `[sticker ${sticker.emoji ?? ''}]`.replace(' ]', ']')
  if (poll) return [`[poll] ${poll.question}`, ...poll.options.map((option) => `- ${option.text}`)].join('\n')
  if (venue) return `[place] ${venue.title}, ${venue.address} (${venue.location.latitude}, ${venue.location.longitude})`
  if (location) return `[location] ${location.latitude}, ${location.longitude}`
  if (contact)
    return `[contact] ${contact.first_name} ${contact.last_name ?? ''} ${contact.phone_number}`.replace('  ', ' ')
  if (dice) return `[${dice.emoji} ${dice.value}]`
  if (joined) return joined.some(({ id }) => id === bot.id) ? '' : `${joined.map(nameOfUser).join(', ')} joined`
  return ''
}

/** `/new@the_bot` in groups is the command `/new`. */
function withoutBotSuffix(text: string, { username }: Bot): string {
  const [command = ''] = /^\/[a-z0-9_]{1,32}@[A-Za-z0-9_]{1,32}/.exec(text) ?? []
  const at = command.indexOf('@')
  return at > 0 && command.slice(at + 1).toLowerCase() === username.toLowerCase()
    ? text.slice(0, at) + text.slice(command.length)
    : text
}

/** Mentioned, addressed by a command, or replied to. */
function isForBot(message: Message, { id, username }: Bot): boolean {
  const entities = message.entities ?? message.caption_entities ?? []
  const text = message.text ?? message.caption ?? ''
  const named = (entity: MessageEntity): boolean => {
    const shown = text.slice(entity.offset, entity.offset + entity.length).toLowerCase()
    if (entity.type === 'text_mention') return entity.user.id === id
    if (entity.type === 'mention') return shown === `@${username.toLowerCase()}`
    return entity.type === 'bot_command' && shown.endsWith(`@${username.toLowerCase()}`)
  }
  return entities.some(named) || repliedOf(message)?.from?.id === id
}

function forwardedFrom({ forward_origin: origin }: Message): string | undefined {
  switch (origin?.type) {
    case 'user':
      return nameOfUser(origin.sender_user)
    case 'hidden_user':
      return origin.sender_user_name.slice(0, 256)
    case 'chat':
      return nameOfChat(origin.sender_chat)
    case 'channel':
      return nameOfChat(origin.chat)
    default:
      return undefined
  }
}

function nameOfReaction(reaction: ReactionType): string {
  if (reaction.type === 'emoji') return reaction.emoji
  return reaction.type === 'custom_emoji' ? 'custom' : 'star'
}

/** A sticker is shown by its emoji. */
function filesOf(message: Message): RemoteFile[] {
  const { photo, document, audio, voice, video, video_note, animation, message_id: id } = message
  const largest = photo?.at(-1)
  const found: (RemoteFile | undefined)[] = [
    largest && { id: largest.file_id, mime: 'image/jpeg', name: `photo-${id}.jpg`, size: largest.file_size },
    // An animation comes as a document, too.
    animation ? undefined : remoteFile(document, `file-${id}`),
    remoteFile(animation, `animation-${id}.mp4`),
    remoteFile(audio, `audio-${id}.mp3`),
    remoteFile(voice && { ...voice, mime_type: voice.mime_type ?? 'audio/ogg' }, `voice-${id}.ogg`),
    remoteFile(video, `video-${id}.mp4`),
    remoteFile(video_note && { ...video_note, mime_type: 'video/mp4' }, `video-${id}.mp4`),
  ]
  return found.filter((file) => file !== undefined)
}

interface TelegramFile {
  readonly file_id: string
  readonly mime_type?: string
  readonly file_name?: string
  readonly file_size?: number
}

function remoteFile(file: TelegramFile | undefined, name: string): RemoteFile | undefined {
  return (
    file && {
      id: file.file_id,
      mime: file.mime_type,
      name: file.file_name?.slice(0, 256) ?? name,
      size: file.file_size,
    }
  )
}

/** Messages of one album become one event, in the order of their files. */
export function joinAlbums(events: readonly TelegramEvent[], maxBytes: number): TelegramEvent[] {
  const joined: TelegramEvent[] = []
  for (const each of events) {
    const last = joined.at(-1)
    const isSame =
      last !== undefined &&
      each.album !== undefined &&
      each.album === last.album &&
      each.event.chat_jid === last.event.chat_jid &&
      sizeOf([...last.files, ...each.files]) <= maxBytes
    if (!isSame) joined.push(each)
    else
      joined[joined.length - 1] = {
        ...last,
        files: [...last.files, ...each.files],
        event: { ...last.event, content: last.event.content ?? each.event.content },
      }
  }
  return joined
}

/** Where the first album starts that may go on after these updates. */
export function startOfLastAlbum(updates: readonly Update[]): number | undefined {
  const albums = updates.map((update) => {
    const message = update?.message ?? update?.channel_post
    return { chat: message?.chat?.id, album: message?.media_group_id }
  })
  const last = new Map(albums.map(({ chat, album }) => [chat, album]))
  const open = new Set([...last.values()].filter((album) => album !== undefined))
  const start = albums.findIndex(({ album }) => album !== undefined && open.has(album))
  return start < 0 ? undefined : start
}

function sizeOf(files: readonly RemoteFile[]): number {
  return files.reduce((sum, { size = 0 }) => sum + size, 0)
}
