// Messages about failed turns for people in the chat. The causes are stored with the turn, for operators only: they contain
// names of programs, hosts and models, paths, and output of providers.

export const FAILURE_MESSAGES = {
  failed: 'the agent could not answer; try again later',
  unusable: 'the agent cannot answer at the moment',
  stopped: 'stopped',
  late: 'the answer took too long',
  overBudget: 'the budget of this answer is used up',
  tooLong: 'the conversation is too long for the agent',
  oversized: 'the answer is too long to be sent',
  gone: 'the group of this chat has been removed',
} as const

/** Stored with a message whose answer a person has stopped, which is no fault. */
export const STOPPED_REASON = 'it was stopped'

export type TurnFailure = keyof typeof FAILURE_MESSAGES

/** Parses a failure name reported by a runtime; undefined if it is unknown. */
export function parseFailure(name: unknown): TurnFailure | undefined {
  return typeof name === 'string' && Object.hasOwn(FAILURE_MESSAGES, name) ? (name as TurnFailure) : undefined
}

/** Capitalizes the text and adds a full stop. */
export function sentenceOf(clause: string): string {
  const text = `${clause.slice(0, 1).toUpperCase()}${clause.slice(1)}`
  return /[.!?]$/.test(text) ? text : `${text}.`
}
