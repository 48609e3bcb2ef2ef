// The text that an agent is writing is one message of the platform, sent once and then changed. The first message of the turn takes
// it over. What is on the disk is only its id; a lost text does not matter.
import { setTimeout as pause } from 'node:timers/promises'
import { type Place, PlatformError } from './port.ts'
import { type Outgoing, perform, type SendContext, sendPart } from './send-part.ts'
import { splitText } from './text-splitter.ts'

export interface DraftsOptions extends SendContext {
  /** An error that is no fault of the platform. */
  onFault(error: unknown): void
  /** How long a message waits for a request of its draft. */
  readonly waitMs?: number | undefined
}

interface OpenDraft {
  readonly out: Outgoing
  text: string
  /** What the platform has. */
  shown: string | undefined
  /** The platform refuses it. */
  isOver: boolean
  timer: NodeJS.Timeout | undefined
  /** The request that is under way. */
  request: Promise<void> | undefined
}

/** Follows the first part of a longer text. */
const MORE = '\n…'
/** Drafts, or times of chats, that are remembered; the oldest give way. */
const KEEP_MAX = 1000
const WAIT_MS = 5000
const REMOVE_ATTEMPTS = 5
const REMOVE_PAUSE_MS = 5000
/** Of a pause that the platform asks for. */
const PAUSE_MAX_MS = 3_600_000

export class Drafts {
  readonly #options: DraftsOptions
  readonly #open = new Map<string, OpenDraft>()
  /** Requests of svc may arrive after the message. */
  readonly #ended = new Set<string>()
  /** When each chat may be changed again. */
  readonly #dueAt = new Map<string, number>()
  readonly #working = new Set<Promise<void>>()
  readonly #closing = new AbortController()

  constructor(options: DraftsOptions) {
    this.#options = options
  }

  /** Shows the text as soon as the pace of the chat allows. `key` is that of the turn. */
  show({ text, ...out }: Outgoing & { readonly text: string }): void {
    const key = draftKey(out)
    const { state } = this.#options
    if (this.#ended.has(key) || this.#closing.signal.aborted) return
    let draft = this.#open.get(key)
    if (!draft) {
      const earlier = state.sendAttempt(key, 0)
      if (earlier?.isSent && earlier.id === undefined) return
      draft = { out, text: '', shown: undefined, isOver: false, timer: undefined, request: undefined }
      this.#open.set(key, draft)
      dropOldest(this.#open)
    }
    draft.text = this.#firstPart(text)
    this.#showSoon(key, draft)
  }

  /** For a turn that sends no message. Its next attempt may write a draft again. */
  remove(out: Outgoing): void {
    const key = draftKey(out)
    void this.#run(async () => {
      const [draft] = await this.#stop(key)
      await draft?.request
      await this.#delete(key, out)
      this.#ended.delete(key)
    })
  }

