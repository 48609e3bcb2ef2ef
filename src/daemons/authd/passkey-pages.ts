// The page with a person's passkeys.
import type { Context, Hono } from 'hono'
import { PASSKEYS_MAX } from '../../core/people/passkeys.ts'
import { callVerb } from '../../registry/call.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { type PublicPasskey, passkeysResource } from '../../resources/passkeys.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import { renderPage } from '../../web/pages/page.ts'
import { timeAgo } from '../../web/text/time-words.ts'
import { redirectTo, sendPage } from '../http/page-response.ts'
import { browserName, hasDashboard } from '../http/sign-in.ts'
import { isRecent, personForm, personPage, type SignedIn } from '../http/signed-in.ts'
import { passkeyAddress } from './passkey-address.ts'
import { PASSKEY_SCRIPT, passkeySection, passkeyStatus } from './passkey-section.ts'

export const PASSKEYS_PATH = '/auth/passkeys'

export function mountPasskeyPages(app: Hono, host: InstanceHost): void {
  const { rename, remove } = passkeysResource.verbs
  app.get(
    PASSKEYS_PATH,
    personPage(host, (c, person) => showPasskeys(host, c, person)),
  )
  app.post(
    `${PASSKEYS_PATH}/rename`,
    personForm(host, async (_c, { request }, fields) => {
      const name = fields.get('name')?.trim()
      await callVerb(request, rename, { id: fields.get('id'), name })
      return redirectTo(PASSKEYS_PATH)
    }),
  )
  app.post(
    `${PASSKEYS_PATH}/remove`,
    personForm(host, async (_c, { request }, fields) => {
      await callVerb(request, remove, { id: fields.get('id') })
      return redirectTo(PASSKEYS_PATH)
    }),
  )
}

async function showPasskeys(host: InstanceHost, c: Context, person: SignedIn): Promise<Response> {
  const { passkeys: own } = await callVerb(person.request, passkeysResource.verbs.list, {})
  const nowMs = host.clock.now()
  const main = html`<p class="lead">A passkey signs you in with your fingerprint, face or screen lock instead of a link.</p>
${own.length === 0 ? EMPTY_HTML : html`<ul class="list">${own.map((passkey) => passkeyItem(passkey, person, nowMs))}</ul>`}
${own.length === 1 ? onlyOneNotice() : EMPTY_HTML}
<h2>Add a passkey</h2>
${addSection(host, c, person, own.length)}`
  const isAdmitted = await hasDashboard(host, person.sub)
  return sendPage(
    c,
    renderPage({
      title: 'Passkeys',
      person: person.sub,
      tab: PASSKEYS_PATH,
      hasDashboard: isAdmitted,
      main,
      scripts: [PASSKEY_SCRIPT],
    }),
  )
}

function passkeyItem(passkey: PublicPasskey, { csrf }: SignedIn, nowMs: number): Html {
  const { id, name, created_at, last_used_at, is_backed_up } = passkey
  const used = last_used_at === undefined ? 'not used yet' : `used ${timeAgo(last_used_at, nowMs)}`
  const details = [
    `added ${timeAgo(created_at, nowMs)}`,
    used,
    ...(is_backed_up ? ['synced to your other devices'] : []),
  ]
  const hidden = html`<input type="hidden" name="csrf" value="${csrf}"><input type="hidden" name="id" value="${id}">`
  const field = `name-${id.slice(0, 16)}`
  return html`<li><div class="what"><strong>${name}</strong><br><span class="muted">${details.join(' · ')}</span></div>
<details><summary>Change<span class="unseen"> ${name}</span></summary>
<form method="post" action="${PASSKEYS_PATH}/rename">${hidden}
<label for="${field}">Name</label><input id="${field}" name="name" value="${name}" maxlength="64" required autocomplete="off">
<button class="quiet">Rename</button></form>
<form method="post" action="${PASSKEYS_PATH}/remove">${hidden}<button class="quiet danger">Remove this passkey</button></form>
</details></li>`
}

function onlyOneNotice(): Html {
  return html`<p class="notice">This is your only passkey. Add a second one, on another device or a security key, in case you lose
this one.</p>`
}

function addSection(host: InstanceHost, c: Context, person: SignedIn, count: number): Html {
  const { origin, fault } = passkeyAddress(host)
  if (fault !== undefined) return html`<p class="notice">${fault}</p>`
  if (count >= PASSKEYS_MAX) return html`<p>You have ${PASSKEYS_MAX} passkeys. Remove one to add another.</p>`
  if (!isRecent(host, person)) return confirmSection(host, count)
  const suggested = browserName(c.req.header('User-Agent'))
  return html`<div data-passkey="add" data-origin="${origin}" data-csrf="${person.csrf}" hidden>
<form><label for="passkey-name">Name</label>
<input id="passkey-name" name="name" value="${suggested}" maxlength="64" autocomplete="off" aria-describedby="passkey-hint">
<p class="hint" id="passkey-hint">To recognize it later, such as “Phone” or “Blue security key”.</p>
<button class="primary">Add a passkey</button></form>
${passkeyStatus(origin)}
</div>
${withoutPasskeys()}`
}

/** A tap of an existing passkey is a new sign-in. */
function confirmSection(host: InstanceHost, count: number): Html {
  const again = html`<p><a class="button" href="/auth/sign-in?again=1&next=${encodeURIComponent(PASSKEYS_PATH)}">Sign in again</a></p>`
  return html`<p>Adding a passkey needs a sign-in of the last 15 minutes.</p>
${count > 0 ? passkeySection(host, { next: PASSKEYS_PATH, label: 'Confirm with a passkey' }) : EMPTY_HTML}
${again}`
}

/** The script hides it. */
function withoutPasskeys(): Html {
  return html`<p class="muted" data-without-passkeys>Adding a passkey needs JavaScript and a browser that supports passkeys.</p>`
}
