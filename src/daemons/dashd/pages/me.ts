// The signed-in person: their secrets, sessions, bearers and passkeys. Accounts and passkeys are changed on the account pages.

import type { SecretName } from '../../../core/secrets/secrets.ts'
import { refuse } from '../../../lib/refusal.ts'
import { shellQuote } from '../../../lib/text/shell-quote.ts'
import { accountsResource } from '../../../resources/accounts.ts'
import { bearersResource } from '../../../resources/bearers.ts'
import { costLogResource } from '../../../resources/cost-log.ts'
import { passkeysResource } from '../../../resources/passkeys.ts'
import { secretsResource } from '../../../resources/secrets.ts'
import { sessionsResource } from '../../../resources/sessions.ts'
import { renderDetails } from '../../../web/dash/detail-pane.ts'
import { badge, buttonLink, copyText, money, section, timeOf, visibleText } from '../../../web/dash/parts.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { dayCostChart } from '../cost-parts.ts'
import { definePage } from '../page.ts'
import { bearerTable, endSessionButton, passkeyTable, revokeBearerButton, sessionTable } from './sign-in-tables.ts'

const SHOWN_MAX = 200
const COST_DAYS = 30
const DAY_MS = 86_400_000
const LIFETIMES: readonly (readonly [days: string, label: string])[] = [
  ['1', 'a day'],
  ['7', 'a week'],
  ['30', '30 days'],
]
const LONG_HINT = 'Longer than a day needs a sign-in of the last 15 minutes'

interface OwnSecret extends SecretName {
  readonly created_at: string
}

