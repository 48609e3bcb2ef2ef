// Turns what Slack delivers into events for svc. Texts are still in Slack's markup, and people have ids: names are looked up later.
import type { InboundEvent } from '../process/port.ts'
import { objectOf, objectsOf, type SlackResult, textOf } from './slack-api.ts'
import { emojiOf } from './slack-emoji.ts'

/** The account, as `auth.test` names it. */
export interface SlackBot {
  readonly team: string
  readonly user: string
  readonly bot: string | undefined
  readonly name: string
}

export interface SlackContext {
  readonly bot: SlackBot
  /** Whether messages of other bots count. */
  readonly areBotsHeard: boolean
}

export type ChatKind = 'channel' | 'dm' | 'group'

/** A file that is still at Slack. */
export interface SlackFile {
  readonly id: string
  readonly name: string
  readonly mime: string | undefined
  readonly size: number | undefined
  /** Absent: Slack tells it only when asked, or not at all. */
  readonly url: string | undefined
}

export interface SlackEvent {
  readonly channel: string
  /** Undefined if Slack does not say it here. */
  readonly kind: ChatKind | undefined
  /** The same for every delivery. */
  readonly key: string
  readonly user: string | undefined
  /** In Slack's markup. */
  readonly markup: string | undefined
  readonly files: readonly SlackFile[]
  /** Where in its conversation: only of new messages. */
  readonly position?: { readonly thread: string | undefined; readonly ts: string } | undefined
  /** The thread of an assistant pane that was opened: remembered, and no event for svc. */
  readonly pane?: string | undefined
  readonly event: Omit<InboundEvent, 'chat_jid' | 'content' | 'sender' | 'attachments'>
}

const CHANNEL = /^[CDG][A-Z0-9]{2,30}$/
const USER = /^[A-Z][A-Z0-9]{2,30}$/
const TS = /^\d{1,12}\.\d{1,9}$/
const NAME_MAX = 256
const FILES_MAX = 50
/** Messages that people write; the others tell of members, pins, names and calls. */
const WRITTEN = new Set([undefined, 'file_share', 'me_message', 'thread_broadcast', 'bot_message'])
const COMMANDS = new Set(['/new', '/stop', '/status', '/help'])

/** By the type of the envelope. None for what means nothing to svc. */
export function readEnvelope(context: SlackContext, type: unknown, payload: unknown): SlackEvent[] {
  const body = objectOf(payload)
  if (type === 'events_api') return readApiEvent(context, objectOf(body.event), textOf(body.event_id))
  if (type === 'slash_commands') return readCommand(body)
  return type === 'interactive' && body.type === 'block_actions' ? readPresses(body) : []
}

function readApiEvent(context: SlackContext, event: SlackResult, eventId: string | undefined): SlackEvent[] {
  switch (event.type) {
    case 'message':
    // Some apps get only these. A message that arrives as both has one id.
    case 'app_mention':
      return readAnyMessage(context, event)
    case 'reaction_added':
    case 'reaction_removed':
      return readReaction(context, event, eventId)
    case 'assistant_thread_started':
      return readPane(event)
    default:
      return []
  }
}

function readAnyMessage(context: SlackContext, event: SlackResult): SlackEvent[] {
  const channel = idOf(event.channel, CHANNEL)
  if (channel === undefined) return []
  const kind = readKind(event.channel_type, channel)
  if (event.subtype === 'message_changed') return readChange(context, event, channel, kind)
  if (event.subtype === 'message_deleted')
    return readDeletion(context, event, objectOf(event.previous_message), channel, kind)
  return readMessage(context, event, channel, kind)
}

/** A message as an event or in the history of a channel. */
export function readMessage(
  { bot, areBotsHeard }: SlackContext,
  message: SlackResult,
  channel: string,
  kind: ChatKind | undefined,
): SlackEvent[] {
  const ts = idOf(message.ts, TS)
  const author = authorOf(message)
  const subtype = typeof message.subtype === 'string' ? message.subtype : undefined
  if (ts === undefined || !author || !WRITTEN.has(subtype) || isOwn(message, bot) || (author.isBot && !areBotsHeard))
    return []
  const root = idOf(message.thread_ts, TS)
  const thread = root === ts ? undefined : root
  const shared = sharedOf(message)
  const markup = withoutMention(markupOf(message), bot.user)
  const files = filesOf(message)
  if (markup === '' && files.length === 0) return []
  return [
    {
      channel,
      kind,
      key: `${channel} ${ts}`,
      user: author.id,
      markup: markup === '' ? undefined : markup,
      files,
      position: { thread, ts },
      event: {
        id: ts,
        timestamp: secondsOf(ts),
        sender_name: author.name,
        topic: thread,
        reply_to: thread,
        forwarded_from: textOf(message.text) === undefined ? shared?.author : undefined,
        verb: isMention(message, bot.user) && kind !== 'dm' ? 'mention' : undefined,
      },
    },
  ]
}

