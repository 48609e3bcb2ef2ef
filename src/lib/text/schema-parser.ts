// Validates untrusted input: returns the typed value or one refusal that names every error.
import type { z } from 'zod'
import { refuse } from '../refusal.ts'

type Issue = z.core.$ZodIssue

/** `source` names a file or setting in front of the message. */
export function parse<S extends z.ZodType>(schema: S, raw: unknown, source?: string): z.output<S> {
  // zod reports a missing member and one of a wrong type alike; only the input tells them apart.
  const result = schema.safeParse(raw, { reportInput: true })
  if (result.success) return result.data
  refuse('invalid', `${source ? `${source}: ` : ''}${formatIssues(result.error.issues)}`)
}

/** Limit of reported errors: a body with a million unknown members must not get a response of that size. */
const REPORTED_MAX = 20

/** All issues in one line: `source_label is required; daily_limit must be more than 0`. */
export function formatIssues(issues: readonly Issue[]): string {
  const messages = [...new Set(strictest(issues).flatMap((issue) => formatIssue(issue).split('; ')))]
  const more = messages.length > REPORTED_MAX ? [`and ${messages.length - REPORTED_MAX} more`] : []
  return [...messages.slice(0, REPORTED_MAX), ...more].join('; ')
}

/** Of several violated limits on one side only the strictest is reported; others would not help. */
function strictest(issues: readonly Issue[]): Issue[] {
  // One pass: a list may have thousands of items that are too long.
  const bounds = new Map<string, number>()
  for (const issue of issues) {
    const key = boundKey(issue)
    if (key !== undefined) bounds.set(key, Math.min(bounds.get(key) ?? Number.POSITIVE_INFINITY, boundOf(issue)))
  }
  return issues.filter((issue) => {
    const key = boundKey(issue)
    return key === undefined || boundOf(issue) === bounds.get(key)
  })
}

function boundKey({ code, path }: Issue): string | undefined {
  return code === 'too_big' || code === 'too_small' ? `${code} ${path.join('.')}` : undefined
}

/** Smaller is stricter. */
function boundOf(issue: Issue): number {
  if (issue.code === 'too_big') return Number(issue.maximum)
  return issue.code === 'too_small' ? -Number(issue.minimum) : 0
}

export function formatIssue(issue: Issue): string {
  const name = issue.path.length ? quotedItem(issue) : 'the input'
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return `${name} is required`
      return `${name} must be ${article(issue.expected)}`
    case 'unrecognized_keys':
      return issue.keys.map((key) => `unknown field ${JSON.stringify(nameOf([...issue.path, key]))}`).join('; ')
    case 'invalid_value':
      if (issue.input === undefined) return `${name} is required`
      return `${name} must be ${issue.values.length > 1 ? 'one of ' : ''}${issue.values.map(String).join(', ')}`
    case 'too_small':
      return tooSmall(name, issue)
    case 'too_big':
      return tooBig(name, issue)
    case 'invalid_union':
      return `${name} has none of the allowed forms`
    default:
      return `${name} ${lowerFirst(issue.message)}`
  }
}

/** Names an item of a list of texts by its value instead of its index. */
function quotedItem({ path, input }: Issue): string {
  const isItem = typeof path.at(-1) === 'number' && typeof input === 'string' && /^[\x20-\x7e]{1,64}$/.test(input)
  return isItem ? `${nameOf(path.slice(0, -1))}: ${JSON.stringify(input)}` : nameOf(path)
}

/** Clients choose names, so long ones are cut. */
const NAME_MAX = 100

function nameOf(path: readonly PropertyKey[]): string {
  const name = path.map(String).join('.')
  return name.length > NAME_MAX ? `${name.slice(0, NAME_MAX)}…` : name
}

function tooSmall(name: string, issue: z.core.$ZodIssueTooSmall): string {
  if (issue.origin === 'string') return issue.minimum === 1 ? `${name} must not be empty` : `${name} is too short`
  if (issue.origin === 'array') return `${name} needs at least ${issue.minimum}`
  return `${name} must be ${issue.inclusive ? 'at least' : 'more than'} ${issue.minimum}`
}

function tooBig(name: string, issue: z.core.$ZodIssueTooBig): string {
  if (issue.origin === 'string') return `${name} is longer than ${issue.maximum} characters`
  if (issue.origin === 'array') return `${name} has more than ${issue.maximum} entries`
  return `${name} must be ${issue.inclusive ? 'at most' : 'less than'} ${issue.maximum}`
}

function article(type: string): string {
  const word = { int: 'whole number', number: 'number', string: 'text', boolean: 'true or false', array: 'list' }[type]
  if (type === 'boolean') return 'true or false'
  if (type === 'string') return 'text'
  const noun = word ?? type
  return `${/^[aeiou]/.test(noun) ? 'an' : 'a'} ${noun}`
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1)
}
