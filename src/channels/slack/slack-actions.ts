// What svc asks for, as calls of the Web API. Each message carries the key of its attempt as metadata, by which it is found again if
// the answer is lost.
import {
  type Connector,
  type ConnectorContext,
  type OutgoingFilePart,
  type OutgoingPart,
  type OutgoingTextPart,
  type Place,
  PlatformError,
  type PlatformHistoryMessage,
  type TargetMessage,
} from '../process/port.ts'
import {
  isRefusedAs,
  isSlackTokenFault,
  objectOf,
  objectsOf,
  type SlackCall,
  SlackRefusal,
  type SlackResult,
  textOf,
} from './slack-api.ts'
import type { SlackDirectory } from './slack-directory.ts'
import { emojiNameOf } from './slack-emoji.ts'
import { readMessage, type SlackBot } from './slack-events.ts'
import { findShare, uploadFile, waitForShare } from './slack-files.ts'
import { paneCursor } from './slack-intake.ts'
import { escapeText, quoteText, withoutBroadcasts } from './slack-text.ts'

export const TEXT_MAX = 12_000
/** Introduces a file, in Slack's markup. */
export const CAPTION_MAX = 4000
const QUOTE_MAX = 2000
const PAGE = 200
/** svc repeats a message for a day. */
const REPEATS_MS = 25 * 3_600_000
const REPEATS_PAGES = 10
const METADATA_TYPE = 'svc_message'
const PROMPTS_MAX = 4
/** Threads of one answer of the history. */
const THREADS_MAX = 10
/** A page may have no messages and still a next one. */
const HISTORY_PAGES_MAX = 50
const PANE_HINT = 'send text instead: send(chatJid, text)'

export interface SlackActionsOptions {
  readonly context: ConnectorContext
  readonly call: SlackCall
  readonly directory: SlackDirectory
  bot(): SlackBot | undefined
  onTokenFault(): void
}

export type SlackActions = Pick<Connector, 'actions' | 'repeats'>

