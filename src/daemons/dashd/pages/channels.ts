// /dash/channels: adapters with their health, their secrets, and messages to platforms that were not delivered.

import type { ConnectionState } from '../../../core/delivery/channel-registrations.ts'
import { HEALTH_FAILS_MAX } from '../../../core/delivery/channel-registrations.ts'
import { UNDELIVERED_COUNT_MAX, type UndeliveredMessage } from '../../../core/delivery/undelivered.ts'
import { channelRegistrationsResource } from '../../../resources/channel-registrations.ts'
import { channelSecretsResource } from '../../../resources/channel-secrets.ts'
import {
  badge,
  copyText,
  link,
  notice,
  renderTabs,
  section,
  type Tone,
  timeOf,
  visibleText,
} from '../../../web/dash/parts.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html, trustedHtml } from '../../../web/html.ts'
import { ACCOUNT_ACTIONS, renderAccountForms, renderAccounts } from '../account-section.ts'
import { retryButton } from '../message-parts.ts'
import { definePage, folderPath, type PageContent, type PageView } from '../page.ts'
import { MESSAGE_ACTIONS } from './message.ts'

const registrations = channelRegistrationsResource.verbs
const secrets = channelSecretsResource.verbs

type ChannelState = Awaited<ReturnType<typeof registrations.list.run>>
type Adapter = ChannelState['adapters'][number]
type Platform = ChannelState['platforms'][number]
type Secret = Awaited<ReturnType<typeof secrets.list.run>>['channel_secrets'][number]

export const channelsPage = definePage({
  path: '/dash/channels',
  title: 'Channels',
  nav: 'system',
  isShown: ({ isOperator }) => isOperator,
  actions: {
    ...ACCOUNT_ACTIONS,
    add: {
      run: async (view, fields) => {
        const platforms = (fields.get('platforms') ?? '').split(',').map((platform) => platform.trim())
        const input = { name: fields.get('name') ?? '', platforms: platforms.filter((platform) => platform !== '') }
        return secretPage(view, await view.call(secrets.add, input))
      },
    },
    rotate: {
      confirm: ({ name }) => `Replace the secret of ${name}? The old secret and its registrations end at once.`,
      run: async (view, fields) =>
        secretPage(view, await view.call(secrets.rotate, { name: fields.get('name') ?? '' })),
    },
    remove: {
      verb: secrets.remove,
      confirm: ({ name }) => `Delete the secret of ${name}? Its registrations end at once.`,
      done: 'Secret deleted.',
    },
    ...MESSAGE_ACTIONS,
  },
  show: async (view) => {
    const kind = view.query.kind === 'waiting' ? 'waiting' : 'failed'
    const state = await view.call(registrations.list, {})
    const { channel_secrets } = await view.call(secrets.list, {})
    const { undelivered, next } = await view.call(registrations.undelivered, {
      kind,
      limit: view.limit,
      after: view.query.after,
    })
    const tabs = (['failed', 'waiting'] as const).map((each) => ({
      href: view.url({ kind: each === 'failed' ? undefined : each }),
      label: each === 'failed' ? 'Failed' : 'Waiting for another attempt',
      isCurrent: each === kind,
      count: Math.min(
        state.platforms.reduce((sum, platform) => sum + platform[each], 0),
        UNDELIVERED_COUNT_MAX,
      ),
    }))
    return {
      title: 'Channels',
      top: await renderAccountForms(view),
      main: html`${section('accounts', 'Accounts', await renderAccounts(view))}${section('adapters', 'Adapters', renderAdapters(view, state.adapters))}${await renderQrCodes(state.adapters)}${section('platforms', 'Platforms', renderPlatforms(view, state.platforms))}${section('secrets', 'Secrets of adapters', renderSecrets(view, channel_secrets))}${section('undelivered-messages', 'Messages that were not delivered', renderTabs('Messages that were not delivered', tabs))}`,
      table: undeliveredTable(view, undelivered, next, kind),
      bottom: section(
        'new-secret',
        'New secret',
        html`<p>An adapter with its own secret is the only one that may use its platforms. The secret is shown once.</p>${newSecretForm(view)}`,
      ),
      isLive: true,
    }
  },
})

const HEALTH_TONES: Readonly<Record<Adapter['health'], Tone>> = { healthy: 'ok', failing: 'fault', unknown: 'idle' }

