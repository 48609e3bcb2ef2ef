// Daily budgets of folders and people, in cents.
import { findUncountedModels, suggestPriceCommand } from '../../daemons/models/shared-models.ts'
import { groupsResource } from '../../resources/groups.ts'
import { usersResource } from '../../resources/users.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { parseInteger } from '../input/integer-argument.ts'
import { formatCents } from '../output/text-format.ts'

interface Budget {
  readonly spent: number
  readonly cap?: number | undefined
  readonly status?: string | undefined
  readonly above?: readonly { readonly folder: string; readonly status: string }[] | undefined
}

type Scope = 'folder' | 'user'

async function showCap(svc: SvcContext, scope: Scope, target: string, daily: number): Promise<void> {
  svc.print.line(`${scope} ${target}: ${daily === 0 ? 'cap removed' : `capped at ${formatCents(daily)} a day`}`)
  if (daily > 0) for (const sentence of await listUncounted(svc, scope, target)) svc.print.warn(sentence)
}

/** Why a cap does not limit some turns: their models have no price. */
async function listUncounted(svc: SvcContext, scope: Scope, target: string): Promise<string[]> {
  const { host, sources } = await svc.open()
  const query = { keyring: host.keyring, sources }
  const models = await host.engine.read((tx) => findUncountedModels(tx, query, scope === 'folder' ? target : undefined))
  return models.map(({ sentence, folder }) => `${sentence}; ${suggestPriceCommand(host.instance, folder)}`)
}

async function showBudget(svc: SvcContext, scope: Scope, target: string, budget: Budget): Promise<void> {
  const { spent, cap, status = 'ok', above = [] } = budget
  const remaining = cap === undefined ? undefined : cap - spent
  const isCapped = cap !== undefined || above.length > 0
  const uncounted = isCapped ? await listUncounted(svc, scope, target) : []
  svc.print.record(
    {
      [scope]: target,
      cap: cap === undefined ? 'none' : `${formatCents(cap)} a day`,
      'spent today': formatCents(spent),
      remaining: remaining === undefined ? 'no limit' : formatCents(remaining),
      ...(above.length > 0 ? { 'caps above': above.map((each) => `${each.folder}: ${each.status}`).join(', ') } : {}),
      status,
      ...(uncounted.length > 0 ? { 'not counted': uncounted.join('; ') } : {}),
    },
    {
      ...{ scope, target },
      ...(cap === undefined ? {} : { cap, remaining }),
      ...{ spent, status },
      ...(above.length > 0 ? { above } : {}),
      ...(uncounted.length > 0 ? { not_counted: uncounted } : {}),
    },
  )
}

export const budgetCommands = [
  defineSvcCommand({
    usage: 'budget <instance> set folder <folder> --daily|-d <cents>',
    about: "cap the cost of a folder's turns per day (UTC); 0 removes the cap",
    example: 'budget demo set folder team --daily 500',
    run: async (svc, { folder, daily }) => {
      const cents = parseInteger('--daily', daily)
      await svc.call(groupsResource.verbs.set_budget, { folder, daily: cents })
      await showCap(svc, 'folder', folder, cents)
    },
  }),
  defineSvcCommand({
    usage: 'budget <instance> set user <sub> --daily|-d <cents>',
    about: "cap the cost of a person's turns per day (UTC); 0 removes the cap",
    example: 'budget demo set user github:42 --daily 100',
    run: async (svc, { sub, daily }) => {
      const cents = parseInteger('--daily', daily)
      await svc.call(usersResource.verbs.set_budget, { sub, daily: cents })
      await showCap(svc, 'user', sub, cents)
    },
  }),
  defineSvcCommand({
    usage: 'budget <instance> show folder <folder> [--json]',
    about: "show a folder's cap, today's spend, the remainder and the status: ok, WARN (from 80 percent) or EXHAUSTED",
    example: 'budget demo show folder team',
    run: async (svc, { folder }) =>
      showBudget(svc, 'folder', folder, await svc.call(groupsResource.verbs.budget, { folder })),
  }),
  defineSvcCommand({
    usage: 'budget <instance> show user <sub> [--json]',
    about: "show a person's cap, today's spend, the remainder and the status",
    example: 'budget demo show user github:42',
    run: async (svc, { sub }) => showBudget(svc, 'user', sub, await svc.call(usersResource.verbs.budget, { sub })),
  }),
]
