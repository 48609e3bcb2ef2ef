// Names of people and chats. Asking for them may take no longer than the time in which Slack wants an answer to an event.
import { setTimeout as pause } from 'node:timers/promises'
import { tryParseJson } from '../../lib/text/json.ts'
import type { AdapterStore } from '../process/adapter-store.ts'
import { isRefusedAs, objectOf, type SlackCall, type SlackResult, textOf } from './slack-api.ts'
import type { ChatKind } from './slack-events.ts'
import { findMentions, readSlackText } from './slack-text.ts'

const WAIT_MS = 1200
/** Names change. */
const FRESH_MS = 24 * 3_600_000
const NAME_MAX = 256
/** Lookups at a time: a message may name many people. */
const LOOKUPS_MAX = 20
/** After Slack did not answer. */
const PAUSE_MS = 30_000

export interface SlackChat {
  readonly kind: ChatKind
  readonly name: string | undefined
}

export interface SlackDirectoryOptions {
  readonly call: SlackCall
  readonly state: Pick<AdapterStore, 'cached' | 'setCached'>
  now(): number
}

export class SlackDirectory {
  readonly #options: SlackDirectoryOptions
  readonly #running = new Map<string, Promise<string | undefined>>()
  #pausedUntil = 0

  constructor(options: SlackDirectoryOptions) {
    this.#options = options
  }

  userName(id: string): Promise<string | undefined> {
    return id.startsWith('B')
      ? this.#find(`bot ${id}`, 'bots.info', { bot: id }, ({ bot }) => textOf(objectOf(bot).name))
      : this.#find(`user ${id}`, 'users.info', { user: id }, ({ user }) => nameOfUser(objectOf(user)))
  }

  /** The id tells whether it is a direct chat, and nearly all others are channels. */
  async chat(id: string): Promise<SlackChat> {
    if (id.startsWith('D')) return { kind: 'dm', name: undefined }
    const found = await this.#find(`chat ${id}`, 'conversations.info', { channel: id }, ({ channel }) => {
      const { is_mpim: isGroup, name } = objectOf(channel)
      return `${isGroup === true ? 'group' : 'channel'} ${textOf(name) ?? ''}`
    })
    if (found === undefined) return { kind: 'channel', name: undefined }
    const at = found.indexOf(' ')
    return { kind: found.startsWith('group') ? 'group' : 'channel', name: found.slice(at + 1) || undefined }
  }

  async readable(markup: string): Promise<string> {
    const { users, channels } = findMentions(markup)
    const [userNames, channelNames] = await Promise.all([
      this.#namesOf(users, (id) => this.userName(id)),
      this.#namesOf(channels, async (id) => (await this.chat(id)).name),
    ])
    return readSlackText(markup, { users: userNames, channels: channelNames })
  }

  async #namesOf(
    ids: readonly string[],
    find: (id: string) => Promise<string | undefined>,
  ): Promise<ReadonlyMap<string, string>> {
    const found = await Promise.all(ids.slice(0, LOOKUPS_MAX).map(async (id) => [id, await find(id)] as const))
    return new Map(found.flatMap(([id, name]) => (name === undefined ? [] : [[id, name]])))
  }

  /** A name that is old or not known is asked for; if that takes too long, it is there the next time. */
  async #find(
    key: string,
    method: string,
    args: Record<string, unknown>,
    read: (result: SlackResult) => string | undefined,
  ): Promise<string | undefined> {
    const { state, now } = this.#options
    const known = objectOf(tryParseJson(state.cached(key) ?? ''))
    const name = textOf(known.name)
    if (name !== undefined && Math.abs(now() - Number(known.at)) < FRESH_MS) return name
    const asked = this.#ask(key, method, args, read)
    return name ?? (await Promise.race([asked, pause(WAIT_MS, undefined, { ref: false })]))
  }

  #ask(
    key: string,
    method: string,
    args: Record<string, unknown>,
    read: (result: SlackResult) => string | undefined,
  ): Promise<string | undefined> {
    const { call, state, now } = this.#options
    const running = this.#running.get(key)
    if (running || this.#pausedUntil > now()) return running ?? Promise.resolve(undefined)
    const asked = call(method, args)
      .then((result) => {
        const name = read(result)?.slice(0, NAME_MAX)
        if (name !== undefined) state.setCached(key, JSON.stringify({ name, at: now() }))
        return name
      })
      .catch((error) => {
        // Without a name the id is shown. One that Slack does not know holds up no other.
        const isOne = isRefusedAs(error, 'user_not_found', 'bot_not_found', 'channel_not_found', 'user_not_visible')
        if (!isOne) this.#pausedUntil = now() + PAUSE_MS
        return undefined
      })
      .finally(() => this.#running.delete(key))
    this.#running.set(key, asked)
    return asked
  }
}

function nameOfUser(user: SlackResult): string | undefined {
  const profile = objectOf(user.profile)
  return textOf(profile.display_name) ?? textOf(profile.real_name) ?? textOf(user.real_name) ?? textOf(user.name)
}
