// What Discord's channels and roles are called, and which channels are threads. Asked for once, and kept in the cache of the adapter.

import { tryParseJson } from '../../lib/text/json.ts'
import type { AdapterStore } from '../process/adapter-store.ts'
import { type DiscordApi, isMissing } from './discord-api.ts'
import { idOf, type Payload, payloadOf, payloadsOf, shortText } from './payload.ts'

const THREAD_TYPES = [10, 11, 12]
const DIRECT_TYPE = 1

export interface ChannelRecord {
  readonly guild?: string | undefined
  readonly name?: string | undefined
  /** Of a thread: the channel that it belongs to. */
  readonly parent?: string | undefined
  readonly isDirect?: boolean | undefined
}

export interface GuildRoles {
  /** The role that Discord made for the bot; people mention it instead of the bot. */
  readonly own?: string | undefined
  readonly names: Readonly<Record<string, unknown>>
}

/** Where events of a channel belong. */
export interface DiscordPlace {
  readonly jid: string
  /** Of the thread. */
  readonly topic?: string | undefined
  readonly name?: string | undefined
  readonly isGroup: boolean
}

export class ChannelDirectory {
  readonly #account: string
  readonly #state: AdapterStore
  readonly #api: DiscordApi
  readonly #botId: string

  constructor(options: { account: string; state: AdapterStore; api: DiscordApi; botId: string }) {
    this.#account = options.account
    this.#state = options.state
    this.#api = options.api
    this.#botId = options.botId
  }

  async placeOf(channel: string, guild: string | undefined): Promise<DiscordPlace> {
    if (guild === undefined) return { jid: `${this.#account}:dm/${channel}`, isGroup: false }
    const { parent, name } = (await this.#channel(channel, { isOwn: true })) ?? {}
    const shown = parent === undefined ? name : (await this.#channel(parent, { isOwn: true }))?.name
    return {
      jid: `${this.#account}:${guild}/${parent ?? channel}`,
      topic: parent === undefined ? undefined : channel,
      name: shown === undefined ? undefined : `#${shown}`,
      isGroup: true,
    }
  }

  /** Undefined for direct chats, and if the bot may not see the channel. */
  async guildOf(channel: string): Promise<{ readonly id: string | undefined } | undefined> {
    const found = await this.#channel(channel, { isOwn: true })
    return found && { id: found.isDirect ? undefined : found.guild }
  }

  async channelName(channel: string): Promise<string | undefined> {
    return (await this.#channel(channel, { isOwn: false }))?.name
  }

  async rolesOf(guild: string): Promise<GuildRoles> {
    const cached = tryParseJson(this.#state.cached(`roles ${guild}`) ?? '')
    if (cached !== undefined) {
      const { own, names } = payloadOf(cached)
      return { own: idOf(own), names: payloadOf(names) }
    }
    const roles = payloadsOf(await this.#find(`/guilds/${guild}/roles`))
    const found: GuildRoles = {
      own: idOf(roles.find(({ tags }) => payloadOf(tags).bot_id === this.#botId)?.id),
      names: Object.fromEntries(roles.map(({ id, name }) => [String(id), shortText(name)])),
    }
    this.#state.setCached(`roles ${guild}`, JSON.stringify(found))
    return found
  }

  /** The next lookup asks Discord. */
  forgetRoles(guild: string): void {
    if (this.#state.cached(`roles ${guild}`)) this.#state.setCached(`roles ${guild}`, '')
  }

  /** As an event describes it. */
  remember(channel: Payload): void {
    const id = idOf(channel.id)
    if (id !== undefined) this.#state.setCached(`channel ${id}`, JSON.stringify(recordOf(channel)))
  }

  /** A channel that was hidden is asked for again when events of it arrive, not for each text that names it. */
  async #channel(id: string, { isOwn }: { isOwn: boolean }): Promise<ChannelRecord | undefined> {
    const cached = tryParseJson(this.#state.cached(`channel ${id}`) ?? '')
    if (cached !== undefined && (cached !== null || !isOwn)) return readRecord(cached)
    const found = await this.#find(`/channels/${id}`)
    const record = found === undefined ? undefined : recordOf(payloadOf(found))
    this.#state.setCached(`channel ${id}`, JSON.stringify(record ?? null))
    return record
  }

  async #find(path: `/${string}`): Promise<unknown> {
    return this.#api.readPatiently(path).catch((error) => {
      if (isMissing(error)) return undefined
      throw error
    })
  }
}

function recordOf({ guild_id, name, parent_id, type }: Payload): ChannelRecord {
  return {
    guild: idOf(guild_id),
    name: shortText(name),
    parent: THREAD_TYPES.includes(Number(type)) ? idOf(parent_id) : undefined,
    isDirect: type === DIRECT_TYPE,
  }
}

function readRecord(cached: unknown): ChannelRecord | undefined {
  if (cached === null) return undefined
  const { guild, name, parent, isDirect } = payloadOf(cached)
  return { guild: idOf(guild), name: shortText(name), parent: idOf(parent), isDirect: isDirect === true }
}
