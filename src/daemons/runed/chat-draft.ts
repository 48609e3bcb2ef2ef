// The draft of one run for a chat of a platform that shows drafts: at most one request at a time and about one a second, with the
// newest text. A platform that is slow or fails delays nothing but the draft. See docs/decisions.md#drafts-on-platforms.
import { type Channel, ChannelError } from '../../core/delivery/channel.ts'
import { groups } from '../../core/groups/groups.ts'
import { readIdentity } from '../../core/groups/identity-files.ts'
import { boundaryBefore } from '../../core/turns/drafts.ts'
import type { Turn } from '../../core/turns/turns.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'

const EVERY_MS = 1000
/** Most platforms show the start of a longer text. */
const LENGTH_MAX = 16_384

export class ChatDraft {
  readonly #host: InstanceHost
  readonly #turn: Turn
  #channel: Channel | undefined
  #agentName: string | undefined
  #text = ''
  /** What the platform has. */
  #sent = ''
  #isShown = false
  #isUnsupported = false
  #timer: NodeJS.Timeout | undefined
  #request: Promise<void> | undefined
  #pauseMs = 0
  #state: 'open' | 'failed' | 'ended' = 'open'

  constructor(host: InstanceHost, turn: Turn, channel: Promise<Channel | undefined>) {
    this.#host = host
    this.#turn = turn
    channel.then(
      (found) => {
        this.#channel = found?.actions.draft && found
        this.#isUnsupported = !this.#channel
        this.#sendSoon()
      },
      () => {
        this.#isUnsupported = true
      },
    )
  }

  /** Whether people may have seen it. */
  get isShown(): boolean {
    return this.#isShown
  }

  get isUnsupported(): boolean {
    return this.#isUnsupported
  }

  show(text: string): void {
    this.#text = text
    this.#sendSoon()
  }

  /** Without a message, the platform removes it. */
  end(hasMessage: boolean): void {
    if (this.#state === 'ended') return
    this.#state = 'ended'
    clearTimeout(this.#timer)
    if (!this.#isShown || hasMessage) return
    Promise.resolve(this.#request)
      .then(() => this.#draft('', true))
      .catch((error) => this.#report(error))
  }

  #sendSoon(): void {
    if (!this.#channel || this.#timer || this.#request || this.#state !== 'open') return
    if (this.#text.trim() === '' || this.#content() === this.#sent) return
    const { faults } = this.#host
    const send = faults.guard('turn', () => {
      this.#timer = undefined
      this.#pauseMs = 0
      this.#request = this.#send().finally(() => {
        this.#request = undefined
        this.#sendSoon()
      })
      this.#request.catch(faults.handler('turn'))
    })
    this.#timer = setTimeout(send, Math.max(EVERY_MS, this.#pauseMs)).unref()
  }

  async #send(): Promise<void> {
    const content = this.#content()
    try {
      this.#agentName ??= await this.#readAgentName()
      this.#isShown = true
      await this.#draft(content, false)
      this.#sent = content
    } catch (error) {
      const pauseMs = error instanceof ChannelError ? error.retryAfterMs : undefined
      if (pauseMs === undefined && this.#state === 'open') this.#state = 'failed'
      this.#pauseMs = pauseMs ?? 0
      this.#report(error)
    }
  }

  async #readAgentName(): Promise<string | undefined> {
    const { engine, layout, assistantName } = this.#host
    const { folder } = this.#turn
    const group = await engine.read((tx) => groups.find(tx, { folder }))
    return group && readIdentity(layout, group, assistantName).name
  }

  async #draft(content: string, isDone: boolean): Promise<void> {
    const { id: key, jid, chat_topic } = this.#turn
    const threadId = chat_topic === '' ? undefined : chat_topic
    await this.#channel?.actions.draft?.({ jid, key, threadId, content, isDone, agentName: this.#agentName })
  }

  #content(): string {
    return this.#text.slice(0, boundaryBefore(this.#text, Math.min(this.#text.length, LENGTH_MAX)))
  }

  /** Faults of the platform are silent: a lost draft does not matter. */
  #report(error: unknown): void {
    if (!(error instanceof ChannelError || error instanceof Refusal)) this.#host.faults.report('turn', error)
  }
}
