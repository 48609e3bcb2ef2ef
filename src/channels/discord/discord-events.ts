// Turns events of Discord's gateway into events for svc. Any member may have any type: what cannot be read is no event.
import type { InboundEvent } from '../process/port.ts'
import type { DiscordPlace } from './channel-directory.ts'
import { type MentionNames, readableText, withoutLeadingMention } from './incoming-text.ts'
import { contentIn, idOf, numberOf, type Payload, payloadOf, payloadsOf, shortText } from './payload.ts'
import { timeOfSnowflake } from './snowflake.ts'

export interface DiscordBot {
  readonly id: string
  readonly name: string
}

export interface DispatchReading {
  readonly bot: DiscordBot
  /** Whether messages of other bots count. */
  readonly areBotsHeard: boolean
  readonly place: DiscordPlace
  /** The role that Discord made for the bot. */
  readonly ownRole?: string | undefined
  /** Of roles and channels that the text names. */
  readonly names: Pick<MentionNames, 'role' | 'channel'>
}

export interface Dispatch {
  readonly type: string
  readonly data: Payload
  /** The same when the gateway sends the event again. */
  readonly key: string
}

/** A file that is still at the platform. */
export interface DiscordFile {
  readonly url: string
  readonly name: string
  readonly mime?: string | undefined
  readonly size?: number | undefined
}

export interface DiscordEvent {
  readonly event: InboundEvent
  readonly files: readonly DiscordFile[]
}

const FORWARD = 1
const [JOIN, DEFAULT, REPLY, COMMAND, CONTEXT_COMMAND] = [7, 0, 19, 20, 23]
const SHOWN_TYPES: readonly unknown[] = [JOIN, DEFAULT, REPLY, COMMAND, CONTEXT_COMMAND]
const [COMMAND_INTERACTION, BUTTON_INTERACTION] = [2, 3]
const BUTTON_ID = /^[A-Za-z0-9_-]{1,40}$/
const COMMAND_NAME = /^[a-z]{1,32}$/

export const READ_DISPATCHES = [
  'MESSAGE_CREATE',
  'MESSAGE_UPDATE',
  'MESSAGE_DELETE',
  'MESSAGE_DELETE_BULK',
  'MESSAGE_REACTION_ADD',
  'MESSAGE_REACTION_REMOVE',
  'INTERACTION_CREATE',
]

export function readDispatch(context: DispatchReading, { type, data, key }: Dispatch): DiscordEvent[] {
  switch (type) {
    case 'MESSAGE_CREATE':
      return readMessage(context, data)
    case 'MESSAGE_UPDATE':
      return readEdit(context, data)
    case 'MESSAGE_DELETE':
      return readDeletion(context, data.id)
    case 'MESSAGE_DELETE_BULK':
      return (Array.isArray(data.ids) ? data.ids : []).flatMap((id) => readDeletion(context, id))
    case 'MESSAGE_REACTION_ADD':
    case 'MESSAGE_REACTION_REMOVE':
      return readReaction(context, data, key, type === 'MESSAGE_REACTION_REMOVE')
    case 'INTERACTION_CREATE':
      return readInteraction(context, data)
    default:
      return []
  }
}

function readMessage(context: DispatchReading, message: Payload): DiscordEvent[] {
  const { place, bot } = context
  const id = idOf(message.id)
  const author = authorOf(context, message)
  if (id === undefined || !author || !SHOWN_TYPES.includes(message.type ?? DEFAULT)) return []
  const forwarded = forwardedIn(message)
  const shown = forwarded ?? message
  const content = message.type === JOIN ? `${author.name} joined` : messageText(context, shown)
  const files = filesOf(shown)
  if (content === '' && files.length === 0) return []
  return [
    {
      files,
      event: {
        ...inPlace(place),
        id,
        content: content === '' ? undefined : content,
        sender: author.jid,
        sender_name: author.name,
        timestamp: secondsOf(id),
        verb: place.isGroup && isForBot(context, message) ? 'mention' : undefined,
        forwarded_from: forwarded && originOf(context, message),
        ...(forwarded ? {} : repliedIn(context, message)),
      },
    },
  ].filter(() => author.id !== bot.id)
}