export const mePage = definePage({
  path: '/dash/me',
  title: 'Me',
  nav: 'people',
  isShown: () => true,
  actions: {
    set_secret: {
      run: async (view, fields) => {
        const [key = '', value = ''] = [fields.get('key'), fields.get('value')]
        const owner = view.person.sub
        await view.call(secretsResource.verbs.create, { scope_kind: 'user', owner, key, value })
        return { done: `Secret ${key} saved.` }
      },
    },
    delete_secret: {
      run: async (view, fields) => {
        const key = fields.get('key') ?? ''
        await view.call(secretsResource.verbs.delete, { scope_kind: 'user', owner: view.person.sub, key })
        return { done: `Secret ${key} deleted.` }
      },
      confirm: ({ key = '' }) => `Delete your secret ${key}?`,
    },
    end_session: { verb: sessionsResource.verbs.delete, done: 'Session ended.' },
    end_others: { verb: sessionsResource.verbs.delete_others, done: 'All other sessions ended.' },
    create_bearer: {
      run: async (view, fields) => {
        const days = fields.get('days') ?? ''
        if (!LIFETIMES.some(([known]) => known === days)) refuse('invalid', 'choose how long the bearer is valid')
        const [name, folder] = [fields.get('name'), fields.get('folder')]
        const { bearer, expires_at } = await view.call(bearersResource.verbs.create, {
          ttl_ms: Number(days) * DAY_MS,
          ...(name ? { name } : {}),
          ...(folder ? { folder } : {}),
        })
        return {
          title: 'Bearer created',
          main: html`<p>A program that sends this bearer acts as you, until ${timeOf(expires_at, view.nowMs)}. It is not shown again.</p>
<p>${copyText(bearer)}</p>${buttonLink(view.path, 'Back')}`,
        }
      },
    },
    revoke_bearer: { verb: bearersResource.verbs.revoke, done: 'Bearer revoked.' },
  },
  show: async (view) => {
    const { sub, session } = view.person
    const { person } = await view.call(accountsResource.verbs.show, { sub })
    const page = { sub, limit: SHOWN_MAX }
    const { sessions } = await view.call(sessionsResource.verbs.list, page)
    const { bearers } = await view.call(bearersResource.verbs.list, page)
    const { passkeys } = await view.call(passkeysResource.verbs.list, {})
    const { secrets, next } = await view.call(secretsResource.verbs.list_of, {
      scope_kind: 'user',
      owner: sub,
      limit: view.limit,
      after: view.query.after,
    })
    const ownSessions = sessionTable(view, sessions, (row) =>
      row.family_id === session ? EMPTY_HTML : endSessionButton(view, row),
    )
    const others = ownSessions.rows.length > 1
    const costs = await view.call(costLogResource.verbs.own, { days: COST_DAYS })
    return {
      title: 'Me',
      main: html`${renderDetails({
        Account: html`<code>${sub}</code>`,
        Name: person.name === undefined ? undefined : visibleText(person.name),
        'Other accounts': person.subs.slice(1).join(', '),
        Rights: person.is_operator ? badge('operator', 'warn') : undefined,
        Roles: person.roles.join(', '),
        'Spent today':
          person.cap === undefined ? money(person.spent) : `${money(person.spent)} of ${money(person.cap)}`,
      })}${buttonLink('/auth/me', 'Accounts and agents')}
${section('own-sessions', 'Sessions', view.list(ownSessions), others ? view.button({ action: 'end_others', text: 'End all others', label: 'End all other sessions', isDangerous: true }) : EMPTY_HTML)}
${section('own-passkeys', 'Passkeys', view.list(passkeyTable(view, passkeys, undefined)), buttonLink('/auth/passkeys', 'Add or change'))}
${section('own-bearers', 'Bearers', view.list(bearerTable(view, bearers, (row) => revokeBearerButton(view, row))))}
${section('own-costs', 'Costs', renderOwnCosts(costs))}
<h2>Secrets</h2><p class="hint">Your turns get these as environment variables. Values are never shown.</p>`,
      table: defineTable<OwnSecret>({
        id: 'secrets',
        caption: 'Your secrets',
        rows: secrets,
        rowId: ({ key }) => key,
        next,
        rowActions: ({ key }) =>
          view.button({ action: 'delete_secret', text: 'Delete', label: `Delete ${key}`, fixed: { key } }),
        columns: [
          { label: 'Name', cell: ({ key }) => html`<code>${key}</code>`, value: ({ key }) => key },
          { label: 'Saved', cell: (row) => timeOf(row.created_at, view.nowMs), value: ({ created_at }) => created_at },
        ],
        empty: {
          text: 'You have no secrets.',
          command: view.inTerminal(`svc user-secret ${view.host.instance} set ${shellQuote(sub)} API_KEY`),
        },
      }),
      bottom: html`${section(
        'new-secret',
        'Set a secret',
        view.form({
          action: 'set_secret',
          submit: 'Save',
          fields: [
            { name: 'key', label: 'Name', isRequired: true, maxLength: 128, placeholder: 'API_KEY' },
            { name: 'value', label: 'Value', kind: 'password', isRequired: true },
          ],
        }),
      )}${section(
        'new-bearer',
        'Create a bearer',
        view.form({
          action: 'create_bearer',
          submit: 'Create',
          fields: [
            { name: 'name', label: 'What it is for', maxLength: 64 },
            { name: 'folder', label: 'Folder', maxLength: 255, hint: 'Only for programs that act from one folder' },
            { name: 'days', label: 'Valid for', kind: 'select', options: LIFETIMES, value: '1', hint: LONG_HINT },
          ],
        }),
      )}`,
    }
  },
})

function renderOwnCosts({ days, since }: { days: readonly { day: string; cents: number }[]; since: string }): Html {
  if (days.length === 0) return html`<p class="muted">Your turns of the last ${COST_DAYS} days cost nothing.</p>`
  const total = days.reduce((sum, { cents }) => sum + cents, 0)
  const chart = dayCostChart(new Map(days.map(({ day, cents }) => [day, cents])), since, COST_DAYS)
  return html`<div class="cards"><div class="card wide"><p class="figure">${money(total)}</p>${chart}</div></div>`
}
