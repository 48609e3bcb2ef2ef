// Shows mentions, channels, custom emoji and times in texts of Discord by their names.
import { isSnowflake } from './snowflake.ts'

export interface MentionNames {
  user(id: string): string | undefined
  role(id: string): string | undefined
  channel(id: string): string | undefined
}

const MARKUP =
  /<(?:@!?(?<user>\d{15,20})|@&(?<role>\d{15,20})|#(?<channel>\d{15,20})|a?:(?<emoji>\w{2,32}):\d{15,20}|t:(?<time>-?\d{1,11})(?::[a-zA-Z])?|\/(?<command>[^:<>]{1,100}):\d{15,20})>/g
const CHANNEL = /<#(\d{15,20})>/g
/** So that one text cannot ask for many names. */
const CHANNELS_MAX = 10

export function readableText(text: string, names: MentionNames): string {
  return text.replace(MARKUP, (...found) => {
    const { user, role, channel, emoji, time, command }: Record<string, string | undefined> = found.at(-1)
    if (user !== undefined) return `@${names.user(user) ?? user}`
    if (role !== undefined) return `@${names.role(role) ?? role}`
    if (channel !== undefined) return `#${names.channel(channel) ?? channel}`
    if (emoji !== undefined) return `:${emoji}:`
    return time === undefined ? `/${command}` : new Date(Number(time) * 1000).toISOString()
  })
}

export function channelsNamedIn(text: string): string[] {
  const ids = new Set<string>()
  for (const [, id] of text.matchAll(CHANNEL)) {
    if (ids.size === CHANNELS_MAX) break
    if (isSnowflake(id)) ids.add(id)
  }
  return [...ids]
}

/** "@bot /new" is the command "/new". */
export function withoutLeadingMention(text: string, botId: string): string {
  const [mention = ''] = /^\s{0,10}<@!?\d{15,20}>\s{0,10}(?=\/)/.exec(text) ?? []
  return mention.includes(botId) ? text.slice(mention.length) : text
}
