// Events between Discord's gateway and svc: those of a channel follow each other, and what was missed is read from its history. Written to the
// state: the session with the sequence of the last event before which svc has all, and what is still to be read.
import { setTimeout as pause } from 'node:timers/promises'
import { tryParseJson } from '../../lib/text/json.ts'
import type { FileDownloads } from '../process/file-downloads.ts'
import type { ConnectorContext } from '../process/port.ts'
import type { ChannelDirectory, DiscordPlace } from './channel-directory.ts'
import { type DiscordApi, isMissing } from './discord-api.ts'
import {
  type DiscordBot,
  type DiscordEvent,
  type DiscordFile,
  type Dispatch,
  READ_DISPATCHES,
  readDispatch,
} from './discord-events.ts'
import type { GatewayDispatch, GatewaySession } from './gateway.ts'
import { channelsNamedIn } from './incoming-text.ts'
import { rememberThread } from './message-threads.ts'
import { contentIn, idOf, numberOf, type Payload, payloadOf, payloadsOf } from './payload.ts'
import { isLater, snowflakeAt, timeOfSnowflake } from './snowflake.ts'

/** More events wait at Discord, which replays them. */
const WAITING_MAX = 1000
/** What is older is not answered any more. */
const MISSED_MAX_MS = 7 * 24 * 3_600_000
/** Ids are not quite in the order of events. */
const MARGIN_MS = 60_000
/** Discord describes all servers soon after a session has started. */
const GUILDS_MS = 10 * 60_000
const PAGE = 100
const PAGES_MAX = 100
const FILL_PAUSE_MS = 200
const MISSED = 'missed '
const DIRECT = 'direct '
const TEXT_TYPES: readonly unknown[] = [0, 2, 5, 10, 11, 12, 13]

interface ReceivedEvent {
  readonly session: GatewaySession
  /** The id of a new message. */
  readonly message?: string | undefined
  isDone: boolean
}

interface Gap {
  readonly number: number
  /** The last message before which svc has all. */
  readonly after: string
  readonly at: number
}

export interface EventInboxOptions {
  readonly context: ConnectorContext
  readonly api: DiscordApi
  readonly bot: DiscordBot
  readonly directory: ChannelDirectory
  readonly downloads: FileDownloads<DiscordFile>
  /** Called when svc has the event. */
  onStored(interaction: Payload): Promise<void>
  /** There are too many events. */
  onFull(): void
}

export class EventInbox {
  readonly #options: EventInboxOptions
  /** In the order of the gateway, up to the first that is not done. */
  readonly #received: ReceivedEvent[] = []
  /** The end of the last event of each channel that is being stored. */
  readonly #channels = new Map<string, Promise<void>>()
  #committed: GatewaySession | undefined
  #latest: string
  #room = Promise.withResolvers<void>()
  #isFilling = false

  constructor(options: EventInboxOptions) {
    this.#options = options
    const { id, url, sequence, latest } = payloadOf(tryParseJson(options.context.state.cursor('session') ?? ''))
    // At the first start nothing older is read.
    this.#latest = idOf(latest) ?? snowflakeAt(options.context.now() + MARGIN_MS)
    if (typeof id === 'string' && typeof url === 'string' && typeof sequence === 'number')
      this.#committed = { id, url, sequence }
    options.context.signal.addEventListener('abort', () => this.#room.resolve(), { once: true })
    this.#startFilling()
  }

  session(): GatewaySession | undefined {
    return this.#committed
  }

  /** Or when the process stops. */
  async ready(): Promise<void> {
    while (this.#received.length > 0 && !this.#options.context.signal.aborted) {
      this.#room = Promise.withResolvers()
      await this.#room.promise
    }
  }

  onNewSession(session: GatewaySession): void {
    const { state, now } = this.#options.context
    const gap = this.#gap()
    const isOpen = this.#directChats().length > 0
    const oldest = snowflakeAt(now() - MISSED_MAX_MS)
    const before = isOpen && gap ? gap.after : snowflakeAt(timeOfSnowflake(this.#latest) - MARGIN_MS)
    const after = isLater(before, oldest) ? before : oldest
    state.setCursor('gap', JSON.stringify({ number: (gap?.number ?? 0) + 1, after, at: now() }))
    this.#received.push({ session, isDone: true })
    this.#commit({ isWorthwhile: true })
    this.#startFilling()
  }

  onDispatch({ type, data, session }: GatewayDispatch): void {
    if (type === 'GUILD_CREATE') this.#findMissed(data)
    this.#updateDirectory(type, data)
    const channel = idOf(data.channel_id)
    const isRead = channel !== undefined && READ_DISPATCHES.includes(type)
    const message = type === 'MESSAGE_CREATE' ? idOf(data.id) : undefined
    const received: ReceivedEvent = { session, message, isDone: !isRead }
    this.#received.push(received)
    if (this.#received.length >= WAITING_MAX) this.#options.onFull()
    if (isRead) this.#receive(channel, received, { type, data })
    else this.#commit({ isWorthwhile: false })
  }

  #receive(channel: string, received: ReceivedEvent, { type, data }: Pick<Dispatch, 'type' | 'data'>): void {
    const { guard } = this.#options.context
    const { id, sequence } = received.session
    const dispatch = { type, data, key: `${id.slice(0, 8)}-${sequence}` }
    this.#inOrder(channel, () => this.#store(channel, dispatch)).then(
      guard((isWorthwhile: boolean) => {
        received.isDone = true
        this.#commit({ isWorthwhile })
      }),
      this.#onFault,
    )
  }

  /** Faults of the platform are waited out; any other is a bug and ends the process. */
  readonly #onFault = (error: unknown): void => {
    const { guard, signal } = this.#options.context
    if (!signal.aborted)
      guard(() => {
        throw error
      })()
  }

  #updateDirectory(type: string, data: Payload): void {
    const { directory } = this.#options
    const guild = idOf(data.guild_id)
    if (/^(?:CHANNEL|THREAD)_(?:CREATE|UPDATE)$/.test(type)) directory.remember(data)
    if (type.startsWith('GUILD_ROLE_') && guild !== undefined) directory.forgetRoles(guild)
  }

