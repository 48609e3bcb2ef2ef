// The budget check before a turn. The caps of the folder, of the folders above it by path, and of the person apply; a folder pays
// for all folders below it. A turn reserves 25 % of the unspent amount of each cap, so that several can run in parallel and
// still cannot exceed a cap. Read errors propagate, so that no turn starts. See docs/decisions.md#budgets.
import type { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { execute, integer, optional, placeholders, query, text } from '../../store/statement.ts'
import { isAccount } from '../access/namespaces.ts'
import { containsFolder, selfAndAncestors } from '../access/tiers.ts'
import { folderTurns } from './conversations.ts'
import { budgetOf, budgetStatus, type DailyBudget, sumSpentToday, users, worstStatus } from './costs.ts'

type BudgetDecision =
  | {
      readonly kind: 'granted'
      /** Limit on what the turn may cost from now on; absent without a cap. */
      readonly money_cents?: number | undefined
      readonly user_sub?: string | undefined
    }
  /** Running turns have reserved the rest of this cap. */
  | { readonly kind: 'reserved'; readonly cap: Pick<Cap, 'by' | 'who'> }
  | { readonly kind: 'exhausted'; readonly message: string; readonly user_sub?: string | undefined }

interface BudgetRequest {
  readonly folder: string
  readonly sender: string
  readonly now: string
}

interface Cap {
  readonly by: 'folder' | 'user_sub'
  readonly who: string
  readonly cents: number
}

interface CapUsage extends Cap {
  /** Since 00:00 UTC. */
  readonly spent: number
}

export async function checkBudget(tx: Tx, { folder, sender, now }: BudgetRequest): Promise<BudgetDecision> {
  // Only accounts have caps of their own.
  const user_sub = isAccount(sender) ? sender : undefined
  const usages = await readCapUsages(tx, { folder, user_sub }, now)
  if (usages.length === 0) return { kind: 'granted', user_sub }
  const over = usages.find(isExhausted)
  if (over) return { kind: 'exhausted', message: describeExhausted(over, now), user_sub }
  const open = await listOpenTurns(tx)
  const shares: number[] = []
  for (const usage of usages) {
    const { left, hasOthers } = leftUnder(usage, open)
    // With nothing left to reserve, one turn at a time.
    if (left <= 0 && hasOthers) return { kind: 'reserved', cap: usage }
    shares.push(shareOf(left))
  }
  return { kind: 'granted', money_cents: Math.min(...shares), user_sub }
}

/** Checks again before a retry, which cannot wait for others: its cost so far counts, and its old reservation does not. */
export async function recheckBudget(
  tx: Tx,
  turn: TurnPayer & { readonly id: string },
  now: string,
): Promise<Exclude<BudgetDecision, { kind: 'reserved' }>> {
  const { user_sub } = turn
  const usages = await readCapUsages(tx, turn, now)
  if (usages.length === 0) return { kind: 'granted', user_sub }
  const over = usages.find(isExhausted)
  if (over) return { kind: 'exhausted', message: describeExhausted(over, now), user_sub }
  const others = (await listOpenTurns(tx)).filter(({ id }) => id !== turn.id)
  const shares = usages.map((usage) => shareOf(leftUnder(usage, others).left))
  return { kind: 'granted', money_cents: Math.min(...shares), user_sub }
}

/** At most a quarter, in whole cents: with less than a cent each, parallel turns could overrun the cap together. */
function shareOf(left: number): number {
  return left <= 0 ? 0 : Math.max(1, Math.floor(left / 4))
}

interface OpenTurn {
  readonly id: string
  readonly folder: string
  readonly user_sub?: string | undefined
  readonly money_cents?: number | undefined
  /** The part of its cost that is recorded. */
  readonly booked: number
}

/** Few: those that run, and those that wait for another attempt. */
function listOpenTurns(tx: Tx): Promise<OpenTurn[]> {
  return query(
    tx,
    { id: text, folder: text, user_sub: optional(text), money_cents: optional(integer), booked: integer },
    `select t.id, t.folder, t.user_sub, t.money_cents, (select cast(coalesce(sum(c.cost_cents), 0) as bigint)
       from cost_log c where c.folder = t.folder and c.turn_id = t.id) as booked
     from turns t where t.state <> 'done'`,
  )
}

/** A turn that began before the cap was set has no limit, and so may use all that is left. */
function leftUnder(
  { by, who, cents, spent }: CapUsage,
  open: readonly OpenTurn[],
): { readonly left: number; readonly hasOthers: boolean } {
  const others = open.filter((turn) => (by === 'folder' ? containsFolder(who, turn.folder) : turn.user_sub === who))
  const reserved = others.map(({ money_cents, booked }) =>
    money_cents === undefined ? Number.POSITIVE_INFINITY : Math.max(0, money_cents - booked),
  )
  return { left: cents - spent - reserved.reduce((sum, each) => sum + each, 0), hasOthers: others.length > 0 }
}

/** Returns the warning that 80 % of a cap or more is spent, once per day and cap. Others in the chat read it: no amounts. */
export async function takeBudgetNotice(tx: Tx, turn: TurnPayer, now: string): Promise<string | undefined> {
  const warnings: string[] = []
  for (const usage of await readCapUsages(tx, turn, now)) {
    const status = budgetStatus(usage.spent, usage.cents)
    if (status === 'ok' || !(await markWarned(tx, usage, `${now.slice(0, 10)} ${usage.cents}`))) continue
    const budget = usage.by === 'folder' ? "today's budget" : 'your budget for today'
    warnings.push(`${budget} is ${status === 'WARN' ? 'nearly spent' : 'spent'}`)
  }
  return warnings.length === 0 ? undefined : `${warnings.join(', and ')}; it starts again at ${nextDay(now)}`
}

/** What the chat is told about a turn that was refused. */
export function describePause(now: string): string {
  return `the agent is paused until ${nextDay(now)}`
}

/** What a folder has spent today, and how it stands under its own cap and those of the folders above. */
export async function readFolderBudget(tx: Tx, folder: string, now: string): Promise<z.output<typeof DailyBudget>> {
  const usages = await readCapUsages(tx, { folder }, now)
  const own = usages.find(({ who }) => who === folder)
  const above = usages.filter((usage) => usage !== own)
  const statusOf = ({ spent, cents }: CapUsage) => budgetStatus(spent, cents)
  const budget = budgetOf(own?.spent ?? (await sumSpentToday(tx, 'folder', folder, now)), own?.cents)
  if (above.length === 0) return budget
  return {
    ...budget,
    status: worstStatus(usages.map(statusOf)),
    above: above.map((usage) => ({ folder: usage.who, status: statusOf(usage) })),
  }
}

/** Whose budget a turn counts against. */
export interface TurnPayer {
  readonly folder: string
  readonly user_sub?: string | undefined
}

/** The caps that apply to a turn, outermost folder first. */
export async function readCaps(tx: Tx, { folder, user_sub }: TurnPayer): Promise<Cap[]> {
  const folders = selfAndAncestors(folder)
  const capped = await query(
    tx,
    { who: text, cents: integer },
    `select folder as who, cost_cap_cents_per_day as cents from groups
     where folder in (${placeholders(folders.length)}) and cost_cap_cents_per_day is not null order by folder`,
    folders,
  )
  const caps: Cap[] = capped.map((cap) => ({ by: 'folder', ...cap }))
  const cents = user_sub === undefined ? undefined : (await users.find(tx, { sub: user_sub }))?.cost_cap_cents_per_day
  return user_sub === undefined || cents === undefined ? caps : [...caps, { by: 'user_sub', who: user_sub, cents }]
}

export async function readCapUsages(tx: Tx, payer: TurnPayer, now: string): Promise<CapUsage[]> {
  const usages: CapUsage[] = []
  for (const cap of await readCaps(tx, payer))
    usages.push({ ...cap, spent: await sumSpentToday(tx, cap.by, cap.who, now) })
  return usages
}

function isExhausted({ spent, cents }: CapUsage): boolean {
  return budgetStatus(spent, cents) === 'EXHAUSTED'
}

/** For operators; agents read it too, and may repeat it, so it has no amounts. */
function describeExhausted({ who }: CapUsage, now: string): string {
  return `the budget of ${who} for today is spent; it starts again at ${nextDay(now)}`
}

const DAY_MS = 24 * 3_600_000

function nextDay(now: string): string {
  return `${new Date(Date.parse(now.slice(0, 10)) + DAY_MS).toISOString().slice(0, 10)} 00:00 UTC`
}

async function markWarned(tx: Tx, { by, who }: Cap, warned_on: string): Promise<boolean> {
  // A folder above the turn's may have had no turn yet.
  if (by === 'folder')
    await folderTurns.insertIfMissing(tx, { folder: who, served: 0, failures: 0, open_until: 0, warned_on: '' })
  const [table, key] = by === 'folder' ? ['folder_turns', 'folder'] : ['users', 'sub']
  const changed = await execute(
    tx,
    `update ${table} set warned_on = $2 where ${key} = $1 and coalesce(warned_on, '') <> $2`,
    [who, warned_on],
  )
  return changed > 0
}
