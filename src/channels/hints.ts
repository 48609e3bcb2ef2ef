// What to do instead where a platform lacks an action: with names of tools and arguments that exist.
import type { ActionName } from '../core/channel.ts'

type Hints = Partial<Record<ActionName, string>>

const WORDS = 'say it in words with send(chatJid, text)'
const EMOJI = 'use like(chatJid, targetId, reaction) with 👎'
const ANSWER = 'use reply(chatJid, text, replyToId)'
const LINK = 'say what is in it, or where it can be found, with send(chatJid, text)'
const AGAIN = 'use delete(chatJid, targetId), then say it anew'
const REPOST = 'use repost(chatJid, sourceMsgId)'
const CITE = 'use send(chatJid, text) with the words and who said them'

const ANYWHERE: Hints = {
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
  fetch_history: 'use inspect_messages for what has passed through here',
}

const ON: Readonly<Record<string, Hints>> = {
  telegram: { repost: 'use forward(sourceMsgId, targetJid)', post: 'use send_file(chatJid, filepath) for each file' },
  whatsapp: { repost: 'use forward(sourceMsgId, targetJid)' },
  mastodon: { forward: REPOST, quote: 'use post(chatJid, content) with its address', dislike: ANSWER },
  bluesky: { forward: REPOST, dislike: ANSWER, edit: AGAIN },
  reddit: { quote: 'use post(chatJid, content) with the words quoted' },
  linkedin: { forward: REPOST, quote: REPOST, edit: AGAIN },
  twitter: { edit: AGAIN, dislike: ANSWER },
  email: { dislike: WORDS, like: WORDS },
}

export function hintFor(platform: string, action: ActionName): string {
  const own = Object.hasOwn(ON, platform) ? ON[platform]?.[action] : undefined
  return own ?? ANYWHERE[action] ?? WORDS
}
