// Performs what svc asks for: splits texts, and sends each part of a message at most once, whatever ends in between.
import { createHash } from 'node:crypto'
import type { AdapterStore } from './adapter-store.ts'
import {
  type Connector,
  type OutgoingFilePart,
  type OutgoingPart,
  type OutgoingTextPart,
  type Place,
  PlatformError,
  type TargetMessage,
} from './port.ts'
import { splitText } from './text-splitter.ts'

export interface SenderOptions {
  readonly connector: Connector
  readonly state: AdapterStore
}

/** The members of a message that are the same for all of its parts. */
export interface Outgoing extends Place {
  readonly key: string
  readonly replyTo?: string | undefined
  readonly agentName?: string | undefined
}

type SendPart = (part: OutgoingPart) => Promise<string | undefined>

const EMPTY_TEXT = 'the text is empty'
const UNKNOWN_END = 'an earlier attempt ended without an answer of the platform: it may have been sent'

export class Sender {
  readonly #connector: Connector
  readonly #state: AdapterStore
  /** svc repeats a key while an attempt at it is under way. */
  readonly #sending = new Map<string, Promise<string | undefined>>()
  /** The last change of each message that is being changed. */
  readonly #changing = new Map<string, Promise<void>>()

  constructor({ connector, state }: SenderOptions) {
    this.#connector = connector
    this.#state = state
  }

  sendText(out: Outgoing & { readonly text: string }): Promise<string | undefined> {
    const { text, ...rest } = out
    return this.#once(out.key, async () => {
      const texts = this.#split(text)
      if (texts.length === 0) throw new PlatformError('refused', EMPTY_TEXT)
      return this.#sendParts(rest, this.#textParts(texts))
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
      const id = await this.#sendPart(key, at, { chat, threadId }, send)
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

  #textParts(texts: readonly string[]): SendPart[] {
    const send = this.#connector.actions.sendText
    return texts.map((text) => (common) => perform(send, { ...common, text }))
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
      const id = await this.#sendPart(key, at, at === 0 ? common : { ...common, replyTo: undefined }, send)
      if (at === 0) first = id
      if (id !== undefined) ids.push(id)
    }
    if (first !== undefined && ids.length > 1) this.#state.setParts(common.chat, first, ids)
    return first
  }

  async #sendPart(
    key: string,
    part: number,
    common: Omit<OutgoingPart, 'nonce'>,
    send: SendPart,
  ): Promise<string | undefined> {
    const { repeats } = this.#connector
    const nonce = createHash('sha256').update(`${key} ${part}`).digest('hex').slice(0, 32)
    const out = { ...common, nonce }
    const earlier = this.#state.sendAttempt(key, part)
    if (earlier?.isSent) return earlier.id
    if (earlier && repeats !== 'safe') {
      if (repeats === undefined) throw new PlatformError('refused', UNKNOWN_END)
      const found = await repeats(out, earlier)
      if (found !== undefined) {
        this.#state.endSend(key, part, found)
        return found
      }
    }
    this.#state.beginSend(key, part)
    try {
      const id = await send(out)
      this.#state.endSend(key, part, id)
      return id
    } catch (error) {
      // Any other error may have come after the platform had it, and so may an earlier attempt.
      if (!earlier && error instanceof PlatformError && error.kind !== 'unclear') this.#state.undoSend(key, part)
      throw error
    }
  }
}

function perform<I, O>(action: ((input: I) => Promise<O>) | undefined, input: I): Promise<O> {
  if (action === undefined) throw new PlatformError('unsupported', 'the platform cannot do this')
  return action(input)
}
