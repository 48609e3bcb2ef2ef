// Follows messages: prints each when it arrives and again when it reaches its final state, until Ctrl-C.
import { type MessageState, OPEN_STATES } from '../../core/messages/message-states.ts'
import { inboxResource } from '../../resources/inbox.ts'
import type { SvcContext } from '../command.ts'
import { growingTablePrinter } from './growing-table.ts'
import { type MessageFilter, messageTable } from './message-table.ts'
import { followStore } from './store-follower.ts'

const PAGE_SIZE = 1000

export async function followMessages(svc: SvcContext, filter: MessageFilter): Promise<void> {
  await followStore(svc, async () => {
    const follower = await MessageFollower.start(svc, filter)
    return () => follower.poll()
  })
}

class MessageFollower {
  readonly #svc: SvcContext
  readonly #filter: MessageFilter
  readonly #show: (messages: readonly MessageState[]) => void
  /** Messages without a final state. */
  readonly #open = new Set<number>()
  /** Messages after `#cursor` that were read already. */
  #seen = new Set<number>()
  /** The last routed message. Later ones have no folder yet, so every poll reads them again. */
  #cursor = 0

  private constructor(svc: SvcContext, filter: MessageFilter) {
    this.#svc = svc
    this.#filter = filter
    this.#show = growingTablePrinter(svc.print, (rows) => messageTable(svc, rows, filter))
  }

  static async start(svc: SvcContext, filter: MessageFilter): Promise<MessageFollower> {
    const follower = new MessageFollower(svc, filter)
    await follower.#findOpen()
    const { messages } = await svc.call(inboxResource.verbs.states, filter)
    follower.#track(messages)
    follower.#show(messages)
    return follower
  }

  async poll(): Promise<void> {
    const { folder, state } = this.#filter
    const matches = (message: MessageState): boolean => state === undefined || message.state === state
    for (let isMore = true; isMore; ) {
      const request = { folder, after: this.#cursor, limit: PAGE_SIZE }
      const { messages, routed } = await this.#svc.call(inboxResource.verbs.states, request)
      const unseen = messages.filter(({ seq }) => !this.#seen.has(seq))
      this.#track(unseen)
      this.#show(unseen.filter(matches))
      isMore = messages.length === PAGE_SIZE
      this.#cursor = isMore ? (messages.at(-1)?.seq ?? routed) : Math.max(this.#cursor, routed)
      this.#seen = new Set([...this.#seen].filter((seq) => seq > this.#cursor))
    }
    this.#show((await this.#takeFinished()).filter(matches))
  }

  /** Must run before the first list is read: `poll` finds only messages that arrive or finish after this. */
  async #findOpen(): Promise<void> {
    const { folder } = this.#filter
    for (const state of OPEN_STATES) {
      const page = await this.#svc.call(inboxResource.verbs.states, { folder, state, limit: PAGE_SIZE })
      this.#track(page.messages)
      this.#cursor ||= page.routed
    }
    this.#seen.clear()
  }

  #track(messages: readonly MessageState[]): void {
    for (const { seq, state } of messages) {
      this.#seen.add(seq)
      if (OPEN_STATES.includes(state)) this.#open.add(seq)
    }
  }

  /** Returns open messages that have reached a final state, and stops tracking them. */
  async #takeFinished(): Promise<MessageState[]> {
    const finished: MessageState[] = []
    const open = [...this.#open]
    for (let at = 0; at < open.length; at += PAGE_SIZE) {
      const request = { seqs: open.slice(at, at + PAGE_SIZE), limit: PAGE_SIZE }
      const { messages } = await this.#svc.call(inboxResource.verbs.states, request)
      finished.push(...messages.filter(({ state }) => !OPEN_STATES.includes(state)))
    }
    for (const { seq } of finished) this.#open.delete(seq)
    return finished
  }
}