/** Discord sends an update also when a preview or a pin changes: then the text was not edited, or not since. */
function readEdit(context: DispatchReading, message: Payload): DiscordEvent[] {
  const id = idOf(message.id)
  const author = authorOf(context, message)
  const edited = typeof message.edited_timestamp === 'string' ? Date.parse(message.edited_timestamp) : Number.NaN
  const content = messageText(context, message)
  if (id === undefined || !author || author.id === context.bot.id || Number.isNaN(edited) || content === '') return []
  return [
    {
      files: [],
      event: {
        ...inPlace(context.place),
        id: `edit-${id}-${edited}`,
        edits: id,
        content,
        sender: author.jid,
        sender_name: author.name,
        timestamp: Math.floor(edited / 1000),
      },
    },
  ]
}

function readDeletion({ place }: DispatchReading, given: unknown): DiscordEvent[] {
  const id = idOf(given)
  return id === undefined ? [] : [{ files: [], event: { ...inPlace(place), id: `delete-${id}`, deletes: id } }]
}

function readReaction(context: DispatchReading, data: Payload, key: string, isRemoved: boolean): DiscordEvent[] {
  const { bot, areBotsHeard, place } = context
  const [message, user] = [idOf(data.message_id), idOf(data.user_id)]
  const member = payloadOf(data.member)
  const emoji = payloadOf(data.emoji)
  const name = shortText(emoji.name)
  const isBot = payloadOf(member.user).bot === true
  if (message === undefined || user === undefined || name === undefined || user === bot.id) return []
  if (isBot && !areBotsHeard) return []
  return [
    {
      files: [],
      event: {
        ...inPlace(place),
        id: `reaction-${message}-${user}-${key}`,
        reply_to: message,
        reaction: idOf(emoji.id) === undefined ? name : `:${name}:`,
        reaction_removed: isRemoved || undefined,
        sender: userJid(user),
        sender_name: memberName(member, payloadOf(member.user)),
      },
    },
  ]
}

function readInteraction(context: DispatchReading, interaction: Payload): DiscordEvent[] {
  const id = idOf(interaction.id)
  const member = payloadOf(interaction.member)
  const person = payloadOf(member.user ?? interaction.user)
  const user = idOf(person.id)
  const done = doneBy(interaction)
  if (id === undefined || user === undefined || !done) return []
  return [
    {
      files: [],
      event: {
        ...inPlace(context.place),
        id,
        sender: userJid(user),
        sender_name: memberName(member, person),
        timestamp: secondsOf(id),
        verb: context.place.isGroup ? 'mention' : undefined,
        ...done,
      },
    },
  ]
}

/** What a slash command or a button says. */
function doneBy(interaction: Payload): Partial<InboundEvent> | undefined {
  const data = payloadOf(interaction.data)
  if (interaction.type === COMMAND_INTERACTION && data.type === 1) {
    const text = payloadsOf(data.options)
      .map(({ value }) => contentIn(value))
      .join(' ')
    const name = contentIn(data.name)
    return COMMAND_NAME.test(name) ? { content: `/${name} ${text}`.trim() } : undefined
  }
  const message = idOf(payloadOf(interaction.message).id)
  const button = contentIn(data.custom_id)
  if (interaction.type !== BUTTON_INTERACTION || message === undefined || !BUTTON_ID.test(button)) return undefined
  return { verb: 'action', action: button, reply_to: message }
}

/** Undefined for those whose messages do not count. */
function authorOf({ bot, areBotsHeard }: DispatchReading, message: Payload) {
  const author = payloadOf(message.author)
  const id = idOf(author.id)
  if (id === undefined) return undefined
  const isBot = author.bot === true || message.webhook_id !== undefined
  if (isBot && !areBotsHeard && id !== bot.id) return undefined
  return { id, jid: userJid(id), name: memberName(payloadOf(message.member), author) ?? id }
}

