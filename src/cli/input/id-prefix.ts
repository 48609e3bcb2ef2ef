// Ids as they are typed: whole, or as much of the beginning as no other id shares.
import { cell } from '../../lib/command-line/print.ts'
import { refuse } from '../../lib/refusal.ts'

const SHOWN = 5

/** The id that is meant. `known` may hold only those that begin with what was typed. */
export function resolveIdPrefix(what: string, typed: string, known: readonly string[]): string {
  if (typed === '') refuse('invalid', `the id of the ${what} must not be empty`)
  if (known.includes(typed)) return typed
  const fitting = known.filter((id) => id.startsWith(typed))
  const [first] = fitting
  const shown = cell(typed.slice(0, 80))
  if (first === undefined) refuse('not_found', `there is no ${what} whose id is or begins with ${shown}`)
  if (fitting.length === 1) return first
  const rest = fitting.length > SHOWN ? ', …' : ''
  return refuse(
    'conflict',
    `the ids of several ${what}s begin with ${shown}: ${fitting.slice(0, SHOWN).join(', ')}${rest}`,
    'type more of the id',
  )
}
