// Sends the messages of a page: one after the other in each topic, and again until the server has answered.
import { type BrowserLinkClient, backoffMs, type PostedChatMessage, ServerRefusal } from './link.ts'
import { type Child, element } from './nodes.ts'
import type { BrowserOutbox, UnsentMessage } from './outbox.ts'
import { uiText } from './texts.ts'
import { UploadProgress } from './upload.ts'

interface SenderHandlers {
  /** Whether the visitor sees the state of the message. */
  isShown(unsent: UnsentMessage): boolean
  onState(unsent: UnsentMessage, state: readonly Child[]): void
  onSent(unsent: UnsentMessage, posted: PostedChatMessage): void
  onRefused(unsent: UnsentMessage, refusal: ServerRefusal): void
  onCancelled(unsent: UnsentMessage): void
}

/** Automatic retries of a message that the visitor sees. Others are tried on. */
const SEND_RETRIES = 5

export class MessageSender {
  readonly #link: BrowserLinkClient
  readonly #outbox: BrowserOutbox
  readonly #handlers: SenderHandlers
  /** By key. */
  readonly #states = new Map<string, readonly Child[]>()
  /** The last message of each topic that is being sent. */
  readonly #last = new Map<string, Promise<void>>()
  readonly #waiting = new Set<() => void>()

  constructor(link: BrowserLinkClient, outbox: BrowserOutbox, handlers: SenderHandlers) {
    this.#link = link
    this.#outbox = outbox
    this.#handlers = handlers
  }

  /** For the line below a message. */
  stateOf(key: string): readonly Child[] {
    return this.#states.get(key) ?? [uiText('sending')]
  }

  send(unsent: UnsentMessage): void {
    const before = this.#last.get(unsent.root)
    if (before) this.#show(unsent, uiText('notSentYet'))
    const sending = this.#sendAfter(before, unsent).finally(() => {
      if (this.#last.get(unsent.root) === sending) this.#last.delete(unsent.root)
    })
    this.#last.set(unsent.root, sending)
  }

  /** Tries all that wait again. */
  retryNow(): void {
    for (const retry of this.#waiting) retry()
  }

  async #sendAfter(before: Promise<void> | undefined, unsent: UnsentMessage): Promise<void> {
    await before
    const outcome = await this.#deliver(unsent)
    this.#states.delete(unsent.key)
    this.#outbox.remove(unsent.key)
    if (outcome === 'cancelled') this.#handlers.onCancelled(unsent)
    else if (outcome instanceof ServerRefusal) this.#handlers.onRefused(unsent, outcome)
    else this.#handlers.onSent(unsent, outcome)
  }

  async #deliver(unsent: UnsentMessage): Promise<PostedChatMessage | ServerRefusal | 'cancelled'> {
    const progress = new UploadProgress()
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#post(unsent, attempt, progress)
      } catch (error) {
        if (error instanceof ServerRefusal && !error.mayHaveBeenAccepted) return error
      }
      if (!progress.signal.aborted) await this.#waitForRetry(unsent, attempt, progress)
      if (progress.signal.aborted) return 'cancelled'
    }
  }

  #post(unsent: UnsentMessage, attempt: number, progress: UploadProgress): Promise<PostedChatMessage> {
    const { branch, files = [] } = unsent
    if (files.length === 0) {
      // A screen reader reads each change.
      if (attempt === 0 || attempt > SEND_RETRIES) this.#show(unsent, uiText('sending'))
      return this.#link.post(unsent, branch?.of)
    }
    this.#show(unsent, ...progress.nodes)
    return this.#link.upload({ ...unsent, files }, progress)
  }

  /** Waits for the back-off, or after the automatic retries for a click. */
  #waitForRetry(unsent: UnsentMessage, attempt: number, { signal, cancelButton }: UploadProgress): Promise<void> {
    const isAutomatic = attempt < SEND_RETRIES || !this.#handlers.isShown(unsent)
    const button = element('button', { type: 'button', class: 'more' }, uiText('tryAgain'))
    cancelButton.hidden = false
    if (isAutomatic) this.#show(unsent, uiText('retrying'), ' ', cancelButton)
    else this.#show(unsent, uiText('notSent'), ' ', button, ' ', cancelButton)
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        this.#waiting.delete(end)
        resolve()
      }
      const timer = isAutomatic ? setTimeout(end, backoffMs(attempt)) : undefined
      button.addEventListener('click', end)
      signal.addEventListener('abort', end)
      this.#waiting.add(end)
    })
  }

  #show(unsent: UnsentMessage, ...state: readonly Child[]): void {
    this.#states.set(unsent.key, state)
    this.#handlers.onState(unsent, state)
  }
}