function renderAdapters(view: PageView, adapters: readonly Adapter[]): Html {
  const { nowMs, host } = view
  return view.list<Adapter>({
    id: 'adapters-table',
    caption: 'Registered adapters',
    rows: adapters,
    rowId: ({ name }) => name,
    columns: [
      { label: 'Adapter', cell: ({ name }) => name },
      { label: 'Health', cell: (adapter) => healthOf(adapter) },
      { label: 'Connection', cell: (adapter) => connectionOf(adapter, nowMs) },
      { label: 'Platforms', cell: ({ platforms }) => platforms.join(', ') },
      { label: 'Address', cell: ({ url }) => html`<code>${visibleText(url)}</code>` },
      { label: 'Actions', cell: ({ capabilities }) => capabilities.join(', ') },
      { label: 'Checked', cell: ({ checked_at }) => timeOf(checked_at, nowMs) },
      { label: 'Registered or recovered', cell: ({ seen_at }) => timeOf(seen_at, nowMs) },
    ],
    empty: {
      text: 'No adapter is registered. An adapter connects a chat platform, such as Telegram or Slack.',
      command: view.inTerminal(`svc packages ${host.instance} list`),
    },
  })
}

function healthOf({ health, health_fails }: Adapter): Html {
  const why =
    health === 'failing'
      ? html` <span class="muted">${health_fails} of ${HEALTH_FAILS_MAX} checks failed; then it is removed</span>`
      : health === 'unknown'
        ? html` <span class="muted">no process of routd has checked it lately</span>`
        : EMPTY_HTML
  return html`${badge(health, HEALTH_TONES[health])}${why}`
}

const STATE_TONES: Readonly<Record<ConnectionState, Tone>> = {
  ok: 'ok',
  connecting: 'idle',
  stale: 'warn',
  login_needed: 'fault',
  refused: 'fault',
}

function connectionOf({ state, detail, since }: Adapter, nowMs: number): Html {
  if (state === undefined) return EMPTY_HTML
  const start = since === undefined ? EMPTY_HTML : html` since ${timeOf(since, nowMs)}`
  const why = detail === undefined ? EMPTY_HTML : html` <span class="muted">${visibleText(detail)}</span>`
  return html`${badge(state.replace('_', ' '), STATE_TONES[state])}${start}${why}`
}

/** For platforms that sign in by scanning a code with a phone. */
async function renderQrCodes(adapters: readonly Adapter[]): Promise<Html> {
  const shown = adapters.filter(({ qr }) => qr !== undefined)
  if (shown.length === 0) return EMPTY_HTML
  const { renderSVG } = await import('uqr')
  const codes = shown.map(
    ({ name, qr = '' }) =>
      html`<p>Scan this with the account of ${name}:</p>${trustedHtml(
        `<div class="qr" role="img" aria-label="QR code for a sign-in">${renderSVG(qr)}</div>`,
      )}`,
  )
  return section('sign-in', 'Sign-in at a platform', html`${codes}`)
}

function renderPlatforms(view: PageView, platforms: readonly Platform[]): Html {
  return view.list<Platform>({
    id: 'platforms-table',
    caption: 'Platforms',
    rows: platforms,
    rowId: ({ platform }) => platform,
    columns: [
      { label: 'Platform', cell: ({ platform }) => platform },
      { label: 'Delivered by', cell: delivererOf },
      { label: 'Waiting', isNumber: true, cell: ({ waiting }) => countText(waiting) },
      { label: 'Failed', isNumber: true, cell: ({ failed }) => countText(failed) },
    ],
    empty: {
      text: 'No platform has an adapter, a secret or messages that wait.',
      command: view.inTerminal(`svc channel ${view.host.instance} status`),
    },
  })
}

function delivererOf({ delivered_by, adapters, waiting }: Platform): Html | string {
  if (delivered_by === 'nothing') return badge('no adapter', waiting > 0 ? 'fault' : 'idle')
  return delivered_by === 'built-in' ? 'svc itself' : adapters.join(', ')
}

function countText(count: number): string {
  return count >= UNDELIVERED_COUNT_MAX ? `${UNDELIVERED_COUNT_MAX}+` : String(count)
}

