// Known platforms, one record each. Other platforms get the defaults below.
import { type ActionName, platformOf } from './channel.ts'

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

const SEND_TEXT_HINT = 'send text instead: send(chatJid, text)'
const LIKE_HINT = 'use like(chatJid, targetId, reaction) with 👎'
const REPLY_HINT = 'use reply(chatJid, text, replyToId)'
const DESCRIBE_HINT = 'describe its content, or link to it, with send(chatJid, text)'
const RESEND_HINT = 'use delete(chatJid, targetId), then send it again'
const FORWARD_HINT = 'use forward(sourceMsgId, targetJid)'
const REPOST_HINT = 'use repost(chatJid, sourceMsgId)'
const CITE_HINT = 'use send(chatJid, text) with the quoted text and its author'

const PLATFORMS: Readonly<Record<string, Platform>> = {
  web: {
    channel: 'web',
    shortName: 'web',
    outputStyle: 'Markdown, as on a web page: short paragraphs, lists and code blocks are shown as such.',
    // No message in the chat of a link can be referred to, so all hints suggest plain text.
    hints: {
      ...{
        post: 'use send_file(chatJid, filepath) for each file',
        forward: SEND_TEXT_HINT,
        quote: SEND_TEXT_HINT,
        repost: SEND_TEXT_HINT,
        like: SEND_TEXT_HINT,
        dislike: SEND_TEXT_HINT,
      },
      ...{ edit: SEND_TEXT_HINT, delete: SEND_TEXT_HINT, unpin_all: SEND_TEXT_HINT, fetch_history: SEND_TEXT_HINT },
    },
  },
  hook: {
    channel: 'hook',
    outputStyle:
      'A program sent this, and no person reads replies in this chat: to tell people, use the tool send with their chat. Answer here in one plain line, or not at all.',
  },
  sandbox: { channel: 'sandbox' },
  telegram: {
    shortName: 'tg',
    outputStyle: 'Short messages in plain text; *bold* and `code` at most, no headings, no tables.',
    hints: { repost: FORWARD_HINT, post: 'use send_file(chatJid, filepath) for each file' },
  },
  whatsapp: {
    shortName: 'wa',
    outputStyle:
      'Short messages in plain text; *bold* and _italic_ at most, no headings, no tables, no links in brackets.',
    hints: { repost: FORWARD_HINT },
  },
  discord: {
    shortName: 'dc',
    outputStyle: 'Discord Markdown, at most 2000 characters; no tables.',
    hints: { repost: FORWARD_HINT, post: 'use send_file(chatJid, filepath) for each file' },
  },
  slack: {
    shortName: 'sl',
    outputStyle: 'Markdown: short paragraphs, lists, **bold**, `code` and [links](https://example.com); no tables.',
    hints: { repost: FORWARD_HINT, post: 'use send_file(chatJid, filepath) for each file' },
  },
  email: {
    shortName: 'em',
    outputStyle: 'An email: greeting, full sentences, plain text.',
    hints: {
      ...{ dislike: SEND_TEXT_HINT, like: SEND_TEXT_HINT, unpin_all: SEND_TEXT_HINT, repost: FORWARD_HINT },
      post: 'use send_file(chatJid, filepath) for each file',
    },
  },
  mastodon: { hints: { forward: REPOST_HINT, quote: 'use post(chatJid, content) with its URL', dislike: REPLY_HINT } },
  bluesky: { hints: { forward: REPOST_HINT, dislike: REPLY_HINT, edit: RESEND_HINT } },
  reddit: { hints: { quote: 'use post(chatJid, content) with the quoted text' } },
  linkedin: { hints: { forward: REPOST_HINT, quote: REPOST_HINT, edit: RESEND_HINT } },
  twitter: { hints: { edit: RESEND_HINT, dislike: REPLY_HINT } },
}

/** Labels of metrics: the platforms above that messages are sent to; those of a webhook go to its URL. */
export const PLATFORM_LABELS: readonly string[] = [...Object.keys(PLATFORMS).filter((name) => name !== 'web'), 'other']

const DEFAULT_OUTPUT_STYLE = 'Short messages in plain text, without markup.'

const DEFAULT_HINTS: Hints = {
  send_file: DESCRIBE_HINT,
  send_voice: 'send the text with send(chatJid, text)',
  post: 'use send(chatJid, text)',
  forward: CITE_HINT,
  quote: REPLY_HINT,
  repost: CITE_HINT,
  like: REPLY_HINT,
  dislike: LIKE_HINT,
  edit: 'send a correction with reply(chatJid, text, replyToId)',
  delete: 'send a correction with reply(chatJid, text, replyToId)',
  unpin_all: 'use unpin_message(chatJid, targetId) for each',
  fetch_history: 'use inspect_messages for messages that passed through this instance',
}

/** Looks only at own members: a platform may be called `constructor`. */
function findPlatform(name: string): Platform | undefined {
  return Object.hasOwn(PLATFORMS, name) ? PLATFORMS[name] : undefined
}

/** The platform that this is an account of, such as `telegram` for `telegram-work`; otherwise the platform itself. */
export function basePlatformOf(platform: string): string {
  const [base = '', ...account] = platform.split('-')
  const known = findPlatform(platform) === undefined && account.join('-') !== '' ? findPlatform(base) : undefined
  // The built-in platforms have no accounts: `web-shop` is a platform of an adapter.
  return known && known.channel === undefined ? base : platform
}

function platformNamed(name: string): Platform {
  return findPlatform(basePlatformOf(name)) ?? {}
}

/** The folder below src/channels of the platform's channel; undefined if adapters deliver. */
export function builtInChannelOf(platform: string): string | undefined {
  return findPlatform(platform)?.channel
}

export function shortNameOf(platform: string): string {
  return (
    platformNamed(platform).shortName ??
    basePlatformOf(platform)
      .replace(/[^a-z0-9]/g, '')
      .slice(0, 2)
  )
}

/** Used unless the group or the chat sets another style. */
export function defaultOutputStyle(surface: string): string {
  return platformNamed(surface.split('-', 1)[0] ?? '').outputStyle ?? DEFAULT_OUTPUT_STYLE
}

/** For a webhook whose answers are sent to a chat or a URL, which the agent could name to a visitor. */
export function answerOutputStyle(to: string, { isVisitor }: { readonly isVisitor: boolean }): string {
  const start = 'A program sent this. What you answer here is sent to'
  if (to.startsWith('https:'))
    return `${start} a program${isVisitor ? '' : ` at ${new URL(to).host}`}: write only what is meant for it.`
  const chat = isVisitor ? 'another chat' : `the chat ${to}, so do not send it there with a tool`
  return `${start} ${chat}. ${defaultOutputStyle(platformOf(to))}`
}

export function hintFor(platform: string, action: ActionName): string {
  return platformNamed(platform).hints?.[action] ?? DEFAULT_HINTS[action] ?? SEND_TEXT_HINT
}
