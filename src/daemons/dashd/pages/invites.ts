// Invites: operators see all, administrators of a folder those that they made.

import type { InviteRow } from '../../../core/people/invites.ts'
import { timestamp } from '../../../lib/clock.ts'
import { refuse } from '../../../lib/refusal.ts'
import { invitesResource } from '../../../resources/invites.ts'
import { badge, buttonLink, copyText, section, timeOf } from '../../../web/dash/parts.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { definePage } from '../page.ts'

const { list, create, revoke } = invitesResource.verbs

const DAY_MS = 86_400_000
const EXPIRIES: readonly (readonly [days: string, label: string])[] = [
  ['1', 'after a day'],
  ['7', 'after a week'],
  ['30', 'after 30 days'],
  ['', 'never'],
]

type ListedInvite = Omit<InviteRow, 'token_hash'>

export const invitesPage = definePage({
  path: '/dash/invites',
  title: 'Invites',
  nav: 'people',
  actions: {
    create: {
      run: async (view, fields) => {
        const days = fields.get('days') ?? ''
        if (!EXPIRIES.some(([known]) => known === days)) refuse('invalid', 'choose when the invite expires')
        const {
          accept_url = '',
          target_glob,
          max_uses,
        } = await view.call(create, {
          target_glob: fields.get('target_glob') ?? '',
          max_uses: Number(fields.get('max_uses')),
          ...(days === '' ? {} : { expires_at: timestamp(view.nowMs + Number(days) * DAY_MS) }),
        })
        return {
          title: 'Invite created',
          main: html`<p>Send this link to ${max_uses === 1 ? 'the person' : `up to ${max_uses} people`} whom you invite. It makes them administrators of <code>${target_glob}</code>. It is not shown again.</p>
<p>${copyText(accept_url)}</p>${buttonLink(view.path, 'All invites')}`,
        }
      },
    },
    revoke: {
      verb: revoke,
      done: 'Invite revoked. Access that it gave stays.',
      confirm: ({ token_id = '' }) => `Revoke the invite ${token_id}? Access that it gave stays.`,
    },
  },
  show: async (view) => {
    const { invites, next } = await view.call(list, { limit: view.limit, after: view.query.after })
    const now = timestamp(view.nowMs)
    return {
      title: 'Invites',
      top: section(
        'new-invite',
        'Invite someone',
        view.form({
          action: 'create',
          submit: 'Create the link',
          fields: [
            {
              name: 'target_glob',
              label: 'Folders that they will administer',
              isRequired: true,
              maxLength: 255,
              value: view.query.folder,
              hint: 'One folder such as team, or team/** for it and all folders below it',
            },
            { name: 'max_uses', label: 'People', kind: 'number', min: 1, max: 1_000_000, isRequired: true, value: '1' },
            { name: 'days', label: 'Expires', kind: 'select', options: EXPIRIES, value: '7' },
          ],
        }),
      ),
      table: defineTable<ListedInvite>({
        id: 'invites',
        caption: 'Invites',
        rows: invites,
        rowId: ({ token_id }) => token_id,
        next,
        rowActions: (invite) =>
          invite.revoked_at === undefined
            ? view.button({
                action: 'revoke',
                text: 'Revoke',
                label: `Revoke the invite ${invite.token_id}`,
                fixed: { token_id: invite.token_id },
              })
            : EMPTY_HTML,
        columns: [
          {
            label: 'Invite',
            cell: ({ token_id }) => html`<code>${token_id}…</code>`,
            value: ({ token_id }) => token_id,
          },
          { label: 'Folders', cell: ({ target_glob }) => target_glob },
          { label: 'State', cell: (invite) => stateBadge(invite, now), value: (invite) => stateOf(invite, now) },
          { label: 'Used', cell: ({ used_count, max_uses }) => `${used_count} of ${max_uses}`, isNumber: true },
          { label: 'Issued by', cell: ({ issued_by_sub }) => issued_by_sub },
          {
            label: 'Issued',
            cell: ({ issued_at }) => timeOf(issued_at, view.nowMs),
            value: ({ issued_at }) => issued_at,
          },
          {
            label: 'Expires',
            cell: ({ expires_at }) => timeOf(expires_at, view.nowMs),
            value: ({ expires_at }) => expires_at,
          },
        ],
        empty: {
          text: 'No invites yet.',
          command: view.inTerminal(`svc invite ${view.host.instance} create 'team/**' --expires 72h`),
        },
      }),
      isLive: true,
    }
  },
})

function stateOf({ revoked_at, expires_at, used_count, max_uses }: ListedInvite, now: string): string {
  if (revoked_at !== undefined) return 'revoked'
  if (used_count >= max_uses) return 'used up'
  return expires_at !== undefined && expires_at <= now ? 'expired' : 'open'
}

function stateBadge(invite: ListedInvite, now: string): Html {
  const state = stateOf(invite, now)
  return badge(state, state === 'open' ? 'ok' : 'idle')
}