/** Slack also says so when the preview of a link appears, or an answer is added to a thread. */
function readChange(
  context: SlackContext,
  event: SlackResult,
  channel: string,
  kind: ChatKind | undefined,
): SlackEvent[] {
  const { bot, areBotsHeard } = context
  const [message, before] = [objectOf(event.message), objectOf(event.previous_message)]
  // The first message of a thread that was deleted.
  if (message.subtype === 'tombstone')
    return readDeletion(context, { ...event, deleted_ts: message.ts }, before, channel, kind)
  const ts = idOf(message.ts, TS)
  const author = authorOf(message)
  const edited = objectOf(message.edited)
  const markup = markupOf(message)
  if (ts === undefined || !author || isOwn(message, bot) || (author.isBot && !areBotsHeard)) return []
  if (textOf(edited.ts) === undefined || markup === '' || markup === markupOf(before)) return []
  const at = idOf(event.ts, TS) ?? ts
  return [
    {
      ...{ channel, kind, key: `${channel} edit ${at}`, user: author.id, markup, files: [] },
      event: {
        id: `edit-${at}`,
        edits: ts,
        sender_name: author.name,
        timestamp: secondsOf(idOf(edited.ts, TS) ?? at),
      },
    },
  ]
}

/** Slack does not say who deleted it. The agent's own messages are known to svc. */
function readDeletion(
  { bot, areBotsHeard }: SlackContext,
  event: SlackResult,
  before: SlackResult,
  channel: string,
  kind: ChatKind | undefined,
): SlackEvent[] {
  const deleted = idOf(event.deleted_ts, TS)
  const author = authorOf(before)
  if (deleted === undefined || isOwn(before, bot) || (author?.isBot && !areBotsHeard)) return []
  const at = idOf(event.ts, TS) ?? deleted
  return [
    {
      ...{ channel, kind, key: `${channel} delete ${deleted}`, user: author?.id, markup: undefined, files: [] },
      event: { id: `delete-${deleted}`, deletes: deleted, sender_name: author?.name, timestamp: secondsOf(at) },
    },
  ]
}

function readReaction({ bot }: SlackContext, event: SlackResult, eventId: string | undefined): SlackEvent[] {
  const item = objectOf(event.item)
  const [channel, ts] = [idOf(item.channel, CHANNEL), idOf(item.ts, TS)]
  const [user, name] = [idOf(event.user, USER), textOf(event.reaction)]
  if (item.type !== 'message' || channel === undefined || ts === undefined || name === undefined) return []
  if (user === undefined || user === bot.user) return []
  const id = eventId ?? `${textOf(event.event_ts) ?? ts}-${user}-${name}`
  return [
    {
      ...{ channel, kind: readKind(undefined, channel), key: `reaction ${id}`, user, markup: undefined, files: [] },
      event: {
        id: `reaction-${id}`.slice(0, NAME_MAX),
        reply_to: ts,
        reaction: emojiOf(name).slice(0, 100),
        ...(event.type === 'reaction_removed' ? { reaction_removed: true } : {}),
        timestamp: secondsOf(idOf(event.event_ts, TS) ?? ts),
      },
    },
  ]
}

/** A person opened the assistant beside the chat, but has said nothing yet. */
function readPane(event: SlackResult): SlackEvent[] {
  const pane = objectOf(event.assistant_thread)
  const [channel, thread] = [idOf(pane.channel_id, CHANNEL), idOf(pane.thread_ts, TS)]
  if (channel === undefined || thread === undefined) return []
  return [
    {
      ...{ channel, kind: 'dm', key: `${channel} pane ${thread}`, user: undefined, markup: undefined, files: [] },
      pane: thread,
      event: {},
    },
  ]
}

