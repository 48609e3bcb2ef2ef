// Pages about the signed-in person: /auth/me and their devices.
import type { Context, Hono } from 'hono'
import { accounts } from '../../core/people/accounts.ts'
import { listPasskeys } from '../../core/people/passkeys.ts'
import { listActiveSessions, type SessionRow } from '../../core/people/sessions.ts'
import { prefersHtml } from '../../lib/http/http.ts'
import { callVerb } from '../../registry/call.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { sessionsResource } from '../../resources/sessions.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import { renderPage } from '../../web/pages/page.ts'
import { timeAgo } from '../../web/text/time-words.ts'
import { redirectTo, sendPage } from '../http/page-response.ts'
import { HOME_PATH, hasDashboard } from '../http/sign-in.ts'
import { personForm, personPage, type SignedIn } from '../http/signed-in.ts'
import { accountLinksSection } from './account-links.ts'
import { passkeyAddress } from './passkey-address.ts'
import { PASSKEYS_PATH } from './passkey-pages.ts'
import { reachableFolders } from './reachable-folders.ts'
import type { SignInProviders } from './sign-in-provider.ts'

const DEVICES_PATH = '/auth/devices'

export function mountAccountPages(app: Hono, host: InstanceHost, providers: SignInProviders): void {
  app.get(
    HOME_PATH,
    personPage(host, (c, person) => showMe(host, providers, c, person)),
  )
  app.get(
    DEVICES_PATH,
    personPage(host, (c, person) => showDevices(host, c, person)),
  )
  app.post(
    DEVICES_PATH,
    personForm(host, async (_c, { request }, fields) => {
      await callVerb(request, sessionsResource.verbs.delete, { family_id: fields.get('family_id') })
      return redirectTo(DEVICES_PATH)
    }),
  )
  app.post(
    `${DEVICES_PATH}/others`,
    personForm(host, async (_c, { request }) => {
      await callVerb(request, sessionsResource.verbs.delete_others, {})
      return redirectTo(DEVICES_PATH)
    }),
  )
}

/** Programs get the CSRF token of their session as JSON. */
async function showMe(host: InstanceHost, providers: SignInProviders, c: Context, person: SignedIn): Promise<Response> {
  const { sub, session, csrf } = person
  const { account, count } = await host.engine.read(async (tx) => ({
    account: await accounts.find(tx, { sub }),
    count: (await listPasskeys(tx, sub)).length,
  }))
  const folders = await reachableFolders(host, person)
  const name = account?.name === undefined ? {} : { name: account.name }
  if (!prefersHtml(c.req.header('Accept')))
    return c.json({ sub, ...name, csrf, session, folders }, 200, { Vary: 'Accept' })
  const shownName = account?.name === undefined ? EMPTY_HTML : html`<strong>${account.name}</strong>, `
  const main = html`<p>You are signed in as ${shownName}<code>${sub}</code>.</p>
${count === 0 && passkeyAddress(host).fault === undefined ? passkeySuggestion() : EMPTY_HTML}
<h2>Your agents</h2>
${folderList(folders, csrf)}
${await accountLinksSection(host, providers, person)}
${signOutForm(csrf)}`
  const isAdmitted = await hasDashboard(host, sub)
  const page = renderPage({ title: 'Your account', person: sub, tab: HOME_PATH, hasDashboard: isAdmitted, main })
  return sendPage(c, { ...page, headers: { ...page.headers, Vary: 'Accept' } })
}

function folderList(folders: readonly string[], csrf: string): Html {
  if (folders.length === 0)
    return html`<p class="muted">You may not talk to an agent yet. Ask an operator of this server for access.</p>`
  const items = folders.map(
    (folder) => html`<li><div class="what"><strong>${folder}</strong></div>
<form method="post" action="/auth/chat"><input type="hidden" name="csrf" value="${csrf}"><input type="hidden" name="folder" value="${folder}">
<button class="quiet">Chat<span class="unseen"> with ${folder}</span></button></form></li>`,
  )
  return html`<ul class="list">${items}</ul>`
}

function passkeySuggestion(): Html {
  return html`<div class="tip"><p>Next time, sign in with your fingerprint, face or screen lock.</p>
<a class="button primary" href="${PASSKEYS_PATH}">Add a passkey</a></div>
`
}

function signOutForm(csrf: string): Html {
  return html`<form method="post" action="/auth/sign-out"><input type="hidden" name="csrf" value="${csrf}"><button class="quiet">Sign out</button></form>`
}

async function showDevices(host: InstanceHost, c: Context, person: SignedIn): Promise<Response> {
  const { sub, session, csrf } = person
  const nowMs = host.clock.now()
  const active = await host.engine.read((tx) => listActiveSessions(tx, sub, nowMs))
  const own = active.toSorted((a, b) => Number(b.family_id === session) - Number(a.family_id === session))
  const main = html`<p class="lead">Browsers and apps that are signed in as you. Sign out those that you do not recognize.</p>
<ul class="list">${own.map((row) => deviceItem(row, person, nowMs))}</ul>
${own.length > 1 ? signOutOthers(csrf) : EMPTY_HTML}`
  const isAdmitted = await hasDashboard(host, sub)
  return sendPage(c, renderPage({ title: 'Devices', person: sub, tab: DEVICES_PATH, hasDashboard: isAdmitted, main }))
}

function deviceItem(row: SessionRow, { session, csrf }: SignedIn, nowMs: number): Html {
  const { family_id, kind, name, client_id, address, method, started_at, renewed_at } = row
  const isCurrent = family_id === session
  const title = name ?? client_id ?? (kind === 'client' ? 'An app' : 'A browser')
  const details = [
    ...(address === undefined ? [] : [address]),
    `signed in ${timeAgo(started_at, nowMs)} ${METHOD_WORDS[method] ?? `with ${method}`}`,
    ...(isCurrent ? [] : [`used ${timeAgo(renewed_at, nowMs)}`]),
  ]
  const mark = isCurrent ? html` <span class="mark">this device</span>` : EMPTY_HTML
  const hidden = html`<input type="hidden" name="csrf" value="${csrf}">`
  const form = isCurrent
    ? html`<form method="post" action="/auth/sign-out">${hidden}<button class="quiet">Sign out</button></form>`
    : html`<form method="post" action="${DEVICES_PATH}">${hidden}<input type="hidden" name="family_id" value="${family_id}">
<button class="quiet">Sign out<span class="unseen"> ${title}</span></button></form>`
  return html`<li><div class="what"><strong>${title}</strong>${mark}<br><span class="muted">${details.join(' · ')}</span></div>
${form}</li>`
}

const METHOD_WORDS: Readonly<Record<string, string>> = { link: 'with a link', passkey: 'with a passkey' }

function signOutOthers(csrf: string): Html {
  return html`<form method="post" action="${DEVICES_PATH}/others"><input type="hidden" name="csrf" value="${csrf}">
<button class="danger">Sign out all other devices</button></form>`
}
