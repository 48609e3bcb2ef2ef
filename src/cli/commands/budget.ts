// Daily budgets of folders and people, in cents.
import { groupsResource } from '../../resources/groups.ts'
import { usersResource } from '../../resources/users.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { parseInteger } from '../input/integer-argument.ts'
import { formatCents } from '../output/text-format.ts'

interface Budget {
  readonly spent: number
  readonly cap?: number | undefined
  readonly status?: string | undefined
}

type Scope = 'folder' | 'user'

function showCap(svc: SvcContext, scope: Scope, target: string, daily: number): void {
  svc.print.line(`${scope} ${target}: ${daily === 0 ? 'cap removed' : `capped at ${formatCents(daily)} a day`}`)
}

function showBudget(svc: SvcContext, scope: Scope, target: string, { spent, cap, status = 'ok' }: Budget): void {
  const remaining = cap === undefined ? undefined : cap - spent
  svc.print.record(
    {
      [scope]: target,
      cap: cap === undefined ? 'none' : `${formatCents(cap)} a day`,
      'spent today': formatCents(spent),
      remaining: remaining === undefined ? 'no limit' : formatCents(remaining),
      status,
    },
    { scope, target, ...(cap === undefined ? {} : { cap, remaining }), spent, status },
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
      showCap(svc, 'folder', folder, cents)
    },
  }),
  defineSvcCommand({
    usage: 'budget <instance> set user <sub> --daily|-d <cents>',
    about: "cap the cost of a person's turns per day (UTC); 0 removes the cap",
    example: 'budget demo set user github:42 --daily 100',
    run: async (svc, { sub, daily }) => {
      const cents = parseInteger('--daily', daily)
      await svc.call(usersResource.verbs.set_budget, { sub, daily: cents })
      showCap(svc, 'user', sub, cents)
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
