// Who may do what in a folder: all rows that concern it, also by a glob.

import { refuse } from '../../../lib/refusal.ts'
import { accountsResource } from '../../../resources/accounts.ts'
import { aclResource } from '../../../resources/acl.ts'
import { groupsResource } from '../../../resources/groups.ts'
import type { FormField } from '../../../web/dash/form.ts'
import { badge, buttonLink, section, timeOf } from '../../../web/dash/parts.ts'
import { type DataTable, defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, html } from '../../../web/html.ts'
import type { FormFields } from '../../http/form-request.ts'
import type { PageView } from '../page.ts'
import { askForRemoval, isConfirmed } from '../pages/removal.ts'
import { optionalField, requiredField } from '../typed-fields.ts'
import { defineFolderView } from './view.ts'

const acl = aclResource.verbs
type GrantRow = Awaited<ReturnType<typeof acl.of_folder.run>>['grants'][number]
type GrantInput = Pick<GrantRow, 'principal' | 'action' | 'scope' | 'effect' | 'params' | 'predicate'>

export const grantsView = defineFolderView({
  name: 'grants',
  title: 'Grants',
  actions: {
    grant: {
      run: async (view, fields) => {
        const row = rowOf(fields)
        if (!view.isOperator && !/^(?:admin|interact|mcp:[\w.]+)$/.test(row.action))
          refuse('invalid', 'right must be interact, admin or mcp:<tool>')
        const { added } = await view.call(acl.grant, row)
        return {
          done: added ? `Granted ${row.action} on ${row.scope} to ${row.principal}.` : 'This grant exists already.',
        }
      },
    },
    ungrant: {
      run: async (view, fields) => {
        const row = rowOf(fields)
        const { principal, action: right, scope } = row
        const folder = view.params.folder ?? ''
        if (!isConfirmed(fields)) {
          const { warnings } = await view.call(acl.ungrant_effects, row)
          const wider = isOwn(row, folder) ? [] : [`This concerns all folders of ${scope}, not only ${folder}.`]
          const question = `Take back ${right} on ${scope} from ${principal}?`
          const { action: _, ...fixed } = row
          return askForRemoval(view, {
            question,
            warnings: [...wider, ...warnings],
            action: 'ungrant',
            fixed: { ...fixed, right },
          })
        }
        await view.call(acl.ungrant, row)
        const done = `Took back ${right} on ${scope} from ${principal}.`
        // The person may have taken back their own right.
        const isStillTheirs = await view.may(groupsResource.verbs.show, { folder })
        return isStillTheirs ? { done } : { done, to: '/dash/me' }
      },
    },
  },
  show: async (view, folder) => {
    const { grants: all } = await view.call(acl.of_folder, { folder })
    const grants = all.toSorted((a, b) => Number(isOwn(b, folder)) - Number(isOwn(a, folder)))
    const may = await view.mayEach(acl.ungrant, grants.map(inputOf))
    const scopes = await grantableScopes(view, folder)
    const fields = grantFields(view, scopes, await suggestedPrincipals(view, grants))
    const form = view.form({ action: 'grant', fields, submit: 'Grant' })
    return {
      table: defineTable(grantTable(view, folder, grants, { may, mayGrant: scopes.length > 0 })),
      bottom: scopes.length > 0 ? section('new-grant', 'Grant a right', form) : EMPTY_HTML,
      isLive: true,
    }
  },
})

/** Whether the row is about this folder alone, or about it and those below. */
function isOwn({ scope }: Pick<GrantRow, 'scope'>, folder: string): boolean {
  return scope === folder || scope === `${folder}/**`
}

function rowOf(fields: FormFields): GrantInput {
  return {
    principal: requiredField(fields, 'principal'),
    action: requiredField(fields, 'right'),
    scope: requiredField(fields, 'scope'),
    effect: optionalField(fields, 'effect') === 'deny' ? 'deny' : 'allow',
    params: optionalField(fields, 'params') ?? '',
    predicate: optionalField(fields, 'predicate') ?? '',
  }
}

function inputOf({ principal, action, scope, effect, params, predicate }: GrantRow): GrantInput {
  return { principal, action, scope, effect, params, predicate }
}

