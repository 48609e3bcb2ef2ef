// Budgets: what a folder or a person may cost in a day, in cents.
import { groupsResource } from '../../resources/groups.ts'
import { usersResource } from '../../resources/users.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { parseInteger } from '../input/integer-argument.ts'

interface Budget {
  readonly spent: number
  readonly cap?: number | undefined
  readonly status?: string | undefined
}

type Scope = 'folder' | 'user'

function showSet(svc: SvcContext, scope: Scope, target: string, daily: number): void {
  svc.print.line(daily === 0 ? `${scope} ${target}: cap removed` : `${scope} ${target}: capped at ${daily} cents a day`)
}

/** Without a cap nothing is ever refused, so there is nothing left to count. */
function show(svc: SvcContext, scope: Scope, target: string, { spent, cap, status = 'ok' }: Budget): void {
  const remaining = cap === undefined ? undefined : cap - spent
  svc.print.record(
    {
      [scope]: target,
      cap: cap === undefined ? 'none' : `${cap} cents a day`,
      'spent today': `${spent} cents`,
      remaining: remaining === undefined ? 'no limit' : `${remaining} cents`,
      status,
    },
    { scope, target, ...(cap === undefined ? {} : { cap, remaining }), spent, status },
  )
}

export const budgetCommands = [
  defineSvcCommand({
    usage: 'budget <instance> set folder <folder> --daily|-d <cents>',
    about: "cap what a folder's turns may cost in a day (UTC); 0 removes the cap",
    example: 'budget demo set folder team --daily 500',
    run: async (svc, { folder, daily }) => {
      const cents = parseInteger('--daily', daily)
      await svc.call(groupsResource.verbs.set_budget, { folder, daily: cents })
      showSet(svc, 'folder', folder, cents)
    },
  }),
  defineSvcCommand({
    usage: 'budget <instance> set user <sub> --daily|-d <cents>',
    about: "cap what a person's turns may cost in a day (UTC); 0 removes the cap",
    example: 'budget demo set user github:42 --daily 100',
    run: async (svc, { sub, daily }) => {
      const cents = parseInteger('--daily', daily)
      await svc.call(usersResource.verbs.set_budget, { sub, daily: cents })
      showSet(svc, 'user', sub, cents)
    },
  }),
  defineSvcCommand({
    usage: 'budget <instance> show folder <folder> [--json]',
    about: "show a folder's cap, today's spend, what remains, and ok, WARN (80 percent) or EXHAUSTED",
    example: 'budget demo show folder team',
    run: async (svc, { folder }) =>
      show(svc, 'folder', folder, await svc.call(groupsResource.verbs.budget, { folder })),
  }),
  defineSvcCommand({
    usage: 'budget <instance> show user <sub> [--json]',
    about: "show a person's cap, today's spend, what remains, and the status",
    example: 'budget demo show user github:42',
    run: async (svc, { sub }) => show(svc, 'user', sub, await svc.call(usersResource.verbs.budget, { sub })),
  }),
]