export function createSlackActions(options: SlackActionsOptions): SlackActions {
  const { context, directory, bot } = options
  const call: SlackCall = async (method, args) => {
    try {
      return await options.call(method, args)
    } catch (error) {
      if (isSlackTokenFault(error)) {
        context.setHealth('refused', 'Slack does not accept the token of the bot')
        options.onTokenFault()
      }
      throw error
    }
  }
  const channelOf = ({ chat }: Place): string => parseChat(chat, bot()?.team)
  /** The first of the variants that Slack can show. */
  const firstOf = async (
    method: string,
    common: Record<string, unknown>,
    [variant = {}, ...others]: readonly Record<string, unknown>[],
  ): Promise<SlackResult> => {
    try {
      return await call(method, { ...common, ...variant })
    } catch (error) {
      if (others.length === 0 || !isFormatFault(error)) throw error
      return firstOf(method, common, others)
    }
  }
  const sendText = async ({ text, ...out }: OutgoingTextPart): Promise<string | undefined> => {
    const { rich, plain } = contentOf(text, out.buttons ?? [])
    const named = out.agentName === undefined ? [] : [{ ...rich, username: out.agentName }]
    const common = { channel: channelOf(out), thread_ts: threadOf(out), metadata: metadataOf(out) }
    return textOf((await firstOf('chat.postMessage', common, [...named, rich, plain])).ts)
  }
  const sendFile = async (out: OutgoingFilePart): Promise<string | undefined> => {
    const channel_id = channelOf(out)
    const id = await uploadFile(context, call, out)
    context.state.setCached(uploadName(out), id)
    await call('files.completeUploadExternal', {
      ...{ files: [{ id, title: out.filename }], channel_id, thread_ts: threadOf(out) },
      initial_comment: out.caption === undefined ? undefined : escapeText(out.caption),
    })
    // The message is there, whether Slack tells its id or not.
    return waitForShare(call, id, channel_id).catch(() => undefined)
  }
  const react = async (target: TargetMessage, reaction: string): Promise<void> => {
    const name = emojiNameOf(reaction)
    if (name === undefined)
      throw new PlatformError(
        'refused',
        `${reaction} is no reaction of Slack: use a common emoji, or its name in Slack`,
      )
    await ignoring(call('reactions.add', { ...messageOf(target), name }), 'already_reacted')
  }
  const messageOf = (target: TargetMessage) => ({ channel: channelOf(target), timestamp: timeOf(target.id) })
  const cite = async (source: TargetMessage, max: number): Promise<string> => {
    const [channel, ts] = [channelOf(source), timeOf(source.id)]
    const [message, { permalink }] = await Promise.all([
      findMessage(call, channel, ts),
      call('chat.getPermalink', { channel, message_ts: ts }),
    ])
    const shown = await showMessage(directory, bot(), channel, message)
    const [author, text] = [shown?.sender_name ?? shown?.sender ?? 'a message', shown?.content ?? '[a message]']
    return `${quoteText(`**${author}**: ${text}`, max)}\n> [the message](${textOf(permalink) ?? ''})`
  }
  const paneOf = (place: Place) => {
    const channel_id = channelOf(place)
    const thread_ts = context.state.cursor(paneCursor(channel_id))
    if (thread_ts === undefined) throw noPane()
    return { channel_id, thread_ts }
  }
  const inPane = async (method: string, args: Record<string, unknown>): Promise<void> => {
    try {
      await call(method, args)
    } catch (error) {
      throw isRefusedAs(error, ...PANE_GONE) ? noPane() : error
    }
  }
  return {
    repeats: (out) => findSent(context, call, channelOf(out), out),
    actions: {
      sendText,
      sendFile,
      sendVoice: sendFile,
      forward: async ({ source, ...out }) => sendText({ ...out, text: await cite(source, TEXT_MAX / 2) }),
      quote: async ({ source, ...out }) => {
        const citation = await cite(source, QUOTE_MAX)
        const whole = `${citation}\n\n${out.text}`
        // A long text stands for itself, in the thread of the message.
        return whole.length <= TEXT_MAX ? sendText({ ...out, text: whole }) : sendText({ ...out, replyTo: source.id })
      },
      like: (target) => react(target, target.reaction === '' ? '👍' : target.reaction),
      dislike: (target) => react(target, '👎'),
      edit: async ({ text, ...target }) => {
        const { rich, plain } = contentOf(text, [])
        // Without blocks and attachments, buttons would stay.
        const cleared = { ...plain, blocks: [], attachments: [] }
        await firstOf('chat.update', { channel: channelOf(target), ts: timeOf(target.id) }, [rich, cleared])
      },
      delete: async (target) => {
        await ignoring(call('chat.delete', { channel: channelOf(target), ts: timeOf(target.id) }), 'message_not_found')
      },
      pin: async (target) => ignoring(call('pins.add', messageOf(target)), 'already_pinned'),
      unpin: async (target) => ignoring(call('pins.remove', messageOf(target)), 'no_pin', 'not_pinned'),
      unpinAll: async (place) => {
        const channel = channelOf(place)
        const { items } = await call('pins.list', { channel })
        for (const { message } of objectsOf(items)) {
          const timestamp = textOf(objectOf(message).ts)
          if (timestamp !== undefined)
            await ignoring(call('pins.remove', { channel, timestamp }), 'no_pin', 'not_pinned')
        }
      },
      panePrompts: async ({ prompts, ...place }) =>
        inPane('assistant.threads.setSuggestedPrompts', { ...paneOf(place), prompts: prompts.slice(0, PROMPTS_MAX) }),
      paneTitle: async ({ title, ...place }) => inPane('assistant.threads.setTitle', { ...paneOf(place), title }),
      history: async ({ limit, before, ...place }) => {
        const latest = before === undefined ? undefined : String(Date.parse(before) / 1000)
        return readHistory(
          { call, directory, bot: bot() },
          { channel: channelOf(place), limit, latest, ...threadIn(place) },
        )
      },
      typing: async ({ on, ...place }) => {
        const channel_id = channelOf(place)
        const pane = context.state.cursor(paneCursor(channel_id))
        // Slack shows it in panes only, and takes it away when an answer comes.
        if (pane === undefined) return
        const args = { channel_id, thread_ts: place.threadId ?? pane, status: on ? 'is typing…' : '' }
        await ignoring(call('assistant.threads.setStatus', args), ...PANE_GONE, 'missing_scope')
      },
    },
  }
}

