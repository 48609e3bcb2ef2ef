// Resolves typed ids: a whole id or a prefix of exactly one id.
import { cell } from '../../lib/command-line/print.ts'
import { refuse } from '../../lib/refusal.ts'

const SHOWN_MAX = 5

/** `known` may be limited to ids that start with `typed`. */
export function resolveIdPrefix(what: string, typed: string, known: readonly string[]): string {
  if (typed === '') refuse('invalid', `the id of the ${what} must not be empty`)
  if (known.includes(typed)) return typed
  const matches = known.filter((id) => id.startsWith(typed))
  const [first] = matches
  const shown = cell(typed.slice(0, 80))
  if (first === undefined) refuse('not_found', `there is no ${what} whose id starts with ${shown}`)
  if (matches.length === 1) return first
  const rest = matches.length > SHOWN_MAX ? ', …' : ''
  return refuse(
    'conflict',
    `several ${what} ids start with ${shown}: ${matches.slice(0, SHOWN_MAX).join(', ')}${rest}`,
    'type more of the id',
  )
}
