// Who may do what in a folder, with the reason of the evaluator.
import type { z } from 'zod'
import { accessVerbs } from '../../../faces/access-verbs.ts'
import { renderFilters, withQuery } from '../../../web/dash/filter-bar.ts'
import { badge, emptyState, link, visibleText } from '../../../web/dash/parts.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, html } from '../../../web/html.ts'
import { agentTools } from '../../agents/agent-tools.ts'
import { definePage, type PageContent, type PageView } from '../page.ts'
import { explainWrongFilter } from '../wrong-filters.ts'

const { explain, who } = accessVerbs(agentTools().tools.values())

export function accessPath(query: { readonly folder: string; readonly principal?: string }): string {
  return withQuery('/dash/access', query)
}

export const accessPage = definePage({
  path: '/dash/access',
  title: 'Access',
  nav: 'people',
  show: async (view) => {
    const { folder, principal } = view.query
    const content = await explainWrongFilter<Omit<PageContent, 'title'>>(async () =>
      !folder
        ? {
            main: emptyState({
              text: 'Name a folder to see who may use it.',
              command: view.inTerminal(`svc access ${view.host.instance} who main`),
            }),
          }
        : principal
          ? await explainPrincipal(view, folder, principal)
          : await listFolderPeople(view, folder),
    )
    return {
      title: 'Access',
      top: renderFilters({
        id: 'access-filter',
        path: view.path,
        query: view.query,
        fields: [
          { name: 'folder', label: 'Folder', kind: 'search', maxLength: 255 },
          {
            name: 'principal',
            label: 'Person, role or agent',
            kind: 'search',
            maxLength: 256,
            placeholder: 'github:42, role:member, folder:team',
          },
        ],
      }),
      ...content,
    }
  },
})

type FolderPerson = z.output<NonNullable<typeof who.output>>['people'][number]

async function listFolderPeople(view: PageView, folder: string): Promise<Omit<PageContent, 'title'>> {
  const { people, next } = await view.call(who, { folder, limit: view.limit, after: view.query.after })
  return {
    main: html`<p>Who may administer or use <code>${folder}</code>, and why. ${link(accessPath({ folder, principal: `folder:${folder}` }), 'What its agent may do')}</p>`,
    table: defineTable<FolderPerson>({
      id: 'access',
      caption: `Who may use ${folder}`,
      rows: people,
      rowId: ({ principal }) => principal,
      next,
      columns: [
        {
          label: 'Principal',
          cell: ({ principal, name }) =>
            html`${link(accessPath({ folder, principal }), principal)}${name === undefined ? EMPTY_HTML : html`<br>${visibleText(name)}`}`,
          value: ({ principal }) => principal,
        },
        {
          label: 'May',
          cell: ({ may, is_operator }) =>
            html`${badge(may, may === 'administer' ? 'warn' : 'ok')}${is_operator ? html` ${badge('operator', 'warn')}` : EMPTY_HTML}`,
          value: ({ may }) => may,
        },
        { label: 'Reason', cell: ({ reason }) => reason },
      ],
      empty: {
        text: `No person may use ${folder}.`,
        next: link(withQuery('/dash/invites', { folder }), 'Invite someone'),
        command: view.inTerminal(`svc access ${view.host.instance} who ${folder}`),
      },
    }),
  }
}

interface ExplainedRight {
  readonly name: string
  readonly allow: boolean
  readonly held: boolean
  readonly reason: string
}

async function explainPrincipal(
  view: PageView,
  folder: string,
  principal: string,
): Promise<Omit<PageContent, 'title'>> {
  const { actions, tools, roles } = await view.call(explain, { principal, folder })
  const rights: ExplainedRight[] = [
    ...actions.map(({ action, allow, reason }) => ({ name: action, allow, reason, held: false })),
    ...tools.map(({ tool, ...right }) => ({ name: tool, ...right })),
  ]
  const byRoles = roles.length === 0 ? EMPTY_HTML : html` Roles: ${roles.join(', ')}.`
  return {
    main: html`<p>What <code>${principal}</code> may do in <code>${folder}</code>.${byRoles} ${link(accessPath({ folder }), 'Everyone in this folder')}</p>`,
    table: defineTable<ExplainedRight>({
      id: 'rights',
      caption: `What ${principal} may do in ${folder}`,
      rows: rights,
      rowId: ({ name }) => name,
      columns: [
        { label: 'Action', cell: ({ name }) => name },
        {
          label: 'Allowed',
          cell: ({ allow, held }) =>
            held ? badge('after approval', 'warn') : allow ? badge('yes', 'ok') : badge('no'),
          value: ({ allow, held }) => (held ? 'after approval' : allow),
        },
        { label: 'Reason', cell: ({ reason }) => reason },
      ],
      empty: { text: 'There are no tools.' },
    }),
  }
}
