// One person: accounts, rights, sessions, bearers, passkeys and spending. For operators; people have /dash/me for themselves.

import type { z } from 'zod'
import type { Acl, AclMembership } from '../../../core/access/acl.ts'
import { shellQuote } from '../../../lib/text/shell-quote.ts'
import { accountsResource } from '../../../resources/accounts.ts'
import { aclResource } from '../../../resources/acl.ts'
import { aclMembershipResource } from '../../../resources/acl-membership.ts'
import { bearersResource } from '../../../resources/bearers.ts'
import { identitiesResource } from '../../../resources/identities.ts'
import { passkeysResource } from '../../../resources/passkeys.ts'
import { sessionsResource } from '../../../resources/sessions.ts'
import { usersResource } from '../../../resources/users.ts'
import { renderDetails } from '../../../web/dash/detail-pane.ts'
import { badge, buttonLink, copyText, link, money, section, timeOf, visibleText } from '../../../web/dash/parts.ts'
import { type DataTable, defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import type { FormFields } from '../../http/form-request.ts'
import { uncountedNotices } from '../cost-parts.ts'
import { definePage, type PageAction, type PageView } from '../page.ts'
import { accessPath } from './access.ts'
import { askForRemoval, isConfirmed } from './removal.ts'
import { bearerTable, endSessionButton, passkeyTable, revokeBearerButton, sessionTable } from './sign-in-tables.ts'

type GrantRow = z.output<typeof Acl>
type GrantKey = Omit<GrantRow, 'granted_by' | 'granted_at'>
type MembershipRow = z.output<typeof AclMembership>

const SHOWN_MAX = 200
const GRANT_COLUMNS = ['principal', 'action', 'scope', 'effect', 'params', 'predicate'] as const

/** The field `action` of a form names what the page does, so the action of a grant is `right`. */
function grantFields({ principal, action, scope, effect, params, predicate }: GrantKey): Record<string, string> {
  return { principal, right: action, scope, effect, params, predicate }
}

function grantOf(fields: FormFields): GrantKey {
  const text = (name: string): string => fields.get(name) ?? ''
  return {
    principal: text('principal'),
    action: text('right'),
    scope: text('scope'),
    effect: text('effect') === 'deny' ? 'deny' : 'allow',
    params: text('params'),
    predicate: text('predicate'),
  }
}

const actions: Readonly<Record<string, PageAction>> = {
  grant: {
    run: async (view, fields) => {
      const row = grantOf(fields)
      const { added } = await view.call(aclResource.verbs.grant, row)
      const text = `${row.principal} has ${row.action} on ${row.scope}`
      return { done: added ? `${text} now.` : `${text} already.` }
    },
  },
  revoke: {
    run: async (view, fields) => {
      const row = grantOf(fields)
      const { principal, action, scope } = row
      if (!isConfirmed(fields)) {
        const { warnings } = await view.call(aclResource.verbs.ungrant_effects, row)
        const question = `Take ${action} on ${scope} from ${principal}?`
        return askForRemoval(view, { question, warnings, action: 'revoke', fixed: grantFields(row) })
      }
      await view.call(aclResource.verbs.ungrant, row)
      return { done: `${principal} no longer has ${action} on ${scope}.` }
    },
  },
  join: { verb: aclMembershipResource.verbs.add, done: 'Added to the role.' },
  leave: {
    run: async (view, fields) => {
      const key = { subject: fields.get('subject') ?? '', role: fields.get('role') ?? '' }
      if (!isConfirmed(fields)) {
        const { warnings } = await view.call(aclMembershipResource.verbs.remove_effects, key)
        const question = `Take the role ${key.role} from ${key.subject}?`
        return askForRemoval(view, { question, warnings, action: 'leave', fixed: key })
      }
      await view.call(aclMembershipResource.verbs.remove, key)
      return { done: `${key.subject} no longer has ${key.role}.` }
    },
  },
  end_session: { verb: sessionsResource.verbs.delete, done: 'Session ended.' },
  end_sessions: {
    verb: sessionsResource.verbs.delete_all,
    done: ({ deleted }: { deleted: number }) => `Sessions ended: ${deleted}.`,
    confirm: ({ sub }) => `End every session of ${sub}?`,
  },
  revoke_bearer: { verb: bearersResource.verbs.revoke, done: 'Bearer revoked.' },
  revoke_bearers: {
    verb: bearersResource.verbs.revoke_all,
    done: ({ revoked }: { revoked: number }) => `Bearers revoked: ${revoked}.`,
    confirm: ({ sub }) => `Revoke every bearer of ${sub}?`,
  },
  remove_passkey: {
    verb: passkeysResource.verbs.remove,
    done: 'Passkey removed.',
    confirm: () => 'Remove this passkey? The person can no longer sign in with it.',
  },
  budget: { verb: usersResource.verbs.set_budget, done: 'Cap changed.' },
  link: { verb: identitiesResource.verbs.link, done: 'Account linked.' },
  unlink: {
    verb: identitiesResource.verbs.unlink,
    done: 'Account unlinked.',
    confirm: ({ sub }) => `Unlink ${sub}? It signs in as a person of its own then.`,
  },
  sign_in_link: {
    run: async (view, fields) => {
      const sub = fields.get('sub') ?? ''
      const { path } = await view.call(sessionsResource.verbs.create_link, { sub })
      return {
        title: 'Sign-in link',
        main: html`<p>This link signs in as <code>${sub}</code>, once, within 15 minutes. It is not shown again.</p>
<p>${copyText(`${view.host.webBase}${path}`)}</p>${buttonLink(view.url(), 'Back')}`,
      }
    },
  },
}

export const onePersonPage = definePage({
  path: '/dash/person',
  title: 'Person',
  isShown: ({ isOperator }) => isOperator,
  actions,
  show: async (view) => {
    const shown = await view.call(accountsResource.verbs.show, { sub: view.query.sub ?? '' })
    const { person } = shown
    const { sub, subs, name } = person
    const grants: GrantRow[] = []
    for (const principal of subs)
      grants.push(...(await view.call(aclResource.verbs.list, { principal, limit: SHOWN_MAX })).acl)
    const page = { limit: SHOWN_MAX, sub }
    const { sessions } = await view.call(sessionsResource.verbs.list, page)
    const { bearers } = await view.call(bearersResource.verbs.list, page)
    const valid = bearerTable(view, bearers, (row) => revokeBearerButton(view, row))
    const { passkeys } = await view.call(passkeysResource.verbs.list, { sub })
    const mayChange = await view.may(aclMembershipResource.verbs.add, { subject: sub, role: 'role:member' })
    const mayRevoke = await view.mayEach(aclResource.verbs.ungrant, grants)
    const revocable = new Set(grants.filter((_, at) => mayRevoke[at]))
    return {
      title: visibleText(name ?? sub),
      main: html`${person.cap === undefined ? EMPTY_HTML : await uncountedNotices(view)}${renderDetails({
        Account: html`<code>${sub}</code>`,
        'E-mail': person.email === undefined ? undefined : visibleText(person.email),
        Rights: person.is_operator ? badge('operator', 'warn') : undefined,
        Roles: person.roles.join(', '),
        'Last sign-in': timeOf(person.signed_in_at, view.nowMs),
        'Spent today':
          person.cap === undefined ? money(person.spent) : `${money(person.spent)} of ${money(person.cap)}`,
      })}
${section('accounts', 'Accounts', view.list(accountTable(view, shown, mayChange)), signInButton(view, sub, mayChange))}
${section('roles', 'Roles', view.list(await roleTable(view, subs, mayChange)))}
${section(
  'sessions-of-person',
  'Sessions',
  view.list(sessionTable(view, sessions, (row) => endSessionButton(view, row))),
  person.sessions === 0
    ? EMPTY_HTML
    : view.button({
        action: 'end_sessions',
        text: 'End all',
        label: 'End all sessions',
        fixed: { sub },
        isDangerous: true,
      }),
)}
${section(
  'bearers-of-person',
  'Bearers',
  view.list(valid),
  valid.rows.length === 0
    ? EMPTY_HTML
    : view.button({
        action: 'revoke_bearers',
        text: 'Revoke all',
        label: 'Revoke all bearers',
        fixed: { sub },
        isDangerous: true,
      }),
)}
${section(
  'passkeys-of-person',
  'Passkeys',
  view.list(
    passkeyTable(view, passkeys, ({ id, name }) =>
      view.button({ action: 'remove_passkey', text: 'Remove', label: `Remove the passkey ${name}`, fixed: { id } }),
    ),
  ),
)}
<h2>Grants</h2>`,
      table: defineTable(grantTable(view, grants, revocable)),
      bottom: changeForms(view, sub, person.cap, mayChange),
    }
  },
})

type ShownPerson = Awaited<ReturnType<typeof accountsResource.verbs.show.run>>

function accountTable(
  view: PageView,
  { person, accounts }: ShownPerson,
  mayChange: boolean,
): DataTable<{ sub: string }> {
  const known = new Map(accounts.map((account) => [account.sub, account]))
  return {
    id: 'accounts-of-person',
    caption: 'Accounts',
    rows: person.subs.map((sub) => ({ sub })),
    rowId: ({ sub }) => sub,
    rowActions: ({ sub }) =>
      mayChange && person.subs.length > 1
        ? view.button({ action: 'unlink', text: 'Unlink', label: `Unlink ${sub}`, fixed: { sub } })
        : EMPTY_HTML,
    columns: [
      { label: 'Account', cell: ({ sub }) => html`<code>${sub}</code>`, value: ({ sub }) => sub },
      { label: 'Name', cell: ({ sub }) => visibleText(known.get(sub)?.name ?? '') },
      { label: 'Last sign-in', cell: ({ sub }) => timeOf(known.get(sub)?.signed_in_at, view.nowMs) },
    ],
    empty: { text: 'No accounts.' },
  }
}

async function roleTable(
  view: PageView,
  subs: readonly string[],
  mayChange: boolean,
): Promise<DataTable<MembershipRow>> {
  const rows: MembershipRow[] = []
  for (const subject of subs)
    rows.push(...(await view.call(aclMembershipResource.verbs.list, { subject, limit: SHOWN_MAX })).acl_membership)
  return {
    id: 'roles-of-person',
    caption: 'Roles',
    rows,
    rowId: ({ subject, role }) => `${subject} ${role}`,
    rowActions: ({ subject, role }) =>
      mayChange
        ? view.button({ action: 'leave', text: 'Remove', label: `Remove ${role}`, fixed: { subject, role } })
        : EMPTY_HTML,
    columns: [
      { label: 'Role', cell: ({ role }) => role },
      { label: 'Account', cell: ({ subject }) => subject },
      { label: 'Added by', cell: ({ added_by }) => added_by },
      { label: 'Added', cell: ({ added_at }) => timeOf(added_at, view.nowMs) },
    ],
    empty: { text: 'No roles.', ...(mayChange ? { next: link('#new-role', 'Give a role') } : {}) },
  }
}

function grantTable(view: PageView, rows: readonly GrantRow[], revocable: ReadonlySet<GrantRow>): DataTable<GrantRow> {
  return {
    id: 'grants',
    caption: 'Grants',
    rows,
    rowId: (row) => GRANT_COLUMNS.map((name) => row[name]).join(' '),
    rowActions: (row) =>
      revocable.has(row)
        ? view.button({
            action: 'revoke',
            text: 'Revoke',
            label: `Revoke ${row.action} on ${row.scope}`,
            fixed: grantFields(row),
          })
        : EMPTY_HTML,
    columns: [
      { label: 'Account', cell: ({ principal }) => principal },
      { label: 'Action', cell: ({ action }) => action },
      {
        label: 'Folders',
        cell: ({ scope, principal }) =>
          /[*?[\\]/.test(scope) ? scope : html`<a href="${accessPath({ folder: scope, principal })}">${scope}</a>`,
        value: ({ scope }) => scope,
      },
      {
        label: 'Effect',
        cell: ({ effect }) => badge(effect, effect === 'deny' ? 'fault' : 'ok'),
        value: ({ effect }) => effect,
      },
      { label: 'Condition', cell: ({ params, predicate }) => [params, predicate].filter(Boolean).join('; ') },
      { label: 'Granted by', cell: ({ granted_by }) => granted_by },
      { label: 'Granted', cell: (row) => timeOf(row.granted_at, view.nowMs), value: ({ granted_at }) => granted_at },
    ],
    empty: {
      text: 'No row names this person; roles may still give them rights.',
      command: view.inTerminal(`svc group ${view.host.instance} grant ${shellQuote(view.query.sub ?? '')} 'team/**'`),
    },
  }
}

function signInButton(view: PageView, sub: string, mayChange: boolean): Html {
  return mayChange ? view.button({ action: 'sign_in_link', text: 'Create a sign-in link', fixed: { sub } }) : EMPTY_HTML
}

function linkForm(view: PageView, to: string): Html {
  return view.form({
    action: 'link',
    submit: 'Link the account',
    fixed: { to },
    fields: [
      {
        name: 'sub',
        label: 'Account',
        isRequired: true,
        maxLength: 255,
        placeholder: 'github:42',
        hint: 'It then signs in as this person.',
      },
      { name: 'move', label: 'Also if it belongs to another person', kind: 'checkbox' },
    ],
  })
}

function changeForms(view: PageView, sub: string, cap: number | undefined, mayChange: boolean): Html {
  const grant = view.form({
    action: 'grant',
    submit: 'Grant',
    fixed: { principal: sub },
    fields: [
      {
        name: 'right',
        label: 'Action',
        isRequired: true,
        value: 'interact',
        suggestions: ['admin', 'interact'],
        hint: 'admin, interact, or mcp:<tool>',
      },
      {
        name: 'scope',
        label: 'Folders',
        isRequired: true,
        maxLength: 255,
        hint: 'A folder such as team, or team/** with all folders below it',
      },
    ],
  })
  const budget = view.form({
    action: 'budget',
    submit: 'Set the cap',
    fixed: { sub },
    fields: [
      {
        name: 'daily',
        label: 'Cents per day',
        kind: 'number',
        min: 0,
        isRequired: true,
        value: String(cap ?? 0),
        hint: '0 removes the cap',
      },
    ],
  })
  if (!mayChange) return html`${section('new-grant', 'Grant a right', grant)}${section('cap', 'Daily cap', budget)}`
  const role = view.form({
    action: 'join',
    submit: 'Add',
    fixed: { subject: sub },
    fields: [
      {
        name: 'role',
        label: 'Role',
        isRequired: true,
        value: 'role:',
        suggestions: ['role:operator', 'role:member'],
        hint: 'role:operator may do everything everywhere',
      },
    ],
  })
  const account = linkForm(view, sub)
  return html`${section('new-grant', 'Grant a right', grant)}${section('new-role', 'Give a role', role)}${section('new-account', 'Link an account', account)}${section('cap', 'Daily cap', budget)}`
}