  #inOrder<T>(channel: string, work: () => Promise<T>): Promise<T> {
    const done = (this.#channels.get(channel) ?? Promise.resolve()).then(work)
    const ended = done.then(
      () => undefined,
      () => undefined,
    )
    this.#channels.set(channel, ended)
    const forget = (): void => {
      if (this.#channels.get(channel) === ended) this.#channels.delete(channel)
    }
    ended.then(forget, this.#onFault)
    return done
  }

  /** Whether the event was one for svc. */
  async #store(channel: string, dispatch: Dispatch): Promise<boolean> {
    const { directory, onStored } = this.#options
    const guild = idOf(dispatch.data.guild_id)
    await this.#fill(channel)
    const place = await directory.placeOf(channel, guild)
    const isStored = await this.#storeEvents(place, guild, dispatch)
    if (isStored && dispatch.type === 'INTERACTION_CREATE') await onStored(dispatch.data)
    return isStored
  }

  async #storeEvents(place: DiscordPlace, guild: string | undefined, dispatch: Dispatch): Promise<boolean> {
    const { context, downloads } = this.#options
    const events = await this.#read(place, guild, dispatch)
    const message = idOf(dispatch.data.message_id) ?? idOf(dispatch.data.id)
    if (events.length > 0 && message !== undefined) rememberThread(context.state, message, place.topic)
    const channel = idOf(dispatch.data.channel_id)
    if (events.length > 0 && guild === undefined && channel !== undefined) this.#rememberDirectChat(channel)
    for (const { event, files } of events) {
      if (files.length === 0) await context.receive(event)
      else await downloads.storeWith(event, files)
    }
    return events.length > 0
  }

