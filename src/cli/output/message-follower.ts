// Messages as they come, and again when they have come to their end, until Ctrl-C.
import { type MessageState, OPEN_STATES } from '../../core/messages/message-states.ts'
import { inboxResource } from '../../resources/inbox.ts'
import type { SvcContext } from '../command.ts'
import { type MessageFilter, messageTablePrinter } from './message-table.ts'
import { followStore } from './store-follower.ts'

/** So many are asked for at once. */
const PIECE = 1000

/** Each message when it arrives, and again when it has come to its end. */
export async function followMessages(svc: SvcContext, only: MessageFilter): Promise<void> {
  await followStore(svc, async () => {
    const following = await MessageFollower.start(svc, only)
    return () => following.poll()
  })
}

/** What has been shown, and what has not come to its end. */
class MessageFollower {
  readonly #svc: SvcContext
  readonly #only: MessageFilter
  readonly #show: (messages: readonly MessageState[]) => void
  readonly #open = new Set<number>()
  /** What was shown of those behind `#from`. */
  #seen = new Set<number>()
  /** What is not routed has no folder yet, so all behind the last one that is are asked for again. */
  #from = 0

  private constructor(svc: SvcContext, only: MessageFilter) {
    this.#svc = svc
    this.#only = only
    this.#show = messageTablePrinter(svc, only)
  }

  static async start(svc: SvcContext, only: MessageFilter): Promise<MessageFollower> {
    const following = new MessageFollower(svc, only)
    await following.#findOpen()
    const { messages } = await svc.call(inboxResource.verbs.states, only)
    following.#note(messages)
    following.#show(messages)
    return following
  }

  async poll(): Promise<void> {
    const { folder, state } = this.#only
    const fits = (message: MessageState): boolean => state === undefined || message.state === state
    for (let isMore = true; isMore; ) {
      const asked = { folder, after: this.#from, limit: PIECE }
      const { messages, routed } = await this.#svc.call(inboxResource.verbs.states, asked)
      const fresh = messages.filter(({ seq }) => !this.#seen.has(seq))
      this.#note(fresh)
      this.#show(fresh.filter(fits))
      isMore = messages.length === PIECE
      this.#from = isMore ? (messages.at(-1)?.seq ?? routed) : Math.max(this.#from, routed)
      this.#seen = new Set([...this.#seen].filter((seq) => seq > this.#from))
    }
    this.#show((await this.#ended()).filter(fits))
  }

  /** First of all: what arrives or ends from now on is found by `look`. */
  async #findOpen(): Promise<void> {
    const { folder } = this.#only
    for (const state of OPEN_STATES) {
      const page = await this.#svc.call(inboxResource.verbs.states, { folder, state, limit: PIECE })
      this.#note(page.messages)
      this.#from ||= page.routed
    }
    this.#seen.clear()
  }

  #note(messages: readonly MessageState[]): void {
    for (const { seq, state } of messages) {
      this.#seen.add(seq)
      if (OPEN_STATES.includes(state)) this.#open.add(seq)
    }
  }

  /** Those that have come to their end since; they are open no more. */
  async #ended(): Promise<MessageState[]> {
    const over: MessageState[] = []
    const open = [...this.#open]
    for (let at = 0; at < open.length; at += PIECE) {
      const asked = { seqs: open.slice(at, at + PIECE), limit: PIECE }
      const { messages } = await this.#svc.call(inboxResource.verbs.states, asked)
      over.push(...messages.filter(({ state }) => !OPEN_STATES.includes(state)))
    }
    for (const { seq } of over) this.#open.delete(seq)
    return over
  }
}