export function userJid(id: string): string {
  return `discord:user/${id}`
}

/** As people see it in the server, or anywhere. */
export function memberName(member: Payload, user: Payload): string | undefined {
  return shortText(member.nick) ?? shortText(user.global_name) ?? shortText(user.username)
}

function inPlace({ jid, topic, name, isGroup }: DiscordPlace) {
  return { chat_jid: jid, topic, chat_name: name, is_group: isGroup }
}

export function secondsOf(id: string): number {
  return Math.floor(timeOfSnowflake(id) / 1000)
}

/** Mentioned, also by the role of the bot, or replied to. */
function isForBot({ bot, ownRole }: DispatchReading, message: Payload): boolean {
  const roles: readonly unknown[] = Array.isArray(message.mention_roles) ? message.mention_roles : []
  return (
    payloadsOf(message.mentions).some(({ id }) => id === bot.id) ||
    (ownRole !== undefined && roles.includes(ownRole)) ||
    (message.type === REPLY && payloadOf(payloadOf(message.referenced_message).author).id === bot.id)
  )
}

function repliedIn(context: DispatchReading, message: Payload): Partial<InboundEvent> {
  const id = message.type === REPLY ? idOf(payloadOf(message.message_reference).message_id) : undefined
  if (id === undefined) return {}
  const replied = payloadOf(message.referenced_message)
  return {
    reply_to: id,
    reply_to_text: messageText(context, replied) || undefined,
    reply_to_sender: memberName({}, payloadOf(replied.author)),
  }
}

/** The copy of the message that a forwarded one shows. */
function forwardedIn(message: Payload): Payload | undefined {
  if (payloadOf(message.message_reference).type !== FORWARD) return undefined
  const [snapshot] = payloadsOf(message.message_snapshots)
  return snapshot && payloadOf(snapshot.message)
}

/** Discord does not tell who wrote it. */
function originOf({ names }: DispatchReading, message: Payload): string {
  const channel = idOf(payloadOf(message.message_reference).channel_id)
  const name = channel === undefined ? undefined : names.channel(channel)
  return name === undefined ? 'another chat' : `#${name}`
}

/** What people see, as text. */
export function messageText(context: Pick<DispatchReading, 'bot' | 'names'>, message: Payload): string {
  const { bot, names } = context
  const users = new Map(payloadsOf(message.mentions).map((user) => [user.id, memberName(payloadOf(user.member), user)]))
  const user = (id: string): string | undefined => (id === bot.id ? bot.name : users.get(id))
  const written = readableText(withoutLeadingMention(contentIn(message.content), bot.id), { ...names, user })
  const poll = payloadOf(message.poll)
  const lines = [
    written,
    ...payloadsOf(message.sticker_items).map(({ name }) => `[sticker ${shortText(name) ?? ''}]`),
    ...(message.poll === undefined || message.poll === null ? [] : pollLines(poll)),
  ].filter((line) => line !== '')
  // Previews of links are embeds, too.
  return (lines.length === 0 ? payloadsOf(message.embeds).map(embedText) : lines)
    .filter((line) => line !== '')
    .join('\n')
}

function pollLines(poll: Payload): string[] {
  const question = contentIn(payloadOf(poll.question).text)
  const answers = payloadsOf(poll.answers).map(({ poll_media }) => `- ${contentIn(payloadOf(poll_media).text)}`)
  return [`[poll] ${question}`, ...answers]
}

function embedText({ title, description }: Payload): string {
  return [contentIn(title), contentIn(description)].filter((text) => text !== '').join('\n')
}

function filesOf(message: Payload): DiscordFile[] {
  return payloadsOf(message.attachments).flatMap(({ id, url, filename, content_type, size }) =>
    typeof url === 'string'
      ? [
          {
            url,
            name: shortText(filename) ?? `file-${String(id)}`,
            // Without parameters such as the character set.
            mime: shortText(contentIn(content_type).split(';', 1)[0]),
            size: numberOf(size),
          },
        ]
      : [],
  )
}
