// Reads from the history what Slack did not deliver: it repeats an event for some minutes only, and not in order. The last stored
// message of each conversation, a channel or a thread, is a cursor.
import { setTimeout as pause } from 'node:timers/promises'
import { type ConnectorContext, PlatformError } from '../process/port.ts'
import { isSlackTokenFault, objectOf, objectsOf, type SlackCall, type SlackResult, textOf } from './slack-api.ts'
import { readMessage, type SlackContext, type SlackEvent } from './slack-events.ts'

const CURSOR = 'seen '
/** Conversations that are remembered, and read after a gap: those where something was written last. */
const CONVERSATIONS_MAX = 2000
const READ_MAX = 500
const PRUNE_EVERY = 500
const PAGE = 200
const PAGES_MAX = 10
/** Slack allows 50 calls a minute; the agent may read, too. */
const PACE_MS = 2000
/** Before those that could not be read are tried again. */
const RETRY_MS = 30_000
const LIMITED_MAX_S = 60
const ATTEMPTS = 4

export type StoreEvent = (event: SlackEvent) => Promise<void>

interface Conversation {
  readonly channel: string
  readonly thread: string | undefined
}

export interface SlackGapsOptions extends Pick<ConnectorContext, 'state' | 'log' | 'signal'> {
  readonly call: SlackCall
  readonly paceMs?: number | undefined
  readonly retryMs?: number | undefined
}

export class SlackGaps {
  readonly #options: SlackGapsOptions
  /** By conversation: after which message is to be read. Its cursor stays there until then. */
  readonly #pending = new Map<string, string>()
  /** Those that are read without waiting for their next message. */
  readonly #unread = new Set<string>()
  #added = 0
  #isReading = false

  constructor(options: SlackGapsOptions) {
    this.#options = options
  }

  /** After a time without a connection. */
  begin(): void {
    for (const [at, { name, value }] of this.#prune().entries()) {
      this.#pending.set(name, value)
      if (at < READ_MAX) this.#unread.add(name)
    }
  }

