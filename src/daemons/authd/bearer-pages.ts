// /auth/bearers: a person's own bearers. A new one is shown once, in the response that creates it.
import type { Context, Hono } from 'hono'
import type { IssuedBearerRow } from '../../core/access/issued-bearers.ts'
import { timestamp } from '../../lib/clock.ts'
import { parseDuration } from '../../lib/text/duration.ts'
import { callVerb } from '../../registry/call.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { bearersResource } from '../../resources/bearers.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import { renderPage } from '../../web/pages/page.ts'
import type { FormFields } from '../http/form-request.ts'
import { redirectTo, sendPage } from '../http/page-response.ts'
import { hasDashboard } from '../http/sign-in.ts'
import { isRecent, personForm, personPage, type SignedIn } from '../http/signed-in.ts'
import { signInAgainPath } from './provider-paths.ts'
import { reachableFolders } from './reachable-folders.ts'

const PATH = '/auth/bearers'
const SHOWN_MAX = 100
const LIFETIMES = { '1h': '1 hour', '24h': '1 day', '168h': '7 days', '720h': '30 days' }
const CONFIRM_HINT = html`<p class="hint"><a href="${signInAgainPath(PATH)}">Sign in again</a> to create one for longer than a day.</p>`

export function mountBearerPages(app: Hono, host: InstanceHost): void {
  app.get(
    PATH,
    personPage(host, (c, person) => showBearers(host, c, person)),
  )
  app.post(PATH, personForm(host, createBearer))
  app.post(`${PATH}/revoke`, personForm(host, revoke))
}

async function showBearers(host: InstanceHost, c: Context, person: SignedIn): Promise<Response> {
  const { sub, request } = person
  const input = { sub, limit: SHOWN_MAX, after: c.req.query('after') }
  const { bearers, next } = await callVerb(request, bearersResource.verbs.list, input)
  const now = timestamp(host.clock.now())
  const main = html`<p>A bearer lets a program act as you: it sends the header <code>Authorization: Bearer …</code>.</p>
${bearers.length === 0 ? html`<p class="muted">You have no bearers.</p>` : html`<ul class="list">${bearers.map((bearer) => bearerItem(bearer, now, person))}</ul>`}
${next === undefined ? EMPTY_HTML : html`<p><a href="${PATH}?after=${encodeURIComponent(next)}">Older bearers</a></p>`}
${createForm(await reachableFolders(host, person), person)}${isRecent(host, person) ? EMPTY_HTML : CONFIRM_HINT}`
  const isAdmitted = await hasDashboard(host, sub)
  return sendPage(c, renderPage({ title: 'Bearers', person: sub, tab: PATH, hasDashboard: isAdmitted, main }))
}

function bearerItem(bearer: IssuedBearerRow, now: string, { csrf }: SignedIn): Html {
  const { id, name = 'Unnamed', folder, expires_at, revoked_at, last_used_at } = bearer
  const place = folder === undefined ? EMPTY_HTML : html` in <code>${folder}</code>`
  const isActive = revoked_at === undefined && expires_at > now
  const state = revoked_at === undefined ? `${isActive ? 'expires' : 'expired'} ${dayOf(expires_at)}` : 'revoked'
  const use = last_used_at === undefined ? 'never used' : `last used ${dayOf(last_used_at)}`
  return html`<li><div class="what">${name}${place}<br><span class="muted">${state}, ${use}</span></div>${
    isActive
      ? html`<form method="post" action="${PATH}/revoke"><input type="hidden" name="csrf" value="${csrf}"><input type="hidden" name="id" value="${id}"><button class="quiet danger" aria-label="Revoke ${name}">Revoke</button></form>`
      : EMPTY_HTML
  }</li>`
}

/** `2026-01-31 12:30 UTC` */
function dayOf(time: string): string {
  return `${time.slice(0, 16).replace('T', ' ')} UTC`
}

function createForm(folders: readonly string[], { csrf }: SignedIn): Html {
  const option = (value: string, label: string): Html => html`<option value="${value}">${label}</option>`
  return html`<h2>New bearer</h2>
<form method="post"><input type="hidden" name="csrf" value="${csrf}">
<label for="name">What is it for?</label><input id="name" name="name" required maxlength="64" autocomplete="off">
<label for="folder">Folder that it acts from</label><select id="folder" name="folder"><option value="">None in particular</option>${folders.map((folder) => option(folder, folder))}</select>
<label for="lifetime">Lifetime</label><select id="lifetime" name="lifetime">${Object.entries(LIFETIMES).map(([value, label]) => option(value, label))}</select>
<button class="primary">Create</button></form>`
}

async function createBearer(c: Context, { sub, request }: SignedIn, fields: FormFields): Promise<Response> {
  const { bearer, expires_at } = await callVerb(request, bearersResource.verbs.create, {
    name: fields.get('name')?.trim() || undefined,
    folder: fields.get('folder') || undefined,
    ttl_ms: parseDuration(fields.get('lifetime') ?? ''),
  })
  const main = html`<p class="notice">Copy it now: it is not shown again.</p>
<pre><code>${bearer}</code></pre>
<p>It expires ${dayOf(expires_at)}. Programs send it in the header <code>Authorization: Bearer …</code>.</p>
<p><a class="button" href="${PATH}">Done</a></p>`
  return sendPage(c, renderPage({ title: 'Your new bearer', person: sub, main }))
}

async function revoke(_c: Context, { request }: SignedIn, fields: FormFields): Promise<Response> {
  await callVerb(request, bearersResource.verbs.revoke, { id: fields.get('id') ?? '' })
  return redirectTo(PATH)
}
