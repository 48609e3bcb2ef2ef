// Tables of what signs a person in: sessions, bearers and passkeys. Pages about oneself and about others show the same.

import type { IssuedBearerRow } from '../../../core/access/issued-bearers.ts'
import type { SessionRow } from '../../../core/people/sessions.ts'
import { timestamp } from '../../../lib/clock.ts'
import { shellQuote } from '../../../lib/text/shell-quote.ts'
import type { PublicPasskey } from '../../../resources/passkeys.ts'
import { badge, link, timeOf, visibleText } from '../../../web/dash/parts.ts'
import type { DataTable } from '../../../web/dash/table.ts'
import { type Html, html } from '../../../web/html.ts'
import type { PageView } from '../page.ts'

/** The page of a person names them in its query, the own page does not. */
function subOf({ query, person }: PageView): string {
  return query.sub ?? person.sub
}

type RowActions<R> = ((row: R) => Html) | undefined

export function sessionTable(
  view: PageView,
  sessions: readonly SessionRow[],
  rowActions: RowActions<SessionRow>,
): DataTable<SessionRow> {
  const now = timestamp(view.nowMs)
  return {
    id: 'sessions',
    caption: 'Sessions',
    rows: sessions.filter((row) => row.status === 'active' && row.expires_at > now && row.ends_at > now),
    rowId: ({ family_id }) => family_id,
    rowActions,
    columns: [
      {
        label: 'Browser or app',
        cell: ({ name, client_id, kind, family_id }) => {
          const text = visibleText(name ?? client_id ?? (kind === 'client' ? 'An app' : 'A browser'))
          return family_id === view.person.session ? html`${text} ${badge('this browser', 'ok')}` : text
        },
        value: ({ name }) => name,
      },
      { label: 'Signed in with', cell: ({ method }) => method },
      { label: 'Address', cell: ({ address }) => address },
      { label: 'Started', cell: (row) => timeOf(row.started_at, view.nowMs), value: ({ started_at }) => started_at },
      { label: 'Used', cell: (row) => timeOf(row.renewed_at, view.nowMs), value: ({ renewed_at }) => renewed_at },
    ],
    empty: {
      text: 'No browser or app is signed in.',
      command: view.inTerminal(`svc login ${view.host.instance} ${shellQuote(subOf(view))}`),
    },
  }
}

/** Buttons of several rows are told apart by what they end. The page needs the action `end_session`. */
export function endSessionButton(view: PageView, { family_id, name, client_id, started_at }: SessionRow): Html {
  const label = `End the session ${visibleText(name ?? client_id ?? '')} of ${started_at}`.replace('  ', ' ')
  return view.button({ action: 'end_session', text: 'End', label, fixed: { family_id } })
}

/** The page needs the action `revoke_bearer`. */
export function revokeBearerButton(view: PageView, { id, name }: IssuedBearerRow): Html {
  const label = `Revoke the bearer ${visibleText(name ?? id)}`
  return view.button({ action: 'revoke_bearer', text: 'Revoke', label, fixed: { id } })
}

export function bearerTable(
  view: PageView,
  bearers: readonly IssuedBearerRow[],
  rowActions: RowActions<IssuedBearerRow>,
): DataTable<IssuedBearerRow> {
  const now = timestamp(view.nowMs)
  return {
    id: 'bearers',
    caption: 'Bearers',
    rows: bearers.filter((row) => row.revoked_at === undefined && row.expires_at > now),
    rowId: ({ id }) => id,
    rowActions,
    columns: [
      { label: 'Name', cell: ({ name }) => visibleText(name ?? '') },
      { label: 'Folder', cell: ({ folder }) => folder },
      { label: 'Created', cell: (row) => timeOf(row.created_at, view.nowMs), value: ({ created_at }) => created_at },
      { label: 'Expires', cell: (row) => timeOf(row.expires_at, view.nowMs), value: ({ expires_at }) => expires_at },
      { label: 'Used', cell: (row) => timeOf(row.last_used_at, view.nowMs), value: ({ last_used_at }) => last_used_at },
    ],
    empty: {
      text: 'No bearers. A program that sends a bearer acts as the person.',
      command: view.inTerminal(`svc bearer ${view.host.instance} ${shellQuote(subOf(view))}`),
    },
  }
}

export function passkeyTable(
  view: PageView,
  passkeys: readonly PublicPasskey[],
  rowActions: RowActions<PublicPasskey>,
): DataTable<PublicPasskey> {
  return {
    id: 'passkeys',
    caption: 'Passkeys',
    rows: passkeys,
    rowId: ({ id }) => id,
    rowActions,
    columns: [
      { label: 'Name', cell: ({ name }) => visibleText(name) },
      { label: 'Added', cell: (row) => timeOf(row.created_at, view.nowMs), value: ({ created_at }) => created_at },
      { label: 'Used', cell: (row) => timeOf(row.last_used_at, view.nowMs), value: ({ last_used_at }) => last_used_at },
    ],
    empty: {
      text: 'No passkeys. People add their own, and then sign in without a password.',
      next: view.query.sub
        ? link('#accounts', 'Create a sign-in link for the person')
        : link('/auth/passkeys', 'Add a passkey'),
    },
  }
}
