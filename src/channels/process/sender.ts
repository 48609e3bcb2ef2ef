// Performs what svc asks for: splits texts, and sends each part of a message at most once, whatever ends in between.
import { createHash } from 'node:crypto'
import type { AdapterStore } from './adapter-store.ts'
import type { Drafts } from './drafts.ts'
import {
  type Connector,
  type OutgoingFilePart,
  type OutgoingTextPart,
  PlatformError,
  type TargetMessage,
} from './port.ts'
import { type Outgoing, perform, type SendContext, type SendPart, sendPart } from './send-part.ts'
import { splitText } from './text-splitter.ts'

export interface SenderOptions extends SendContext {
  readonly drafts?: Drafts | undefined
}

const EMPTY_TEXT = 'the text is empty'

export class Sender {
  readonly #context: SendContext
  readonly #connector: Connector
  readonly #state: AdapterStore
  readonly #drafts: Drafts | undefined
  /** svc repeats a key while an attempt at it is under way. */
  readonly #sending = new Map<string, Promise<string | undefined>>()
  /** The last change of each message that is being changed. */
  readonly #changing = new Map<string, Promise<void>>()

  constructor({ connector, state, drafts }: SenderOptions) {
    this.#context = { connector, state }
    this.#connector = connector
    this.#state = state
    this.#drafts = drafts
  }

  /** The message takes over the draft of its turn, unless it has buttons. */
  sendText(
    out: Outgoing & Pick<OutgoingTextPart, 'text' | 'buttons'> & { readonly turnId?: string | undefined },
  ): Promise<string | undefined> {
    const { text, turnId, buttons, ...rest } = out
    return this.#once(out.key, async () => {
      const texts = this.#split(text)
      const [first] = texts
      if (first === undefined) throw new PlatformError('refused', EMPTY_TEXT)
      if (turnId !== undefined && !buttons && !this.#state.sendAttempt(out.key, 0))
        await this.#drafts?.replace(rest, turnId, first)
      return this.#sendParts(rest, this.#textParts(texts, buttons))
    })
  }

  /** A caption that is too long follows as text. */
  sendFile(
    action: 'sendFile' | 'sendVoice',
    out: Outgoing & Pick<OutgoingFilePart, 'path' | 'filename' | 'mime' | 'caption'>,
  ): Promise<string | undefined> {
    const { actions, limits } = this.#connector
    const { path, filename, mime, caption = '', ...rest } = out
    const fits = this.#measure(caption) <= (limits.caption ?? limits.text)
    const shown = fits && caption.trim() !== '' ? caption : undefined
    const file: SendPart = (common) => perform(actions[action], { ...common, path, filename, mime, caption: shown })
    const texts = fits ? [] : this.#split(caption)
    return this.#once(out.key, () => this.#sendParts(rest, [file, ...this.#textParts(texts)]))
  }

  /** A text whose first part is sent by another action, such as a quote. */
  sendOne(out: Outgoing, text: string, send: (part: OutgoingTextPart) => Promise<string | undefined>) {
    const [first = '', ...more] = this.#split(text)
    return this.sendWith(out, (part) => send({ ...part, text: first }), ...more)
  }

  /** A message of another kind, such as a forwarded one, and texts that follow it. */
  sendWith(out: Outgoing, send: SendPart, ...texts: (string | undefined)[]): Promise<string | undefined> {
    const following = texts.flatMap((text) => (text === undefined ? [] : this.#split(text)))
    return this.#once(out.key, () => this.#sendParts(out, [send, ...this.#textParts(following)]))
  }

  /** Changes all parts of a message; a longer text gets new ones, and after a failure another attempt goes on where it ended. */
  edit(target: TargetMessage, text: string): Promise<void> {
    return this.#inTurn(target, () => this.#edit(target, this.#split(text)))
  }

  /** The last part first, so that another attempt after a failure finds the rest by the id of the first. */
  delete(target: TargetMessage): Promise<void> {
    return this.#inTurn(target, () => this.#deleteParts(target, this.#state.partsOf(target.chat, target.id), 0))
  }

  async #edit(target: TargetMessage, texts: readonly string[]): Promise<void> {
    const { actions } = this.#connector
    const { chat, id: first, threadId } = target
    if (texts.length === 0) throw new PlatformError('refused', EMPTY_TEXT)
    const ids = this.#state.partsOf(chat, first)
    const kept = ids.slice(0, texts.length)
    for (const [at, id] of kept.entries()) await perform(actions.edit, { chat, threadId, id, text: texts[at] ?? '' })
    await this.#deleteParts(target, ids, kept.length)
    const added = texts.slice(kept.length)
    if (added.length === 0) return
    const digest = createHash('sha256')
      .update(JSON.stringify([chat, first, texts]))
      .digest('hex')
    const key = `edit ${digest}`
    const all = [...kept]
    for (const [at, part] of added.entries()) {
      const send: SendPart = (common) => perform(actions.sendText, { ...common, text: part })
      const id = await sendPart(this.#context, { key, part: at, chat, threadId }, send)
      if (id !== undefined) all.push(id)
    }
    // A later edit to the same text sends other parts.
    this.#state.setParts(chat, first, all, key)
  }

  async #deleteParts(target: TargetMessage, ids: readonly string[], from: number): Promise<void> {
    const { chat, id: first } = target
    for (let at = ids.length - 1; at >= from; at--) {
      await perform(this.#connector.actions.delete, { ...target, id: ids[at] ?? first })
      if (ids.length > 1) this.#state.setParts(chat, first, ids.slice(0, at))
    }
  }

  /** Changes of one message follow each other. */
  #inTurn({ chat, id }: TargetMessage, change: () => Promise<void>): Promise<void> {
    const name = `${chat} ${id}`
    const changed = (this.#changing.get(name) ?? Promise.resolve()).catch(() => undefined).then(change)
    this.#changing.set(name, changed)
    const end = (): void => {
      if (this.#changing.get(name) === changed) this.#changing.delete(name)
    }
    changed.then(end, end)
    return changed
  }

  /** Buttons are below the first part, whose id svc knows. */
  #textParts(texts: readonly string[], buttons?: OutgoingTextPart['buttons']): SendPart[] {
    const send = this.#connector.actions.sendText
    return texts.map(
      (text, at) => (common) => perform(send, { ...common, text, ...(at === 0 && buttons ? { buttons } : {}) }),
    )
  }

  #split(text: string): string[] {
    return splitText(text, this.#connector.limits.text, (part) => this.#measure(part))
  }

  #measure(text: string): number {
    return this.#connector.limits.measure?.(text) ?? text.length
  }

  async #once(key: string, send: () => Promise<string | undefined>): Promise<string | undefined> {
    const running = this.#sending.get(key)
    if (running) return running
    const sending = send().finally(() => this.#sending.delete(key))
    this.#sending.set(key, sending)
    return sending
  }

  /** Parts that were sent by an earlier attempt are not sent again. Returns the id of the first. */
  async #sendParts({ key, ...common }: Outgoing, parts: readonly SendPart[]): Promise<string | undefined> {
    const ids: string[] = []
    let first: string | undefined
    for (const [at, send] of parts.entries()) {
      const replyTo = at === 0 ? common.replyTo : undefined
      const id = await sendPart(this.#context, { ...common, replyTo, key, part: at }, send)
      if (at === 0) first = id
      if (id !== undefined) ids.push(id)
    }
    if (first !== undefined && ids.length > 1) this.#state.setParts(common.chat, first, ids)
    return first
  }
}
