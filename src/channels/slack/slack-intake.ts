// Events on their way to svc: those of a chat follow each other, a repeat joins the first delivery, and what is missing before a
// message is read from the history.
import { FileDownloads } from '../process/file-downloads.ts'
import type { ConnectorContext, InboundEvent } from '../process/port.ts'
import type { SlackCall } from './slack-api.ts'
import type { SlackDirectory } from './slack-directory.ts'
import type { SlackContext, SlackEvent, SlackFile } from './slack-events.ts'
import { fetchSlackFile } from './slack-files.ts'
import type { SlackGaps } from './slack-gaps.ts'

/** Events that wait for svc. Slack delivers the others again, or they are read from the history. */
const WAITING_MAX = 500
/** Stored events whose repeats are known without asking svc. */
const RECENT_MAX = 1000

export interface SlackIntakeOptions {
  readonly context: ConnectorContext
  readonly call: SlackCall
  readonly directory: SlackDirectory
  readonly gaps: SlackGaps
}

export class SlackIntake {
  readonly #options: SlackIntakeOptions
  readonly #waiting = new Map<string, Promise<void>>()
  /** The end of the last work of each chat. */
  readonly #queues = new Map<string, Promise<void>>()
  readonly #recent = new Set<string>()
  readonly #downloads: FileDownloads<SlackFile>
  #hasMissed = false

  constructor(options: SlackIntakeOptions) {
    this.#options = options
    const { context, call } = options
    this.#downloads = new FileDownloads(context, (...file) => fetchSlackFile(context, call, ...file))
  }

  /** Resolves when svc has the event; undefined if too many wait. Rejected only when the process stops. */
  receive(slack: SlackContext, event: SlackEvent): Promise<void> | undefined {
    const { gaps } = this.#options
    const { key, channel, position } = event
    if (this.#recent.has(key)) return Promise.resolve()
    const waiting = this.#waiting.get(key)
    if (waiting) return waiting
    const conversation = { channel, thread: position?.thread }
    if (position) gaps.expect(conversation, position.ts)
    if (this.#waiting.size >= WAITING_MAX) {
      if (position) gaps.missed(conversation, position.ts)
      this.#hasMissed = true
      return undefined
    }
    const stored = this.#inTurn(channel, async () => {
      if (position) await gaps.fill(slack, conversation, (each) => this.#store(slack, each), event)
      await this.#store(slack, event)
    })
    this.#waiting.set(key, stored)
    const end = (): void => void this.#waiting.delete(key)
    stored.then(end, end)
    stored.then(() => this.#readMissed(slack)).catch(() => undefined)
    return stored
  }

  /** After a time without a connection: reads what was written meanwhile. */
  readGaps(slack: SlackContext): Promise<void> {
    const { gaps } = this.#options
    return gaps.fillAll((conversation) =>
      this.#inTurn(conversation.channel, () => gaps.fill(slack, conversation, (event) => this.#store(slack, event))),
    )
  }

  async #readMissed(slack: SlackContext): Promise<void> {
    if (!this.#hasMissed || this.#waiting.size > 0) return
    this.#hasMissed = false
    await this.readGaps(slack)
  }

  #inTurn(channel: string, work: () => Promise<void>): Promise<void> {
    const done = (this.#queues.get(channel) ?? Promise.resolve()).then(work)
    const ended = done.catch(() => undefined)
    this.#queues.set(channel, ended)
    ended.then(() => {
      if (this.#queues.get(channel) === ended) this.#queues.delete(channel)
    })
    return done
  }

  async #store(slack: SlackContext, event: SlackEvent): Promise<void> {
    const { context, gaps } = this.#options
    const { key, channel, position, pane, files } = event
    if (this.#recent.has(key)) return
    if (pane !== undefined) return context.state.setCursor(paneCursor(channel), pane)
    const inbound = await this.#complete(slack, event)
    if (files.length === 0) await context.receive(inbound)
    else await this.#downloads.storeWith(inbound, files)
    if (position) gaps.stored({ channel, thread: position.thread }, position.ts)
    this.#recent.add(key)
    const [oldest] = this.#recent
    if (this.#recent.size > RECENT_MAX && oldest !== undefined) this.#recent.delete(oldest)
  }

  async #complete({ bot }: SlackContext, slackEvent: SlackEvent): Promise<InboundEvent> {
    const { context, directory } = this.#options
    const { channel, user, markup, position, event, kind } = slackEvent
    const isChatKnown = kind === 'dm' || (kind !== undefined && !position)
    const [chat, name, content] = await Promise.all([
      isChatKnown ? { kind, name: undefined } : directory.chat(channel),
      event.sender_name ?? (user === undefined ? undefined : directory.userName(user)),
      markup === undefined ? undefined : directory.readable(markup),
    ])
    const chatKind = kind ?? chat.kind
    return {
      ...event,
      chat_jid: `${context.account}:${bot.team}/${chatKind}/${channel}`,
      content,
      sender: user === undefined ? undefined : `slack:${bot.team}/user/${user}`,
      sender_name: name,
      is_group: chatKind !== 'dm',
      chat_name: chat.name,
      // The history of a chat does not say of which kind it is.
      verb: chatKind === 'dm' && event.verb === 'mention' ? undefined : event.verb,
    }
  }
}

/** Where the thread of the pane of a direct chat is remembered. */
export function paneCursor(channel: string): string {
  return `pane ${channel}`
}
