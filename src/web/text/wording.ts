// Wording that the chat and the pages without script share.

/** A refusal as a sentence, with a capital letter and a full stop. Names such as github:42 keep their first letter. */
export function toSentence(text: string): string {
  const [first = ''] = /^[a-z]+:\S/.test(text) ? '' : text
  return first.toUpperCase() + text.slice(first.length) + (/[.!?…]$/.test(text) ? '' : '.')
}

export function describeFailure(isAnswered: boolean, error = 'the round failed'): string {
  return `${isAnswered ? 'The answer is incomplete' : 'There is no answer'}: ${error}`
}

export const BROKEN_OFF = 'The answer broke off. Trying again …'

export const STOPPED = 'Stopped'

/** Whether the error of a round says that a person has stopped it. */
export function isStopped(error: string | undefined): boolean {
  return error === 'stopped'
}

export const NO_ANSWER = 'There is no answer to this.'

/** The state of a task in Markdown. */
export const DONE = 'Done'
export const NOT_DONE = 'Not done'
