// The budget check before a turn: the lower of the folder's and the person's cap applies. A turn reserves all that is left of
// its caps, so the next turn under the same cap waits for it, and parallel turns cannot overrun a cap together. Read errors
// propagate, so that no turn starts. See docs/decisions.md#budgets.
import type { Tx } from '../../store/engine.ts'
import { execute, query } from '../../store/statement.ts'
import { isAccount } from '../access/namespaces.ts'
import { groups } from '../groups/groups.ts'
import { budgetStatus, sumSpentToday, users } from './costs.ts'
import { IS_OPEN } from './turn-rules.ts'

type BudgetDecision =
  | {
      readonly kind: 'granted'
      /** Limit on the turn's cost; absent without a cap. */
      readonly money_cents?: number | undefined
      readonly user_sub?: string | undefined
    }
  /** A running turn has reserved the rest of this cap. */
  | { readonly kind: 'reserved'; readonly by: 'folder' | 'user_sub' }
  | { readonly kind: 'exhausted'; readonly message: string; readonly user_sub?: string | undefined }

interface BudgetRequest {
  readonly folder: string
  readonly sender: string
  readonly now: string
}

export async function checkBudget(tx: Tx, { folder, sender, now }: BudgetRequest): Promise<BudgetDecision> {
  // Only accounts have caps of their own.
  const user_sub = isAccount(sender) ? sender : undefined
  const usages = await readCapUsages(tx, { folder, user_sub }, now)
  const decision = decide(usages, user_sub)
  if (decision.kind === 'granted')
    for (const { by, who } of usages) if (await hasOpenTurn(tx, by, who)) return { kind: 'reserved', by }
  return decision
}

/** Checks again before a retry: the turn still has its reservation, and its cost so far counts. */
export async function recheckBudget(
  tx: Tx,
  turn: TurnPayer,
  now: string,
): Promise<Exclude<BudgetDecision, { kind: 'reserved' }>> {
  return decide(await readCapUsages(tx, turn, now), turn.user_sub)
}

/** Returns the warning that 80 % of a cap or more is spent, once per day and cap. */
export async function takeBudgetNotice(tx: Tx, turn: TurnPayer, now: string): Promise<string | undefined> {
  const warnings: string[] = []
  for (const usage of await readCapUsages(tx, turn, now)) {
    const status = budgetStatus(usage.spent, usage.cap)
    if (status === 'ok' || !(await markWarned(tx, usage, `${now.slice(0, 10)} ${usage.cap}`))) continue
    warnings.push(describeUsage(usage, status === 'WARN' ? 'nearly spent' : 'spent'))
  }
  return warnings.length === 0 ? undefined : `${warnings.join(', and ')}; ${RESET_TIME}`
}

interface TurnPayer {
  readonly folder: string
  readonly user_sub?: string | undefined
}

/** A cap that applies, and the amount spent today. */
interface CapUsage {
  readonly by: 'folder' | 'user_sub'
  readonly who: string
  readonly cap: number
  readonly spent: number
}

async function readCapUsages(tx: Tx, { folder, user_sub }: TurnPayer, now: string): Promise<CapUsage[]> {
  const usages: CapUsage[] = []
  const add = async (by: CapUsage['by'], who: string, cap: number | undefined): Promise<void> => {
    if (cap !== undefined) usages.push({ by, who, cap, spent: await sumSpentToday(tx, by, who, now) })
  }
  await add('folder', folder, (await groups.find(tx, { folder }))?.cost_cap_cents_per_day)
  if (user_sub !== undefined)
    await add('user_sub', user_sub, (await users.find(tx, { sub: user_sub }))?.cost_cap_cents_per_day)
  return usages
}

const RESET_TIME = 'it resets at 00:00 UTC'

function decide(
  usages: readonly CapUsage[],
  user_sub: string | undefined,
): Exclude<BudgetDecision, { kind: 'reserved' }> {
  const payer = user_sub === undefined ? {} : { user_sub }
  const over = usages.find(({ spent, cap }) => budgetStatus(spent, cap) === 'EXHAUSTED')
  if (over) return { kind: 'exhausted', message: `${describeUsage(over, 'spent')}; ${RESET_TIME}`, ...payer }
  const left = usages.map(({ cap, spent }) => cap - spent)
  return { kind: 'granted', ...(left.length === 0 ? {} : { money_cents: Math.min(...left) }), ...payer }
}

function describeUsage({ by, spent, cap }: CapUsage, state: string): string {
  const budget = by === 'folder' ? "today's budget" : 'your budget for today'
  return `${budget} is ${state} (${spent} of ${cap} ${cap === 1 ? 'cent' : 'cents'})`
}

/** Any open turn counts, even one that began before the cap was set. */
async function hasOpenTurn(tx: Tx, by: CapUsage['by'], who: string): Promise<boolean> {
  return (await query(tx, {}, `select 1 as one from turns where ${IS_OPEN} and ${by} = $1 limit 1`, [who])).length > 0
}

async function markWarned(tx: Tx, { by, who }: CapUsage, warned_on: string): Promise<boolean> {
  const [table, key] = by === 'folder' ? ['folder_turns', 'folder'] : ['users', 'sub']
  const changed = await execute(
    tx,
    `update ${table} set warned_on = $2 where ${key} = $1 and coalesce(warned_on, '') <> $2`,
    [who, warned_on],
  )
  return changed > 0
}
