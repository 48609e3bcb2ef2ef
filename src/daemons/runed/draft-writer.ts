// The draft of one run, for the chat of a platform (`chat-draft.ts`) or for the rounds that it answers: publishes what the agent
// writes, at most 50 times a second. Repeats the whole text from time to time, because pieces may be lost, and readers connect to
// other processes at any time.
import { DraftFilter } from '../../core/delivery/output-filter.ts'
import { boundaryBefore, countCodePoints, type DraftPiece } from '../../core/turns/drafts.ts'
import type { ClaimedTurn } from '../../core/turns/turn-claim.ts'
import { turns } from '../../core/turns/turns.ts'
import { type Clock, monotonicClock } from '../../lib/clock.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { ANSWER_MAX, type DraftText } from '../../runtimes/runtime.ts'
import { SIGN_OF_LIFE_MS } from '../process/draft-relay.ts'
import type { ChatDraft } from './chat-draft.ts'

/** Readers get fewer updates; this only collects pieces of a model that come together. */
const EVERY_MS = 20
/** After a whole text, the next one is repeated when this many characters a second would have been sent. */
const REPEAT_RATE = 32_768

export class DraftWriter implements DraftText {
  readonly #host: Pick<InstanceHost, 'drafts' | 'engine' | 'signals' | 'faults'>
  readonly #about: Pick<DraftPiece, 'turn' | 'fence' | 'jid' | 'topic' | 'folder' | 'rounds'>
  readonly #clock: Clock
  readonly #stopListening: () => void
  /** Undefined in chats of links. */
  readonly #chat: ChatDraft | undefined
  #filter = new DraftFilter()
  #part = 0
  /** Characters of the answer so far, with those that nobody sees. */
  #length = 0
  /** What readers may see. */
  #text = ''
  /** Not yet published. */
  #unsent = ''
  #sentPoints = 0
  /** Whether readers must learn that the text has begun again. */
  #hasBegun = false
  #state: DraftPiece['state'] = 'open'
  #sendTimer: NodeJS.Timeout | undefined
  #lifeTimer: NodeJS.Timeout | undefined
  #sentAt = Number.NEGATIVE_INFINITY
  #wholeAt = 0
  #isChecking = false

  constructor(
    host: InstanceHost,
    { turn, messages }: ClaimedTurn,
    { chat, clock = monotonicClock }: { readonly chat?: ChatDraft | undefined; readonly clock?: Clock } = {},
  ) {
    this.#host = host
    this.#chat = chat
    this.#clock = clock
    const { id, fence, jid, chat_topic, folder } = turn
    const rounds = messages.flatMap(({ message }) => (message.turn_id === undefined ? [] : [message.id]))
    this.#about = { turn: id, fence, jid, topic: chat_topic, folder, rounds }
    const hasReaders = chat !== undefined || rounds.length > 0
    if (!hasReaders || turn.is_isolated || turn.replies > 0) this.#state = 'dropped'
    const onSignal = (keys: readonly string[] | undefined): void => {
      const isRead = chat ? chat.isShown : this.#text !== ''
      if (isRead && this.#state === 'open' && (keys === undefined || keys.includes(jid))) this.#checkReplies()
    }
    this.#stopListening = host.signals.on(onSignal)
  }

  /** What people may have read, unless it will be no message. */
  get text(): string {
    return this.#isOpen && this.#chat?.isShown !== false ? this.#text : ''
  }

  add(text: string): void {
    if (this.#state !== 'open' || this.#length > ANSWER_MAX || this.#chat?.isUnsupported) return
    this.#length += text.length
    const shown = this.#filter.push(text)
    if (shown === '') return
    this.#text += shown
    if (!this.#chat) this.#unsent += shown
    this.#sendSoon()
  }

  restart(): void {
    if (this.#state !== 'open') return
    this.#filter = new DraftFilter()
    this.#length = 0
    if (this.#text === '') return
    this.#begin()
    this.#hasBegun = true
    this.#sendSoon()
  }

  /** Readers get the whole draft before the message that replaces it. */
  complete(): void {
    if (this.#state !== 'open') return
    this.#state = 'complete'
    if (!this.#chat) this.#send()
  }

  end(state: 'stored' | 'dropped'): void {
    this.#stopListening()
    clearTimeout(this.#sendTimer)
    clearInterval(this.#lifeTimer)
    this.#chat?.end(state === 'stored')
    const isShown = this.#isOpen && this.#sentAt !== Number.NEGATIVE_INFINITY
    this.#state = state
    this.#unsent = ''
    if (isShown) this.#publish('')
  }

  get #isOpen(): boolean {
    return this.#state === 'open' || this.#state === 'complete'
  }

  #begin(): void {
    this.#part++
    this.#text = ''
    this.#unsent = ''
    this.#sentPoints = 0
  }

  /** The first piece after a pause is sent at once: a timer would take a millisecond. */
  #sendSoon(): void {
    if (this.#chat) {
      this.#chat.show(this.#text)
      return
    }
    const { faults } = this.#host
    const send = faults.guard('turn', () => this.#send())
    const waitMs = this.#sentAt + EVERY_MS - this.#clock.now()
    this.#lifeTimer ??= setInterval(
      faults.guard('turn', () => this.#showLife()),
      SIGN_OF_LIFE_MS,
    ).unref()
    if (waitMs <= 0 && !this.#sendTimer) send()
    else this.#sendTimer ??= setTimeout(send, Math.max(0, waitMs)).unref()
  }

  #send(): void {
    clearTimeout(this.#sendTimer)
    this.#sendTimer = undefined
    const end = boundaryBefore(this.#unsent, this.#unsent.length)
    const text = this.#unsent.slice(0, end)
    this.#unsent = this.#unsent.slice(end)
    if (text !== '' || this.#hasBegun || this.#state === 'complete') this.#publish(text)
  }

  #publish(text: string): void {
    this.#sentAt = this.#clock.now()
    this.#hasBegun = false
    const piece = { ...this.#about, part: this.#part, from: this.#sentPoints, text, state: this.#state }
    this.#sentPoints += countCodePoints(text)
    this.#host.drafts.emit(piece, true)
  }

  #showLife(): void {
    if (this.#text === '') return
    const now = this.#clock.now()
    if (now - this.#wholeAt < SIGN_OF_LIFE_MS + (this.#text.length * 1000) / REPEAT_RATE) this.#publish('')
    else {
      this.#wholeAt = now
      this.#sentPoints = 0
      this.#unsent = this.#text
      this.#send()
    }
  }

  /** Once the run has written in its chat with a tool, its text will be no message. */
  #checkReplies(): void {
    if (this.#isChecking) return
    this.#isChecking = true
    const check = async (): Promise<void> => {
      try {
        const { turn: id } = this.#about
        const turn = await this.#host.engine.read((tx) => turns.find(tx, { id }))
        if ((turn?.replies ?? 0) > 0 && this.#state === 'open') this.end('dropped')
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
      } finally {
        this.#isChecking = false
      }
    }
    check().catch(this.#host.faults.handler('turn'))
  }
}