const PANE_GONE = ['thread_not_found', 'message_not_found', 'channel_type_not_supported', 'invalid_thread_ts']

function noPane(): PlatformError {
  return new PlatformError('unsupported', 'no assistant pane is open in this chat', { hint: PANE_HINT })
}

async function ignoring(call: Promise<unknown>, ...codes: readonly string[]): Promise<void> {
  try {
    await call
  } catch (error) {
    if (!isRefusedAs(error, ...codes)) throw error
  }
}

/** Of the team that the token belongs to, if that is known by now. */
function parseChat(chat: string, team: string | undefined): string {
  const [, given, id] = /^([A-Z][A-Z0-9]{2,30})\/(?:channel|dm|group)\/([CDG][A-Z0-9]{2,30})$/.exec(chat) ?? []
  if (id === undefined || (team !== undefined && given !== team))
    throw new PlatformError(
      'refused',
      `${chat} is no chat of Slack: it must look like ${team ?? 'T012AB3C4'}/channel/C012AB3CD`,
    )
  return id
}

function timeOf(id: string): string {
  if (!/^\d{1,12}\.\d{1,9}$/.test(id)) throw new PlatformError('refused', `${id} is no message of Slack`)
  return id
}

/** Slack answers in threads only. */
function threadOf({ threadId, replyTo }: OutgoingPart): string | undefined {
  return [threadId, replyTo].find((id) => id !== undefined && /^\d{1,12}\.\d{1,9}$/.test(id))
}

function threadIn({ threadId }: Place): { thread?: string } {
  return threadId === undefined ? {} : { thread: timeOf(threadId) }
}

function metadataOf({ nonce }: OutgoingPart): object {
  return { event_type: METADATA_TYPE, event_payload: { nonce } }
}

function uploadName({ nonce }: OutgoingPart): string {
  return `upload ${nonce}`
}

/** Markdown, and the same without a format for servers and texts that have none. */
function contentOf(given: string, buttons: NonNullable<OutgoingTextPart['buttons']>) {
  const text = withoutBroadcasts(given)
  const plain = escapeText(given)
  if (buttons.length === 0) return { rich: { markdown_text: text }, plain: { text: plain } }
  const actions = {
    type: 'actions',
    elements: buttons.map(({ id, label, style }, at) => ({
      ...{ type: 'button', action_id: `svc_${at}`, value: id, style },
      text: { type: 'plain_text', text: label },
    })),
  }
  return {
    rich: { text: plain, blocks: [{ type: 'markdown', text }, actions] },
    plain: { text: plain, attachments: [{ fallback: 'buttons', blocks: [actions] }] },
  }
}

const FORMAT_FAULTS = [
  ...['invalid_blocks', 'invalid_blocks_format', 'markdown_text_conflict', 'no_text', 'invalid_arguments'],
  ...['invalid_arg_name', 'msg_blocks_too_long', 'invalid_markdown_text', 'unsupported_block_type'],
]

/** Text that Slack cannot format, or a name for the agent that the app may not show. */
function isFormatFault(error: unknown): boolean {
  return isRefusedAs(error, ...FORMAT_FAULTS) || (error instanceof SlackRefusal && error.code === 'missing_scope')
}

/** A message whose answer was lost, by its metadata; a file by its id. */
async function findSent(
  { state, now }: ConnectorContext,
  call: SlackCall,
  channel: string,
  out: OutgoingPart,
): Promise<string | undefined> {
  const upload = state.cached(uploadName(out))
  if (upload !== undefined) return findShare(call, upload, channel)
  const thread = threadOf(out)
  const method = `conversations.${thread === undefined ? 'history' : 'replies'}`
  const oldest = String((now() - REPEATS_MS) / 1000)
  let cursor: string | undefined
  for (let page = 0; page < REPEATS_PAGES; page++) {
    const args = { channel, ts: thread, oldest, limit: PAGE, include_all_metadata: true, cursor }
    const result = await call(method, args)
    const found = objectsOf(result.messages).find(
      ({ metadata }) => objectOf(objectOf(metadata).event_payload).nonce === out.nonce,
    )
    if (found) return textOf(found.ts)
    cursor = textOf(objectOf(result.response_metadata).next_cursor)
    if (cursor === undefined) return undefined
  }
  throw new PlatformError(
    'refused',
    'an earlier attempt ended without an answer, and the chat is too long to look for it',
  )
}