function grantTable(
  view: PageView,
  folder: string,
  rows: readonly GrantRow[],
  { may, mayGrant }: { readonly may: readonly boolean[]; readonly mayGrant: boolean },
): DataTable<GrantRow> {
  return {
    id: 'grants',
    caption: `Grants on ${folder}`,
    rows,
    rowId: (row) => Object.values(inputOf(row)).join(' '),
    columns: [
      { label: 'Who', cell: ({ principal }) => principal },
      {
        label: 'Meaning',
        cell: ({ meaning, effect, is_last_admin }) =>
          html`${meaning}${effect === 'deny' ? html` ${badge('denies', 'warn')}` : EMPTY_HTML}${is_last_admin ? html` ${badge('last administrator', 'warn')}` : EMPTY_HTML}`,
        value: ({ meaning }) => meaning,
      },
      { label: 'Action', cell: ({ action }) => action },
      {
        label: 'Scope',
        cell: (row) => html`${row.scope}${isOwn(row, folder) ? EMPTY_HTML : html` ${badge('not only this folder')}`}`,
        value: ({ scope }) => scope,
      },
      { label: 'Granted by', cell: ({ granted_by }) => granted_by },
      {
        label: 'Granted',
        cell: ({ granted_at }) => timeOf(granted_at, view.nowMs),
        value: ({ granted_at }) => granted_at,
      },
    ],
    rowActions: (row) => {
      if (!may[rows.indexOf(row)]) return EMPTY_HTML
      const { action: right, ...fixed } = inputOf(row)
      const label = `Take back ${row.action} on ${row.scope} from ${row.principal}`
      return view.button({
        action: 'ungrant',
        fixed: { ...fixed, right },
        text: 'Take back',
        label,
        isDangerous: true,
      })
    },
    empty: {
      text: `Only operators have rights on ${folder}.`,
      next: mayGrant ? html`<p>${buttonLink('#new-grant', 'Grant a right')}</p>` : undefined,
      command: view.inTerminal(`svc group ${view.host.instance} grant <sub> '${folder}/**'`),
    },
  }
}

const SUGGESTED_MAX = 200

/** Only operators may list all accounts. */
async function suggestedPrincipals(view: PageView, grants: readonly GrantRow[]): Promise<string[]> {
  const known = grants.map(({ principal }) => principal).filter((principal) => principal !== '**')
  if (!view.isOperator) return [...new Set(known)]
  const { people } = await view.call(accountsResource.verbs.list, { limit: SUGGESTED_MAX })
  return [...new Set([...known, ...people.flatMap(({ subs }) => subs)])].slice(0, SUGGESTED_MAX)
}

type ScopeOption = readonly [scope: string, label: string]

/** The scopes on which the person may grant the least right. */
async function grantableScopes(view: PageView, folder: string): Promise<ScopeOption[]> {
  const options: readonly ScopeOption[] = [
    [folder, `${folder} alone`],
    [`${folder}/**`, `${folder} and all folders below it`],
  ]
  const row = { principal: '', action: 'interact', effect: 'allow', params: '', predicate: '' } as const
  const may = await view.mayEach(
    acl.grant,
    options.map(([scope]) => ({ ...row, scope })),
  )
  return options.filter((_, at) => may[at])
}

function grantFields(view: PageView, scopes: readonly ScopeOption[], suggestions: readonly string[]): FormField[] {
  const effect: FormField = {
    name: 'effect',
    label: 'Effect',
    kind: 'select',
    options: ['allow', 'deny'],
    value: 'allow',
  }
  return [
    {
      name: 'principal',
      label: 'Who',
      isRequired: true,
      suggestions,
      placeholder: 'github:1234',
      hint: 'An account (<provider>:<id>), an agent (folder:<path>) or a role (role:<name>).',
    },
    {
      // `action` is the name of the form's action.
      name: 'right',
      inputNames: ['action'],
      label: 'Right',
      isRequired: true,
      value: 'interact',
      suggestions: ['admin', 'interact', 'mcp:send', 'mcp:schedule_task', 'mcp:issue_chat_link', 'mcp:issue_webhook'],
      hint: 'interact: talk to it; admin: administer it; mcp:<tool>: use one tool.',
    },
    {
      name: 'scope',
      label: 'On',
      kind: 'select',
      options: scopes,
    },
    ...(view.isOperator ? [effect] : []),
  ]
}
