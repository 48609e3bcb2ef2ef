// What people in a chat are told of a turn that failed. Causes name programs, hosts, models and paths, and repeat what
// providers and programs print: they are kept with the turn, for operators.

export const FAILURE_MESSAGES = {
  failed: 'the agent could not answer; try again later',
  unusable: 'the agent cannot answer at the moment',
  stopped: 'it was stopped',
  late: 'the answer took too long',
  overBudget: 'the budget of this answer is used up',
  tooLong: 'the conversation is too long for the agent',
  gone: 'what this chat led to has been removed',
} as const

export type TurnFailure = keyof typeof FAILURE_MESSAGES

/** A failure that a program names, which may name anything. */
export function parseFailure(name: unknown): TurnFailure | undefined {
  return typeof name === 'string' && Object.hasOwn(FAILURE_MESSAGES, name) ? (name as TurnFailure) : undefined
}

/** A clause as a sentence of its own. */
export function sentenceOf(clause: string): string {
  const text = `${clause.slice(0, 1).toUpperCase()}${clause.slice(1)}`
  return /[.!?]$/.test(text) ? text : `${text}.`
}
