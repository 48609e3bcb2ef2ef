// The tiers of each tool, by its name.
import type { DeclaredTiers } from '../../src/core/access/policy.ts'
import { defaultRule, tierFault as faultOf, type Tier, type ToolTiers } from '../../src/core/access/tiers.ts'
import { resources } from '../../src/resources/index.ts'
import { tools } from '../../src/tools/index.ts'

const DECLARED = new Map(
  [...tools, ...resources.flatMap(({ verbs }) => Object.values(verbs))]
    .filter(({ when }) => when !== undefined)
    .map(({ toolName, tiers = {} }) => [toolName, tiers]),
)

/** The tools of the specification; all others are named `<resource>.<verb>`. */
export const SPECIFIED_TIERS: Readonly<Record<string, ToolTiers>> = Object.fromEntries(
  [...DECLARED].filter(([name]) => !name.includes('.')),
)

export function declaredTiers(tool: string): DeclaredTiers {
  return { tool, tiers: DECLARED.get(tool) ?? {} }
}

export function bracketFault(tool: string, tier: Tier): string | undefined {
  return faultOf(tool, declaredTiers(tool).tiers, tier)
}

export function defaultRules(tier: Tier): string[] {
  return [...new Set([...DECLARED].flatMap(([tool, tiers]) => defaultRule(tool, tiers, tier) ?? []))]
}