/** `/svc new` and `/new` are the command `/new`: Slack knows a `/status` of its own. */
function readCommand(body: SlackResult): SlackEvent[] {
  const [channel, user] = [idOf(body.channel_id, CHANNEL), idOf(body.user_id, USER)]
  const [command, trigger] = [textOf(body.command), textOf(body.trigger_id)]
  if (channel === undefined || user === undefined || command === undefined || trigger === undefined) return []
  const text = (textOf(body.text) ?? '').trim()
  const own = COMMANDS.has(command) ? `${command} ${text}` : `/${text || 'help'}`
  const kind = kindOfName(body.channel_name, channel)
  return [
    {
      ...{ channel, kind, key: `command ${trigger}`, user, markup: own.trim().replace('//', '/'), files: [] },
      event: {
        id: `command-${trigger}`.slice(0, NAME_MAX),
        sender_name: textOf(body.user_name)?.slice(0, NAME_MAX),
        verb: kind === 'dm' ? undefined : 'mention',
      },
    },
  ]
}

/** `value` is the id of the button; other apps' messages cannot have buttons of this one. */
function readPresses(body: SlackResult): SlackEvent[] {
  const [person, message, container] = [objectOf(body.user), objectOf(body.message), objectOf(body.container)]
  const channel = idOf(objectOf(body.channel).id ?? container.channel_id, CHANNEL)
  const ts = idOf(message.ts ?? container.message_ts, TS)
  const user = idOf(person.id, USER)
  if (channel === undefined || ts === undefined || user === undefined) return []
  const root = idOf(message.thread_ts ?? container.thread_ts, TS)
  return objectsOf(body.actions).flatMap((action) => {
    const [id, at] = [textOf(action.value), idOf(action.action_ts, TS)]
    if (action.type !== 'button' || id === undefined || at === undefined || !/^[A-Za-z0-9_-]{1,40}$/.test(id)) return []
    return [
      {
        ...{ channel, kind: kindOfName(objectOf(body.channel).name, channel), key: `press ${at} ${user} ${id}`, user },
        ...{ markup: undefined, files: [] },
        event: {
          id: `press-${at}-${user}-${id}`,
          verb: 'action',
          action: id,
          reply_to: ts,
          topic: root === ts ? undefined : root,
          sender_name: (textOf(person.name) ?? textOf(person.username))?.slice(0, NAME_MAX),
          timestamp: secondsOf(at),
        },
      },
    ]
  })
}

interface Author {
  readonly id: string
  /** If the message says it. */
  readonly name: string | undefined
  readonly isBot: boolean
}

function authorOf(message: SlackResult): Author | undefined {
  const [user, bot] = [idOf(message.user, USER), idOf(message.bot_id, USER)]
  const id = user ?? bot
  if (id === undefined) return undefined
  const isBot = bot !== undefined || message.subtype === 'bot_message' || user === 'USLACKBOT'
  const profile = objectOf(isBot ? message.bot_profile : message.user_profile)
  const name =
    textOf(message.username) ?? textOf(profile.display_name) ?? textOf(profile.real_name) ?? textOf(profile.name)
  return { id, name: name?.slice(0, NAME_MAX), isBot }
}

function isOwn(message: SlackResult, { user, bot }: SlackBot): boolean {
  return message.user === user || (bot !== undefined && message.bot_id === bot)
}

function isMention(message: SlackResult, user: string): boolean {
  const text = textOf(message.text) ?? ''
  return message.type === 'app_mention' || text.includes(`<@${user}>`) || text.includes(`<@${user}|`)
}

/** `@ada /new` is the command: Slack knows no slash commands in threads. */
function withoutMention(markup: string, user: string): string {
  const start = `<@${user}>`
  const rest = markup.startsWith(start) ? markup.slice(start.length).trimStart() : ''
  return rest.startsWith('/') ? rest : markup
}

/** What people see. Blocks count only if there is no text, as they repeat it. */
function markupOf(message: SlackResult): string {
  const own = textOf(message.text) ?? blocksText(message.blocks)
  const shared = sharedOf(message)
  const attached = objectsOf(message.attachments)
    .filter((each) => !isShared(each) && textOf(each.from_url) === undefined)
    .map(attachmentText)
  if (shared === undefined) return [own, ...attached].filter((text) => text !== '').join('\n')
  // A message that is only forwarded is the text of the other.
  return own === '' ? shared.text : `${own}\n[forwarded from ${shared.author ?? 'a message'}]\n${shared.text}`
}

interface SharedMessage {
  readonly author: string | undefined
  readonly text: string
}

