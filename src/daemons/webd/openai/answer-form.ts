// What both endpoints have in common: an answer, and how it is written.
import type { OpenaiError } from '../../http/openai-errors.ts'

/** What is known when the message is stored. */
export interface AnswerHead {
  readonly round: string
  readonly model: string
  /** In seconds since 1970. */
  readonly created: number
  readonly topic: string | null
  readonly previousId: string | undefined
  readonly hasUsage: boolean
}

export interface AnswerEnd {
  readonly text: string
  /** Whether it was stopped before its end. */
  readonly isPartial: boolean
  readonly tokens: { readonly input: number; readonly output: number }
}

/** The events of a stream, each ready to be sent. */
export interface AnswerEvents {
  start(): string
  text(added: string): string
  end(end: AnswerEnd): string
  fail(error: OpenaiError, text: string): string
}

export interface AnswerForm {
  /** The answer without a stream. */
  body(head: AnswerHead, end: AnswerEnd): object
  stream(head: AnswerHead): AnswerEvents
}