  async #read(place: DiscordPlace, guild: string | undefined, dispatch: Dispatch): Promise<DiscordEvent[]> {
    const { bot, directory, context } = this.#options
    const { data } = dispatch
    const origin = idOf(payloadOf(data.message_reference).channel_id)
    const text = contentIn(data.content) + contentIn(payloadOf(data.referenced_message).content)
    const named = new Set([...channelsNamedIn(text), ...(origin === undefined ? [] : [origin])])
    const channels = new Map<string, string | undefined>()
    for (const id of named) channels.set(id, await directory.channelName(id))
    const hasRoles = text.includes('<@&') || (Array.isArray(data.mention_roles) && data.mention_roles.length > 0)
    const roles = guild !== undefined && hasRoles ? await directory.rolesOf(guild) : { names: {}, own: undefined }
    const names: Readonly<Record<string, unknown>> = roles.names
    const nameIn = (id: string): string | undefined => (typeof names[id] === 'string' ? names[id] : undefined)
    return readDispatch(
      {
        bot,
        place,
        areBotsHeard: context.settings.bots === 'allow',
        ownRole: roles.own,
        names: { role: nameIn, channel: (id) => channels.get(id) },
      },
      dispatch,
    )
  }

  /** A session is resumed after the events before which all are done. */
  #commit({ isWorthwhile }: { readonly isWorthwhile: boolean }): void {
    let last: ReceivedEvent | undefined
    while (this.#received[0]?.isDone) {
      last = this.#received.shift()
      const { message } = last ?? {}
      if (message !== undefined && isLater(message, this.#latest)) this.#latest = message
    }
    if (last) this.#committed = last.session
    if (last && isWorthwhile)
      this.#options.context.state.setCursor('session', JSON.stringify({ ...last.session, latest: this.#latest }))
    if (this.#received.length === 0) this.#room.resolve()
  }

  #gap(): Gap | undefined {
    const { number, after, at } = payloadOf(tryParseJson(this.#options.context.state.cursor('gap') ?? ''))
    const [count, from, time] = [numberOf(number), idOf(after), numberOf(at)]
    return count === undefined || from === undefined || time === undefined
      ? undefined
      : { number: count, after: from, at: time }
  }

  /** A cursor for each channel of the server with messages that svc may lack. */
  #findMissed({ channels, threads, joined_at }: Payload): void {
    const { state, now } = this.#options.context
    const gap = this.#gap()
    if (!gap || Math.abs(now() - gap.at) > GUILDS_MS) return
    const joined = typeof joined_at === 'string' ? Date.parse(joined_at) : Number.NaN
    const joinedId = Number.isNaN(joined) ? '0' : snowflakeAt(joined)
    const after = isLater(joinedId, gap.after) ? joinedId : gap.after
    for (const { id, type, last_message_id } of [...payloadsOf(channels), ...payloadsOf(threads)]) {
      const [channel, last] = [idOf(id), idOf(last_message_id)]
      if (channel === undefined || last === undefined || !TEXT_TYPES.includes(type) || !isLater(last, after)) continue
      const name = MISSED + channel
      if (state.cursor(name) === undefined) state.setCursor(name, after)
    }
    this.#startFilling()
  }

  /** Of which svc may lack messages: Discord does not list direct chats, so all that are known are read. */
  #directChats(): string[] {
    const gap = this.#gap()
    if (!gap) return []
    return this.#options.context.state
      .cursors(DIRECT)
      .flatMap(({ name, value }) => (value === String(gap.number) ? [] : [name.slice(DIRECT.length)]))
  }

  #rememberDirectChat(channel: string): void {
    const { state } = this.#options.context
    const number = this.#gap()?.number
    if (number !== undefined && state.cursor(DIRECT + channel) === undefined)
      state.setCursor(DIRECT + channel, String(number))
  }

  #startFilling(): void {
    if (this.#isFilling) return
    this.#isFilling = true
    this.#fillAll().catch(this.#onFault)
  }

  /** One channel after the other. */
  async #fillAll(): Promise<void> {
    const { state, signal } = this.#options.context
    for (;;) {
      const missed = state.cursors(MISSED).map(({ name }) => name.slice(MISSED.length))
      const channels = [...missed, ...this.#directChats()]
      if (channels.length === 0) break
      for (const channel of channels) {
        await this.#inOrder(channel, () => this.#fill(channel))
        await pause(FILL_PAUSE_MS, undefined, { signal })
      }
    }
    this.#isFilling = false
  }

  /** Reads what was missed in the channel, before anything newer of it is stored. */
  async #fill(channel: string): Promise<void> {
    const { state, log } = this.#options.context
    const [missed, direct, gap] = [state.cursor(MISSED + channel), state.cursor(DIRECT + channel), this.#gap()]
    const isDirectOpen = direct !== undefined && gap !== undefined && direct !== String(gap.number)
    const after = missed ?? (isDirectOpen ? gap.after : undefined)
    if (after === undefined) return
    const isWhole = await this.#fillAfter(channel, after)
    if (!isWhole) log.warn({ channel }, 'not all messages that were missed could be read')
    state.setCursor(MISSED + channel, undefined)
    if (isDirectOpen) state.setCursor(DIRECT + channel, String(gap.number))
  }

  async #fillAfter(channel: string, from: string): Promise<boolean> {
    const { api, directory, context } = this.#options
    const guild = await directory.guildOf(channel)
    if (!guild) return false
    const place = await directory.placeOf(channel, guild.id)
    for (let [pages, after] = [0, from]; pages < PAGES_MAX; pages++) {
      const page = await this.#page(api, channel, after)
      if (!page) return false
      for (const data of page) await this.#storeEvents(place, guild.id, { type: 'MESSAGE_CREATE', data, key: 'missed' })
      after = idOf(page.at(-1)?.id) ?? after
      if (page.length < PAGE) return true
      context.state.setCursor(MISSED + channel, after)
    }
    return false
  }

  /** The oldest first; undefined if Discord does not give them. */
  async #page(api: DiscordApi, channel: string, after: string): Promise<Payload[] | undefined> {
    const path = `/channels/${channel}/messages` as const
    const found = await api.readPatiently(path, { after, limit: String(PAGE) }).catch((error) => {
      if (isMissing(error)) return undefined
      throw error
    })
    if (found === undefined) return undefined
    const messages = payloadsOf(found).flatMap((message) => {
      const id = idOf(message.id)
      return id !== undefined && isLater(id, after) ? [{ id: BigInt(id), message }] : []
    })
    return messages.sort((a, b) => (a.id < b.id ? -1 : 1)).map(({ message }) => message)
  }
}
