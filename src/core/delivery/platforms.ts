// Known platforms, one record each. Other platforms get the defaults below.
import type { ActionName } from './channel.ts'

type Hints = Partial<Record<ActionName, string>>

export interface Platform {
  /** Folder below src/channels of the built-in channel that delivers its chats; absent: a registered adapter does. */
  readonly channel?: string
  /** Starts the folder name of a person, as in `tg-42`; absent: the first two letters of the platform. */
  readonly shortName?: string
  /** How agents are asked to format their messages there. */
  readonly outputStyle?: string
  /** Alternatives to unsupported actions; they name existing tools and arguments. */
  readonly hints?: Hints
}

const WORDS = 'send text instead: send(chatJid, text)'
const EMOJI = 'use like(chatJid, targetId, reaction) with 👎'
const ANSWER = 'use reply(chatJid, text, replyToId)'
const LINK = 'describe its content, or link to it, with send(chatJid, text)'
const AGAIN = 'use delete(chatJid, targetId), then send it again'
const FORWARD = 'use forward(sourceMsgId, targetJid)'
const REPOST = 'use repost(chatJid, sourceMsgId)'
const CITE = 'use send(chatJid, text) with the quoted text and its author'

const PLATFORMS: Readonly<Record<string, Platform>> = {
  web: {
    channel: 'web',
    shortName: 'web',
    outputStyle: 'Markdown, as on a web page: short paragraphs, lists and code blocks are shown as such.',
    // No message in the chat of a link can be referred to, so all hints suggest plain text.
    hints: {
      send_file: 'describe its content with send(chatJid, text)',
      ...{ post: WORDS, forward: WORDS, quote: WORDS, repost: WORDS, like: WORDS, dislike: WORDS },
      ...{ edit: WORDS, delete: WORDS, unpin_all: WORDS, fetch_history: WORDS },
    },
  },
  hook: {
    channel: 'web',
    outputStyle:
      'A program sent this, and no person reads replies in this chat: to tell people, use the tool send with their chat. Answer here in one plain line, or not at all.',
  },
  sandbox: { channel: 'sandbox' },
  telegram: {
    shortName: 'tg',
    outputStyle: 'Short messages in plain text; *bold* and `code` at most, no headings, no tables.',
    hints: { repost: FORWARD, post: 'use send_file(chatJid, filepath) for each file' },
  },
  whatsapp: {
    shortName: 'wa',
    outputStyle:
      'Short messages in plain text; *bold* and _italic_ at most, no headings, no tables, no links in brackets.',
    hints: { repost: FORWARD },
  },
  discord: { shortName: 'dc', outputStyle: 'Discord Markdown, at most 2000 characters; no tables.' },
  slack: {
    shortName: 'sl',
    outputStyle: 'Slack mrkdwn: *bold*, _italic_, `code`, <url|text>; no headings, no tables.',
  },
  email: {
    shortName: 'em',
    outputStyle: 'An email: greeting, full sentences, plain text.',
    hints: { dislike: WORDS, like: WORDS },
  },
  mastodon: { hints: { forward: REPOST, quote: 'use post(chatJid, content) with its URL', dislike: ANSWER } },
  bluesky: { hints: { forward: REPOST, dislike: ANSWER, edit: AGAIN } },
  reddit: { hints: { quote: 'use post(chatJid, content) with the quoted text' } },
  linkedin: { hints: { forward: REPOST, quote: REPOST, edit: AGAIN } },
  twitter: { hints: { edit: AGAIN, dislike: ANSWER } },
}

const OUTPUT_STYLE = 'Short messages in plain text, without markup.'

const HINTS: Hints = {
  send_file: LINK,
  send_voice: 'send the text with send(chatJid, text)',
  post: 'use send(chatJid, text)',
  forward: CITE,
  quote: ANSWER,
  repost: CITE,
  like: ANSWER,
  dislike: EMOJI,
  edit: 'send a correction with reply(chatJid, text, replyToId)',
  delete: 'send a correction with reply(chatJid, text, replyToId)',
  unpin_all: 'use unpin_message(chatJid, targetId) for each',
  fetch_history: 'use inspect_messages for messages that passed through this instance',
}

/** Looks only at own members: a platform may be called `constructor`. */
function platformNamed(name: string): Platform {
  return (Object.hasOwn(PLATFORMS, name) ? PLATFORMS[name] : undefined) ?? {}
}

/** The folder below src/channels of the platform's channel; undefined if adapters deliver. */
export function builtInChannelOf(platform: string): string | undefined {
  return platformNamed(platform).channel
}

export function shortNameOf(platform: string): string {
  return platformNamed(platform).shortName ?? platform.replace(/[^a-z0-9]/g, '').slice(0, 2)
}

/** Used unless the group or the chat sets another style. */
export function defaultOutputStyle(surface: string): string {
  return platformNamed(surface.split('-', 1)[0] ?? '').outputStyle ?? OUTPUT_STYLE
}

export function hintFor(platform: string, action: ActionName): string {
  return platformNamed(platform).hints?.[action] ?? HINTS[action] ?? WORDS
}
