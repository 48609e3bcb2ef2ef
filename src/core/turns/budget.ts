// The budget gate (decision T5): the lower of the folder's and the person's cap is in force. A turn under a cap is given all
// that is left of it, so the next one under the same cap waits until it is over: parallel turns cannot overrun together.
// Nothing here is caught: whoever cannot read what was spent starts no turn.
import type { Tx } from '../../store/engine.ts'
import { execute, query } from '../../store/statement.ts'
import { isAccount } from '../access/namespaces.ts'
import { groups } from '../groups/groups.ts'
import { budgetStatus, spentToday, users } from './costs.ts'
import { IS_OPEN } from './turn-rules.ts'

export type BudgetDecision =
  | {
      readonly kind: 'granted'
      /** What the turn may cost; absent where no cap is in force. */
      readonly money_cents?: number | undefined
      readonly user_sub?: string | undefined
    }
  /** A turn that runs has what is left of this cap: wait for it. */
  | { readonly kind: 'reserved'; readonly by: 'folder' | 'user_sub' }
  | { readonly kind: 'exhausted'; readonly sentence: string; readonly user_sub?: string | undefined }

export interface BudgetRequest {
  readonly folder: string
  readonly sender: string
  readonly now: string
}

export async function checkBudget(tx: Tx, { folder, sender, now }: BudgetRequest): Promise<BudgetDecision> {
  // Others have no cap of their own.
  const user_sub = isAccount(sender) ? sender : undefined
  const standings = await readCapUsages(tx, { folder, user_sub }, now)
  const allowance = allowed(standings, user_sub)
  // What is refused in any case need not wait.
  if (allowance.kind === 'granted')
    for (const { by, who } of standings) if (await isHeld(tx, by, who)) return { kind: 'reserved', by }
  return allowance
}

/** The same for a turn that is tried again: it holds its reservation still, and what it has cost so far counts. */
export async function recheckBudget(
  tx: Tx,
  turn: Charged,
  now: string,
): Promise<Exclude<BudgetDecision, { kind: 'reserved' }>> {
  return allowed(await readCapUsages(tx, turn, now), turn.user_sub)
}

/**
 * What the chat is told at the end of a turn: that four fifths of a cap are spent, once for each day and cap. Nothing where
 * there is nothing new to tell.
 */
export async function budgetNotice(tx: Tx, turn: Charged, now: string): Promise<string | undefined> {
  const told: string[] = []
  for (const standing of await readCapUsages(tx, turn, now)) {
    const { spent, cap } = standing
    const status = budgetStatus(spent, cap)
    if (status === 'ok' || !(await markWarned(tx, standing, `${now.slice(0, 10)} ${cap}`))) continue
    told.push(`${budgetName(standing)} is ${status === 'WARN' ? 'nearly ' : ''}spent (${spent} of ${cap} cents)`)
  }
  return told.length === 0 ? undefined : `${told.join(', and ')}; it starts again at 00:00 UTC`
}

/** Whom a turn is charged to. */
interface Charged {
  readonly folder: string
  readonly user_sub?: string | undefined
}

/** A cap that is in force, and what of it is spent today. */
interface CapUsage {
  readonly by: 'folder' | 'user_sub'
  readonly who: string
  readonly cap: number
  readonly spent: number
}

async function readCapUsages(tx: Tx, { folder, user_sub }: Charged, now: string): Promise<CapUsage[]> {
  const standings: CapUsage[] = []
  const add = async (by: CapUsage['by'], who: string, cap: number | undefined): Promise<void> => {
    if (cap !== undefined) standings.push({ by, who, cap, spent: await spentToday(tx, by, who, now) })
  }
  await add('folder', folder, (await groups.find(tx, { folder }))?.cost_cap_cents_per_day)
  if (user_sub !== undefined)
    await add('user_sub', user_sub, (await users.find(tx, { sub: user_sub }))?.cost_cap_cents_per_day)
  return standings
}

function allowed(
  standings: readonly CapUsage[],
  user_sub: string | undefined,
): Exclude<BudgetDecision, { kind: 'reserved' }> {
  const over = standings.find(isExhausted)
  if (over) {
    const sentence = `${budgetName(over)} is spent (${over.spent} of ${over.cap} cents); it starts again at 00:00 UTC`
    return { kind: 'exhausted', sentence, ...(user_sub === undefined ? {} : { user_sub }) }
  }
  const left = standings.map(({ cap, spent }) => cap - spent)
  return {
    kind: 'granted',
    ...(left.length === 0 ? {} : { money_cents: Math.min(...left) }),
    ...(user_sub === undefined ? {} : { user_sub }),
  }
}

function isExhausted({ spent, cap }: CapUsage): boolean {
  return budgetStatus(spent, cap) === 'EXHAUSTED'
}

function budgetName({ by }: CapUsage): string {
  return by === 'folder' ? "today's budget" : 'your budget for today'
}

/** A turn that runs may have begun before the cap was set: it spends of it all the same. */
async function isHeld(tx: Tx, by: CapUsage['by'], who: string): Promise<boolean> {
  return (await query(tx, {}, `select 1 as one from turns where ${IS_OPEN} and ${by} = $1 limit 1`, [who])).length > 0
}

async function markWarned(tx: Tx, { by, who }: CapUsage, of: string): Promise<boolean> {
  const [table, key] = by === 'folder' ? ['folder_turns', 'folder'] : ['users', 'sub']
  const changed = await execute(
    tx,
    `update ${table} set warned_on = $2 where ${key} = $1 and coalesce(warned_on, '') <> $2`,
    [who, of],
  )
  return changed > 0
}