function sharedOf(message: SlackResult): SharedMessage | undefined {
  const shared = objectsOf(message.attachments).find(isShared)
  if (!shared) return undefined
  const author = textOf(shared.author_name) ?? textOf(shared.author_subname)
  const files = filesOf(shared).map(({ name }) => `[file ${name}]`)
  const text = [attachmentText({ text: shared.text, fallback: shared.fallback }), ...files].join('\n')
  return { author: author?.slice(0, NAME_MAX), text: text || '[a message]' }
}

function isShared(attachment: SlackResult): boolean {
  return attachment.is_share === true || attachment.is_msg_unfurl === true
}

function attachmentText(attachment: SlackResult): string {
  const fields = objectsOf(attachment.fields).map(({ title, value }) => [textOf(title), textOf(value)].join(': '))
  const text = textOf(attachment.text) ?? blocksText(attachment.blocks)
  const lines = [textOf(attachment.pretext), textOf(attachment.title), text, ...fields]
  const shown = lines.filter((line) => line !== undefined && line !== '').join('\n')
  return shown || (textOf(attachment.fallback) ?? '')
}

/** Texts of all blocks, in order: lists and sections become lines. */
function blocksText(blocks: unknown): string {
  return objectsOf(blocks)
    .map(blockText)
    .filter((text) => text !== '')
    .join('\n')
}

/** Nesting is limited where JSON is parsed. */
function blockText(block: SlackResult): string {
  switch (block.type) {
    case 'image':
      return `[image ${textOf(block.alt_text) ?? ''}]`.replace(' ]', ']')
    case 'video':
      return `[video ${textOf(objectOf(block.title).text) ?? ''}]`.replace(' ]', ']')
    case 'link':
      return `<${textOf(block.url) ?? ''}${textOf(block.text) === undefined ? '' : `|${block.text}`}>`
    case 'user':
      return `<@${textOf(block.user_id) ?? ''}>`
    case 'channel':
      return `<#${textOf(block.channel_id) ?? ''}>`
    case 'emoji':
      return `:${textOf(block.name) ?? ''}:`
    case 'rich_text_section':
      return objectsOf(block.elements).map(blockText).join('')
  }
  const own = textOf(block.text) ?? textOf(objectOf(block.text).text)
  const parts = [...objectsOf(block.fields), ...objectsOf(block.elements)].map(blockText)
  return [own, ...parts].filter((text) => text !== undefined && text !== '').join('\n')
}

function filesOf(message: SlackResult): SlackFile[] {
  return objectsOf(message.files)
    .slice(0, FILES_MAX)
    .flatMap((file) => {
      const id = idOf(file.id, USER)
      return id === undefined || file.mode === 'tombstone' ? [] : [readFile(id, file)]
    })
}

/** A file of an event, or the answer of `files.info`. */
export function readFile(id: string, file: SlackResult): SlackFile {
  const mime = textOf(file.mimetype)?.slice(0, NAME_MAX)
  const isVoice = file.subtype === 'slack_audio'
  return {
    id,
    name: (textOf(file.name) ?? textOf(file.title) ?? `file-${id}`).slice(0, NAME_MAX),
    // Slack records voice in containers of videos.
    mime: isVoice ? mime?.replace(/^video\//, 'audio/') : mime,
    size: typeof file.size === 'number' && file.size >= 0 ? file.size : undefined,
    url: file.mode === 'external' ? undefined : (textOf(file.url_private_download) ?? textOf(file.url_private)),
  }
}

function readKind(type: unknown, channel: string): ChatKind | undefined {
  if (type === 'im' || channel.startsWith('D')) return 'dm'
  if (type === 'mpim') return 'group'
  // A public channel may become a private one, and stays the same chat.
  return type === 'channel' || type === 'group' ? 'channel' : undefined
}

/** As commands and presses have it: `privategroup` may be either. */
function kindOfName(name: unknown, channel: string): ChatKind | undefined {
  if (name === 'directmessage' || channel.startsWith('D')) return 'dm'
  if (typeof name !== 'string' || name === 'privategroup') return undefined
  return name.startsWith('mpdm-') ? 'group' : 'channel'
}

function idOf(value: unknown, pattern: RegExp): string | undefined {
  return typeof value === 'string' && pattern.test(value) ? value : undefined
}

function secondsOf(ts: string): number {
  return Number.parseInt(ts, 10)
}
