// Puts the text of an answer together from drafts and messages. A stream of this protocol cannot take text back: a draft that is
// replaced stays, and what follows comes after a blank line.
import { z } from 'zod'
import { boundaryBefore, countCodePoints } from '../../../core/turns/drafts.ts'

/** The event `delta`. */
export const DraftEvent = z.object({ text: z.string(), from: z.int(), done: z.boolean().optional() })
type DraftEvent = z.output<typeof DraftEvent>

/** The events `message` and `status`. */
export const FrameEvent = z.object({
  kind: z.enum(['message', 'status']),
  content: z.string(),
  files: z.array(z.object({ id: z.string(), name: z.string() })).optional(),
})
type FrameEvent = z.output<typeof FrameEvent>

/** Characters of one answer, which is kept until its end. What an agent writes beyond them is only in the chat. */
const ANSWER_MAX = 4 * 1024 * 1024
/** Texts of drafts whose message has not come yet. */
const UNCLAIMED_MAX = 8

export class AnswerText {
  readonly #urlOf: (file: string) => string
  #sent = ''
  /** What was sent of the draft that is being written, and of those before it whose message has not come yet. */
  #unclaimed: string[] = []
  #isOpen = false
  /** Length of the draft. */
  #points = 0
  /** White space at the end of the draft, sent with what follows it. */
  #space = ''

  constructor(urlOf: (file: string) => string) {
    this.#urlOf = urlOf
  }

  /** Whether the end of the answer is missing. */
  isCut = false

  /** All text so far. */
  get sent(): string {
    return this.#sent
  }

  /** Returns what is to be sent. */
  takeDraft({ text, from, done = false }: DraftEvent): string {
    if (from !== this.#points || done) this.#closeDraft()
    if (done) return ''
    this.#points = from + countCodePoints(text)
    return this.#extendDraft(text)
  }

  /** Returns what is to be sent. */
  takeFrame({ kind, content, files = [] }: FrameEvent): string {
    if (kind === 'status') return ''
    const links = files.map(({ id, name }) => `[${name.replace(/[\\[\]]/g, '\\$&')}](${this.#urlOf(id)})`)
    return this.#takeMessage([content.trim(), ...links].filter((part) => part !== '').join('\n\n'))
  }

  #takeMessage(message: string): string {
    const at = this.#unclaimed.findIndex((draft) => this.#isStartOf(message, draft))
    const draft = this.#unclaimed[at]
    const isLast = at === this.#unclaimed.length - 1
    if (draft === undefined) {
      this.#closeDraft()
      return this.#append(message === '' || this.#sent === '' ? message : `\n\n${message}`)
    }
    this.#unclaimed.splice(0, at + 1)
    if (isLast) this.#closeDraft()
    return this.#append(message.slice(draft.length))
  }

  /** A draft can be continued if nothing was sent after it. */
  #isStartOf(message: string, draft: string): boolean {
    return this.#sent.endsWith(draft) ? message.startsWith(draft) : message === draft
  }

  #extendDraft(text: string): string {
    const given = this.#isOpen ? this.#space + text : text.trimStart()
    const shown = given.trimEnd()
    if (shown === '') {
      this.#space = this.#isOpen ? given : ''
      return ''
    }
    this.#space = given.slice(shown.length)
    if (this.#isOpen) {
      this.#unclaimed.push((this.#unclaimed.pop() ?? '') + shown)
      return this.#append(shown)
    }
    this.#isOpen = true
    this.#unclaimed.push(shown)
    if (this.#unclaimed.length > UNCLAIMED_MAX) this.#unclaimed.shift()
    return this.#append(this.#sent === '' ? shown : `\n\n${shown}`)
  }

  #closeDraft(): void {
    this.#isOpen = false
    this.#points = 0
    this.#space = ''
  }

  #append(text: string): string {
    if (this.isCut) return ''
    const room = ANSWER_MAX - this.#sent.length
    this.isCut = text.length > room
    const added = this.isCut ? text.slice(0, boundaryBefore(text, room)) : text
    this.#sent += added
    return added
  }
}
