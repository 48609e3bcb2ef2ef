// The grammar of grant rules, `[!]action[(param[,param…])]`, and the conditions that acl rows share with it.
// Which rules a folder has, and which of them decides, is said in access.ts.
import { compileText, type Matcher } from '../lib/glob.ts'

/** Named text values: the parameters of a call, or what is known of a caller. */
export type Claims = Readonly<Record<string, string>>

/** `name`, `name=glob`, or either after `!`, which turns it around. */
export interface Condition {
  readonly text: string
  readonly name: string
  readonly negated: boolean
  /** Without one, any value will do. */
  readonly value?: Matcher
}

export interface Rule {
  readonly text: string
  readonly deny: boolean
  readonly action: Matcher
  readonly conditions: readonly Condition[]
}

/** Nothing when the text does not parse: such a rule matches no tool, so that a typo never widens a grant. */
export function parseRule(text: string): Rule | undefined {
  const parts = /^(!?)([A-Za-z0-9_.*]+)(?:\(([^)]*)\))?$/s.exec(text)
  if (!parts) return undefined
  const [, bang, name = '', list = ''] = parts
  const action = compileText(name)
  const conditions = parseConditions(list)
  return action && conditions && { text, deny: bang === '!', action, conditions }
}

/** A comma list; empty means no condition. Nothing when any part of it does not parse. */
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
  const bare = { text, name, negated: bang === '!' }
  if (glob === undefined) return bare
  const value = compileText(glob)
  return value && { ...bare, value }
}

/** Whether all conditions hold. What is not there has no value, so `name=*` fails without `name`. */
export function conditionsHold(conditions: readonly Condition[], values: Claims): boolean {
  for (const { name, negated, value } of conditions) {
    // Own members only: a condition on `constructor` must not be met by every object there is.
    const given = Object.hasOwn(values, name) ? values[name] : undefined
    const met = given !== undefined && (value === undefined || value(given))
    if (met === negated) return false
  }
  return true
}

/** By the name alone, as a tool list asks. */
export function ruleMatchesName(rule: Rule, tool: string): boolean {
  return rule.action(tool)
}

/** By name and parameters, as a call asks. */
export function ruleMatches(rule: Rule, tool: string, params: Claims): boolean {
  return rule.action(tool) && conditionsHold(rule.conditions, params)
}
