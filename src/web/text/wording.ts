// Wording that the chat and the pages without script share.
import type { ChatTexts } from '../texts/en.ts'
import { fill } from '../texts/language.ts'

/** A refusal as a sentence, with a capital letter and a full stop. Names such as github:42 keep their first letter. */
export function toSentence(text: string): string {
  const [first = ''] = /^[a-z]+:\S/.test(text) ? '' : text
  return first.toUpperCase() + text.slice(first.length) + (/[.!?…]$/.test(text) ? '' : '.')
}

/** A fixed phrase of the server in another language. All others stay as they are. */
export function translate(phrase: string, phrases: Readonly<Record<string, string | undefined>>): string {
  return (Object.hasOwn(phrases, phrase) ? phrases[phrase] : undefined) ?? phrase
}

export function describeFailure(isAnswered: boolean, error: string | undefined, texts: ChatTexts): string {
  const reason = error === undefined ? texts.roundFailed : translate(error, texts.phrases)
  return fill(isAnswered ? texts.incompleteBecause : texts.noAnswerBecause, { reason })
}

/** Whether the error of a round says that a person has stopped it. */
export function isStopped(error: string | undefined): boolean {
  return error === 'stopped'
}
