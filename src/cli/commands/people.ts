// People: who they are, and what they have. `identity` links their accounts, `group grant` gives them rights.
import { accountsResource } from '../../resources/accounts.ts'
import { defineSvcCommand } from '../command.ts'
import { formatCents } from '../output/text-format.ts'

const people = accountsResource.verbs

export const peopleCommands = [
  defineSvcCommand({
    usage: 'people <instance> list [--search|-s <text>] [--json]',
    about:
      'list the people who signed in or have rights, one line each for all their accounts; --search looks for part of an account, name or e-mail address',
    example: 'people demo list --search ada',
    run: async (svc, { search }) =>
      svc.print.table({
        rows: await svc.listAll(people.list, 'people', { search }),
        columns: {
          SUB: ({ sub }) => sub,
          NAME: ({ name = '-' }) => name,
          OTHER_SUBS: ({ subs }) => subs.slice(1).join(',') || '-',
          ROLES: ({ roles }) => roles.join(',') || '-',
          GRANTS: ({ grants }) => grants,
          SESSIONS: ({ sessions }) => sessions,
          SIGNED_IN: ({ signed_in_at = '-' }) => signed_in_at,
          SPENT_TODAY: ({ spent, cap }) =>
            cap === undefined ? formatCents(spent) : `${formatCents(spent)} of ${formatCents(cap)}`,
        },
        empty: search === undefined ? 'no people' : `no person matches ${JSON.stringify(search)}`,
      }),
  }),
  defineSvcCommand({
    usage: 'people <instance> show <sub> [--json]',
    about: 'show a person: accounts, roles, sessions and spending',
    example: 'people demo show github:42',
    run: async (svc, { sub }) => {
      const shown = await svc.call(people.show, { sub })
      const { person } = shown
      svc.print.record(
        {
          sub: person.sub,
          name: person.name ?? '-',
          'e-mail': person.email ?? '-',
          accounts: person.subs.join(', '),
          operator: person.is_operator ? 'yes' : 'no',
          roles: person.roles.join(', ') || '-',
          grants: person.grants,
          'signed in': person.signed_in_at ?? 'never',
          sessions: person.sessions,
          cap: person.cap === undefined ? 'none' : `${formatCents(person.cap)} a day`,
          'spent today': formatCents(person.spent),
        },
        shown,
      )
    },
  }),
]
