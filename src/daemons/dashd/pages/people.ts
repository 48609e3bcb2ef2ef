// Everyone who has signed in or has rights, for operators.
import type { PersonRow } from '../../../core/people/people.ts'
import { accountsResource } from '../../../resources/accounts.ts'
import { renderFilters, withQuery } from '../../../web/dash/filter-bar.ts'
import { badge, buttonLink, link, money, timeOf, visibleText } from '../../../web/dash/parts.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, html } from '../../../web/html.ts'
import { definePage } from '../page.ts'

/** Accounts have slashes and percent signs, so they are in the query. */
export function personPath(sub: string): string {
  return withQuery('/dash/person', { sub })
}

export const peoplePage = definePage({
  path: '/dash/people',
  title: 'People',
  nav: 'people',
  isShown: ({ isOperator }) => isOperator,
  show: async (view) => {
    const { search, after } = view.query
    const { people, next } = await view.call(accountsResource.verbs.list, {
      limit: view.limit,
      after,
      ...(search ? { search } : {}),
    })
    return {
      title: 'People',
      top: html`${renderFilters({
        id: 'people-filter',
        path: view.path,
        query: view.query,
        fields: [{ name: 'search', label: 'Account, name or e-mail address', kind: 'search', maxLength: 256 }],
      })}<p>${buttonLink('/dash/invites', 'Invite someone')}</p>`,
      table: defineTable<PersonRow>({
        id: 'people',
        caption: 'People',
        rows: people,
        rowId: ({ sub }) => sub,
        next,
        columns: [
          {
            label: 'Person',
            cell: ({ sub, name }) =>
              html`${link(personPath(sub), visibleText(name ?? sub))}${name === undefined ? EMPTY_HTML : html`<br><code>${sub}</code>`}`,
            value: ({ sub }) => sub,
          },
          { label: 'E-mail', cell: ({ email }) => visibleText(email ?? '') },
          { label: 'Accounts', cell: ({ subs }) => subs.length, isNumber: true },
          {
            label: 'Roles',
            cell: ({ roles, is_operator }) =>
              html`${is_operator ? badge('operator', 'warn') : EMPTY_HTML} ${roles.filter((role) => role !== 'role:operator').join(', ')}`,
            value: ({ roles }) => roles.join(' '),
          },
          { label: 'Grants', cell: ({ grants }) => grants, isNumber: true },
          { label: 'Sessions', cell: ({ sessions }) => sessions, isNumber: true },
          {
            label: 'Last sign-in',
            cell: ({ signed_in_at }) => timeOf(signed_in_at, view.nowMs),
            value: ({ signed_in_at }) => signed_in_at,
          },
          {
            label: 'Spent today',
            cell: ({ spent, cap }) => (cap === undefined ? money(spent) : `${money(spent)} of ${money(cap)}`),
            value: ({ spent }) => spent / 100,
            isNumber: true,
          },
        ],
        empty: {
          text: search ? 'No person matches.' : 'No person has signed in or has rights yet.',
          next: buttonLink('/dash/invites', 'Invite someone'),
          command: view.inTerminal(`svc invite ${view.host.instance} create 'team/**'`),
        },
      }),
      isLive: true,
    }
  },
})