/** One of a channel, else one of a thread; undefined if Slack does not show it. */
async function findMessage(call: SlackCall, channel: string, ts: string): Promise<SlackResult | undefined> {
  const only = { channel, latest: ts, oldest: ts, inclusive: true, limit: 1 }
  const top = objectsOf((await call('conversations.history', only)).messages).find((each) => each.ts === ts)
  if (top) return top
  const { messages } = await call('conversations.replies', { ...only, ts })
  return objectsOf(messages).find((each) => each.ts === ts)
}

async function showMessage(
  directory: SlackDirectory,
  bot: SlackBot | undefined,
  channel: string,
  message: SlackResult | undefined,
): Promise<PlatformHistoryMessage | undefined> {
  if (!message || !bot) return undefined
  // Everybody's messages are shown, also the account's own.
  const withoutUser = { ...bot, user: '', bot: undefined }
  const [found] = readMessage({ bot: withoutUser, areBotsHeard: true }, message, channel, undefined)
  if (!found?.position || found.user === undefined) return undefined
  const { event, markup, files, position, user } = found
  const names = files.map(({ name }) => `[file ${name}]`)
  const isOwn = message.user === bot.user || (bot.bot !== undefined && message.bot_id === bot.bot)
  return {
    id: position.ts,
    sender: `slack:${bot.team}/user/${user}`,
    sender_name: event.sender_name ?? (await directory.userName(user)),
    content: [markup === undefined ? undefined : await directory.readable(markup), ...names]
      .filter((line) => line !== undefined)
      .join('\n'),
    timestamp: Number(position.ts),
    topic: position.thread,
    reply_to: position.thread,
    is_from_me: isOwn ? true : undefined,
  }
}

interface HistoryReader {
  readonly call: SlackCall
  readonly directory: SlackDirectory
  readonly bot: SlackBot | undefined
}

interface HistoryQuery {
  readonly channel: string
  readonly thread?: string
  readonly limit: number
  readonly latest: string | undefined
}

/** Newest messages of a channel with the answers in their threads, oldest first. */
async function readHistory(
  { call, directory, bot }: HistoryReader,
  { channel, thread, limit, latest }: HistoryQuery,
): Promise<{ messages: PlatformHistoryMessage[]; cap?: string }> {
  const method = `conversations.${thread === undefined ? 'history' : 'replies'}`
  const found: SlackResult[] = []
  let [cursor, isLimited, pages]: [string | undefined, boolean, number] = [undefined, false, 0]
  do {
    const result = await call(method, {
      channel,
      ts: thread,
      latest,
      limit: Math.min(PAGE, limit - found.length),
      cursor,
    })
    found.push(...objectsOf(result.messages))
    isLimited ||= result.is_limited === true
    cursor = textOf(objectOf(result.response_metadata).next_cursor)
  } while (cursor !== undefined && found.length < limit && ++pages < HISTORY_PAGES_MAX)
  const roots = found
    .filter(({ reply_count: count }) => thread === undefined && Number(count) > 0)
    .slice(0, THREADS_MAX)
  for (const { ts } of roots) {
    const replies = await call('conversations.replies', { channel, ts, latest, limit: PAGE })
    found.push(...objectsOf(replies.messages).filter((each) => each.ts !== ts))
  }
  const shown = await Promise.all(found.map((message) => showMessage(directory, bot, channel, message)))
  const messages = shown
    .filter((message) => message !== undefined)
    .sort((one, other) => Number(one.id) - Number(other.id))
    .slice(-limit)
  return isLimited ? { messages, cap: '90d' } : { messages }
}