  /**
   * Turns the draft into the message, if there is one: the first part of the message then counts as sent. Throws if another attempt
   * at the message may succeed.
   */
  async replace(out: Outgoing, turn: string, text: string): Promise<void> {
    const { connector, state } = this.#options
    if (connector.draftEveryMs === undefined) return
    const { key, ...place } = out
    const draftOf = draftKey({ ...place, key: turn })
    const [draft, isIdle] = await this.#stop(draftOf)
    if (!isIdle) {
      // A change that is under way would overwrite the message.
      void this.#run(async () => {
        await draft?.request
        await this.#delete(draftOf, place)
      })
      return
    }
    const id = await this.#findId(draftOf, out, text)
    if (id === undefined) return
    try {
      if (draft?.shown !== text) await perform(connector.actions.edit, { ...targetOf(place), id, text })
    } catch (error) {
      if (!isFinal(error)) throw error
      // A person has deleted it, or it is too old.
      state.endSend(draftOf, 0, undefined)
      return connector.actions.delete?.({ ...targetOf(place), id }).catch(() => undefined)
    }
    state.endDraft(draftOf, key, id)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    for (const { timer } of this.#open.values()) clearTimeout(timer)
    await Promise.all(this.#working)
  }

  /** The id of the message of a draft; a lost one is looked for where the platform allows it. */
  async #findId(key: string, out: Outgoing, text: string): Promise<string | undefined> {
    if (this.#options.state.sendAttempt(key, 0) === undefined) return undefined
    try {
      return await this.#send(key, out, text)
    } catch (error) {
      if (isFinal(error)) return undefined
      throw error
    }
  }

  #send(key: string, { key: _, ...place }: Outgoing, text: string): Promise<string | undefined> {
    const send = this.#options.connector.actions.sendText
    return sendPart(this.#options, { ...place, key, part: 0 }, (part) => perform(send, { ...part, text }))
  }

  #showSoon(key: string, draft: OpenDraft): void {
    const { timer, request, isOver, text, shown } = draft
    if (timer || request || isOver || text === '' || text === shown) return
    if (this.#open.get(key) !== draft || this.#closing.signal.aborted) return
    const waitMs = (): number => Math.max(0, (this.#dueAt.get(draft.out.chat) ?? 0) - performance.now())
    draft.timer = setTimeout(() => {
      draft.timer = undefined
      // Another draft of the chat was first.
      if (waitMs() > 0) return this.#showSoon(key, draft)
      draft.request = this.#run(async () => {
        await this.#show(key, draft)
        draft.request = undefined
        this.#showSoon(key, draft)
      })
    }, waitMs()).unref()
  }

  async #show(key: string, draft: OpenDraft): Promise<void> {
    const { out, text } = draft
    const { connector, state } = this.#options
    const { draftEveryMs: every = 0 } = connector
    const wait = (ms: number): void => {
      this.#dueAt.delete(out.chat)
      this.#dueAt.set(out.chat, performance.now() + ms)
      dropOldest(this.#dueAt)
    }
    wait(typeof every === 'function' ? every(out) : every)
    try {
      const earlier = state.sendAttempt(key, 0)
      if (earlier?.id === undefined) draft.isOver = (await this.#send(key, out, text)) === undefined
      else await perform(connector.actions.edit, { ...targetOf(out), id: earlier.id, text })
      draft.shown = text
    } catch (error) {
      const isLimited = error instanceof PlatformError && error.kind === 'rate_limited'
      if (isLimited) wait(pauseOf(error))
      else draft.isOver = true
      if (!(error instanceof PlatformError)) this.#options.onFault(error)
    }
  }

  /** Later texts are ignored. The second value is false if the platform has not answered in time. */
  async #stop(key: string): Promise<[draft: OpenDraft | undefined, isIdle: boolean]> {
    const draft = this.#open.get(key)
    this.#open.delete(key)
    this.#ended.add(key)
    dropOldest(this.#ended)
    clearTimeout(draft?.timer)
    if (!draft?.request) return [draft, true]
    const timeout = new AbortController()
    const isIdle = await Promise.race([
      draft.request.then(() => true),
      pause(this.#options.waitMs ?? WAIT_MS, false, { signal: timeout.signal, ref: false }),
    ])
    timeout.abort()
    return [draft, isIdle]
  }

  /** Again if the platform has no time. */
  async #delete(key: string, place: Place): Promise<void> {
    const { connector, state } = this.#options
    for (let attempt = 1; ; attempt++) {
      const id = state.sendAttempt(key, 0)?.id
      if (id === undefined) return
      try {
        await perform(connector.actions.delete, { ...targetOf(place), id })
        return state.undoSend(key, 0)
      } catch (error) {
        if (isFinal(error)) return state.undoSend(key, 0)
        if (!(error instanceof PlatformError) || attempt === REMOVE_ATTEMPTS) throw error
        await pause(pauseOf(error), undefined, { signal: this.#closing.signal, ref: false })
      }
    }
  }

  #run(work: () => Promise<void>): Promise<void> {
    const running = work()
      .catch((error) => {
        if (!(error instanceof PlatformError) && !this.#closing.signal.aborted) this.#options.onFault(error)
      })
      .finally(() => this.#working.delete(running))
    this.#working.add(running)
    return running
  }

  #firstPart(text: string): string {
    const { text: max, measure = lengthOf } = this.#options.connector.limits
    // More does not fit into one message.
    const start = text.slice(0, 2 * max + 2)
    const [whole = '', ...rest] = splitText(start, max, measure)
    if (rest.length === 0 && start.length === text.length) return whole
    return `${splitText(start, max, (part) => measure(part + MORE))[0]}${MORE}`
  }
}

function lengthOf(text: string): number {
  return text.length
}

function draftKey({ chat, threadId, key }: Outgoing): string {
  return `draft ${JSON.stringify([chat, threadId, key])}`
}

function targetOf({ chat, threadId }: Place): Place {
  return { chat, threadId }
}

/** Another attempt would end in the same way. */
function isFinal(error: unknown): error is PlatformError {
  return error instanceof PlatformError && (error.kind === 'refused' || error.kind === 'unsupported')
}

function pauseOf({ retryAfterS }: PlatformError): number {
  return retryAfterS === undefined ? REMOVE_PAUSE_MS : Math.min(PAUSE_MAX_MS, retryAfterS * 1000)
}

function dropOldest(kept: Map<string, unknown> | Set<string>): void {
  if (kept.size <= KEEP_MAX) return
  for (const oldest of kept.keys()) {
    kept.delete(oldest)
    return
  }
}