function renderSecrets(view: PageView, listed: readonly Secret[]): Html {
  return view.list<Secret>({
    id: 'secrets-table',
    caption: 'Secrets of adapters',
    rows: listed,
    rowId: ({ name }) => name ?? '(shared)',
    columns: [
      { label: 'Adapter', cell: ({ name }) => name ?? html`<span class="muted">the shared CHANNEL_SECRET</span>` },
      { label: 'Platforms', cell: ({ platforms }) => platforms.join(', ') },
      { label: 'Registered now', cell: ({ adapters }) => adapters.map(({ name }) => name).join(', ') },
      { label: 'Created', cell: ({ created_at }) => (created_at === undefined ? '' : timeOf(created_at, view.nowMs)) },
      { label: 'By', cell: ({ created_by }) => created_by },
    ],
    rowActions: ({ name }) => (name === undefined ? EMPTY_HTML : secretButtons(view, name)),
    empty: {
      text: 'No adapter has its own secret.',
      command: view.inTerminal(`svc channel ${view.host.instance} add <name> -p <platforms>`),
    },
  })
}

function secretButtons(view: PageView, name: string): Html {
  const fixed = { name }
  return html`${view.button({ action: 'rotate', fixed, text: 'Rotate', label: `Rotate the secret of ${name}` })}${view.button({ action: 'remove', fixed, text: 'Delete', label: `Delete the secret of ${name}`, isDangerous: true })}`
}

function newSecretForm(view: PageView): Html {
  return view.form({
    action: 'add',
    submit: 'Create secret',
    fields: [
      { name: 'name', label: 'Name of the adapter', isRequired: true, maxLength: 64, placeholder: 'telegram' },
      {
        name: 'platforms',
        label: 'Platforms',
        isRequired: true,
        hint: 'Separated by commas, such as discord, slack',
        placeholder: 'telegram',
      },
    ],
  })
}

function secretPage(
  view: PageView,
  created: { name: string; platforms: readonly string[]; secret: string; ended: readonly string[] },
): PageContent {
  const ended =
    created.ended.length === 0
      ? EMPTY_HTML
      : html`<p>The registration of ${created.ended.join(', ')} has ended: configure the adapter with the new secret.</p>`
  return {
    title: `Secret of ${created.name}`,
    main: html`${notice('warn', 'This secret is shown only now. It is stored as a hash.')}<p>${copyText(created.secret)}</p><p>The adapter registers with it instead of CHANNEL_SECRET, and alone may use ${created.platforms.join(', ')}.</p>${ended}<p>${link('/dash/channels', 'Back to the channels')}</p>${view.inTerminal(`svc channel ${view.host.instance} rotate ${created.name}`)}`,
  }
}

function undeliveredTable(
  view: PageView,
  rows: readonly UndeliveredMessage[],
  next: string | undefined,
  kind: 'waiting' | 'failed',
) {
  const { nowMs, host } = view
  return defineTable<UndeliveredMessage>({
    id: 'undelivered',
    caption: 'Messages that were not delivered',
    rows,
    next,
    rowId: ({ id }) => id,
    columns: [
      {
        label: 'Message',
        cell: ({ id }) => link(`/dash/messages/${encodeURIComponent(id)}`, id),
        value: ({ id }) => id,
      },
      { label: 'Chat', cell: ({ jid }) => visibleText(jid) },
      {
        label: 'Folder',
        cell: ({ folder }) => (folder === undefined ? '' : link(folderPath(folder), folder)),
        value: ({ folder }) => folder,
      },
      {
        label: 'State',
        cell: ({ state }) => badge(state === 'unknown' ? 'unclear' : state, state === 'pending' ? 'idle' : 'fault'),
        value: ({ state }) => state,
      },
      { label: 'Attempts', isNumber: true, cell: ({ attempts }) => attempts },
      { label: 'Reason', cell: ({ error }) => (error === undefined ? '' : visibleText(error)) },
      { label: 'Written', cell: ({ created_at }) => timeOf(created_at, nowMs), value: ({ created_at }) => created_at },
      ...(kind === 'waiting'
        ? [
            {
              label: 'Next attempt',
              cell: ({ next_at }: UndeliveredMessage) => timeOf(next_at, nowMs),
              value: ({ next_at }: UndeliveredMessage) => next_at,
            },
          ]
        : []),
    ],
    rowActions: kind === 'failed' ? (message) => retryButton(view, message) : undefined,
    empty:
      kind === 'waiting'
        ? {
            text: 'No message waits for another attempt.',
            command: view.inTerminal(`svc channel ${host.instance} undelivered --waiting`),
          }
        : { text: 'No message failed.', command: view.inTerminal(`svc channel ${host.instance} undelivered`) },
  })
}