  /** Before the first message of a conversation is stored: after a crash it is read again. */
  expect(conversation: Conversation, ts: string): void {
    if (this.#cursorOf(conversation) === undefined) this.#add(conversation, before(ts))
  }

  /** A message that is not taken now. */
  missed(conversation: Conversation, ts: string): void {
    const key = keyOf(conversation)
    const oldest = this.#pending.get(key)
    if (oldest === undefined && this.#pending.size >= 2 * CONVERSATIONS_MAX) return
    this.#unread.add(key)
    if (oldest !== undefined && microseconds(oldest) < microseconds(ts)) return
    this.#pending.set(key, before(ts))
    const last = this.#cursorOf(conversation)
    if (last !== undefined && microseconds(last) >= microseconds(ts)) this.#setCursor(conversation, before(ts))
  }

  stored(conversation: Conversation, ts: string): void {
    if (this.#pending.has(keyOf(conversation))) return
    const last = this.#cursorOf(conversation)
    if (last === undefined || microseconds(last) < microseconds(ts)) this.#setCursor(conversation, ts)
  }

  /** Stores what is missing in one conversation. Never fails: what cannot be read is read later, or is gone. */
  async fill(context: SlackContext, { channel, thread }: Conversation, store: StoreEvent, next?: SlackEvent) {
    const conversation = { channel, thread }
    const key = keyOf(conversation)
    const oldest = this.#pending.get(key)
    if (oldest === undefined) return
    // What is missing came after this event.
    if (next?.position && microseconds(next.position.ts) <= microseconds(oldest)) return
    const messages = await this.#read(conversation, oldest)
    if (messages === undefined) return
    this.#pending.delete(key)
    for (const message of messages) {
      if (thread === undefined) this.#expectThread(channel, message)
      for (const event of readMessage(context, message, channel, next?.kind)) await store(event)
    }
  }

  /** Reads conversations one after the other, until all could be read; a second call has no effect while the first one runs. */
  async fillAll(fill: (conversation: Conversation) => Promise<void>): Promise<void> {
    if (this.#isReading) return
    this.#isReading = true
    const { signal, paceMs = PACE_MS, retryMs = RETRY_MS } = this.#options
    const failed = new Set<string>()
    try {
      while (this.#unread.size + failed.size > 0) {
        const [next] = this.#unread
        if (next === undefined) {
          await pause(retryMs, undefined, { signal })
          for (const key of failed) this.#unread.add(key)
          failed.clear()
          continue
        }
        this.#unread.delete(next)
        if (!this.#pending.has(next)) continue
        await fill(conversationOf(next))
        if (this.#pending.has(next)) failed.add(next)
        await pause(paceMs, undefined, { signal })
      }
    } finally {
      this.#isReading = false
    }
  }

  /** A message with answers that came in the gap, also if its thread is not known. */
  #expectThread(channel: string, message: SlackResult): void {
    const ts = textOf(message.ts)
    if (ts === undefined || !(Number(message.reply_count) > 0)) return
    const thread = { channel, thread: ts }
    if (this.#cursorOf(thread) !== undefined) return
    this.#pending.set(keyOf(thread), ts)
    this.#unread.add(keyOf(thread))
    this.#add(thread, ts)
  }

  /** In the order of time; undefined if Slack cannot be asked now. */
  async #read(conversation: Conversation, oldest: string): Promise<SlackResult[] | undefined> {
    const { log } = this.#options
    const { channel, thread } = conversation
    const found: SlackResult[] = []
    let cursor: string | undefined
    try {
      for (let page = 0; page < PAGES_MAX; page++) {
        const args = { channel, oldest, limit: PAGE, cursor, ...(thread === undefined ? {} : { ts: thread }) }
        const result = await this.#call(`conversations.${thread === undefined ? 'history' : 'replies'}`, args)
        found.push(...objectsOf(result.messages))
        cursor = textOf(objectOf(result.response_metadata).next_cursor)
        if (cursor === undefined) return inOrder(found, oldest)
      }
      log.warn(
        { channel, messages: found.length },
        'a gap in a chat of Slack is too long, and older messages are missing',
      )
      return inOrder(found, oldest)
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error
      log.warn({ channel, detail: error.message }, 'the history of a chat of Slack cannot be read')
      if (error.kind !== 'refused' || isSlackTokenFault(error)) return undefined
      this.#options.state.setCursor(CURSOR + keyOf(conversation), undefined)
      return []
    }
  }

  async #call(method: string, args: Record<string, unknown>): Promise<SlackResult> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#options.call(method, args)
      } catch (error) {
        const isLimited = error instanceof PlatformError && error.kind === 'rate_limited'
        if (!isLimited || attempt === ATTEMPTS) throw error
        const seconds = Math.min(LIMITED_MAX_S, Math.max(1, error.retryAfterS ?? 1))
        await pause(seconds * 1000, undefined, { signal: this.#options.signal })
      }
    }
  }

  #cursorOf(conversation: Conversation): string | undefined {
    return this.#options.state.cursor(CURSOR + keyOf(conversation))
  }

  #add(conversation: Conversation, ts: string): void {
    this.#setCursor(conversation, ts)
    if (++this.#added >= PRUNE_EVERY) this.#prune()
  }

  #setCursor(conversation: Conversation, ts: string): void {
    this.#options.state.setCursor(CURSOR + keyOf(conversation), ts)
  }

  /** The newest first; forgets those that have had no message for long. */
  #prune(): { readonly name: string; readonly value: string }[] {
    const { state } = this.#options
    this.#added = 0
    const all = state
      .cursors(CURSOR)
      .map(({ name, value }) => ({ name: name.slice(CURSOR.length), value }))
      .sort((one, other) => (microseconds(one.value) < microseconds(other.value) ? 1 : -1))
    for (const { name } of all.slice(CONVERSATIONS_MAX)) state.setCursor(CURSOR + name, undefined)
    return all.slice(0, CONVERSATIONS_MAX)
  }
}

function keyOf({ channel, thread }: Conversation): string {
  return thread === undefined ? channel : `${channel} ${thread}`
}

function conversationOf(key: string): Conversation {
  const [channel = '', thread] = key.split(' ', 2)
  return { channel, thread }
}

function inOrder(messages: readonly SlackResult[], oldest: string): SlackResult[] {
  const after = microseconds(oldest)
  return messages
    .filter(({ ts }) => typeof ts === 'string' && microseconds(ts) > after)
    .sort((one, other) => (microseconds(String(one.ts)) < microseconds(String(other.ts)) ? -1 : 1))
}

/** 0 for text that is no time of Slack. */
function microseconds(ts: string): bigint {
  const [, seconds, fraction = ''] = /^(\d{1,12})\.(\d{1,9})$/.exec(ts) ?? []
  return seconds === undefined ? 0n : BigInt(seconds + fraction.padEnd(6, '0').slice(0, 6))
}

function before(ts: string): string {
  const digits = String(microseconds(ts) - 1n).padStart(7, '0')
  return `${digits.slice(0, -6)}.${digits.slice(-6)}`
}
