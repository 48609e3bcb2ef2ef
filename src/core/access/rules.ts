// Parses grant rules, `[!]action[(param[,param…])]`, and the conditions that acl rows share with them. policy.ts decides
// which rule applies.
import { compileText, type Matcher } from '../../lib/text/glob.ts'

/** Named text values: the parameters of a call, or the claims of a caller. */
export type Claims = Readonly<Record<string, string>>

/** `name` or `name=glob`, negated by a leading `!`. */
export interface Condition {
  readonly text: string
  readonly name: string
  readonly isNegated: boolean
  /** Absent: any value matches. */
  readonly matchesValue?: Matcher
}

export interface Rule {
  readonly text: string
  readonly isDeny: boolean
  readonly matchesTool: Matcher
  readonly conditions: readonly Condition[]
}

/** Undefined if the text does not parse: such a rule matches no tool, so a typo never widens a grant. */
export function parseRule(text: string): Rule | undefined {
  const parts = /^(!?)([A-Za-z0-9_.*]+)(?:\(([^)]*)\))?$/s.exec(text)
  if (!parts) return undefined
  const [, bang, name = '', list = ''] = parts
  const matchesTool = compileText(name)
  const conditions = parseConditions(list)
  return matchesTool && conditions && { text, isDeny: bang === '!', matchesTool, conditions }
}

/** Parses a comma-separated list; undefined if any item does not parse. */
export function parseConditions(list: string): Condition[] | undefined {
  if (list.trim() === '') return []
  const conditions: Condition[] = []
  for (const item of list.split(',')) {
    const condition = parseCondition(item.trim())
    if (!condition) return undefined
    conditions.push(condition)
  }
  return conditions
}

function parseCondition(text: string): Condition | undefined {
  const parts = /^(!?)([A-Za-z0-9_.-]+)(?:=(.*))?$/s.exec(text)
  if (!parts) return undefined
  const [, bang, name = '', glob] = parts
  const condition = { text, name, isNegated: bang === '!' }
  if (glob === undefined) return condition
  const matchesValue = compileText(glob)
  return matchesValue && { ...condition, matchesValue }
}

/** Whether all conditions hold. `name=*` fails if `name` is missing. */
export function conditionsHold(conditions: readonly Condition[], values: Claims): boolean {
  for (const { name, isNegated, matchesValue } of conditions) {
    // Own properties only: every object inherits `constructor`.
    const value = Object.hasOwn(values, name) ? values[name] : undefined
    const isMet = value !== undefined && (matchesValue === undefined || matchesValue(value))
    if (isMet === isNegated) return false
  }
  return true
}

export function ruleMatches(rule: Rule, tool: string, params: Claims): boolean {
  return rule.matchesTool(tool) && conditionsHold(rule.conditions, params)
}
