// "Ways to sign in" of /auth/me: linking the accounts of a person, and unlinking them. Accounts are never linked by their e-mail
// address: the person signs in with both of them.
import { timingSafeEqual } from 'node:crypto'
import type { Context, Hono } from 'hono'
import { type ConfirmedAccount, linkedAccounts } from '../../core/people/accounts.ts'
import { refuse } from '../../lib/refusal.ts'
import { callVerb } from '../../registry/call.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { identitiesResource } from '../../resources/identities.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import type { FormFields } from '../http/form-request.ts'
import { redirectTo } from '../http/page-response.ts'
import { findSignedIn, isRecent, personForm, type SignedIn } from '../http/signed-in.ts'
import { linkProof } from './provider-attempt.ts'
import { providerPath, signInAgainPath } from './provider-paths.ts'
import type { SignInProviders } from './sign-in-provider.ts'

const ME_PATH = '/auth/me'
const UNLINK_PATH = '/auth/me/unlink'

export function mountAccountLinks(app: Hono, host: InstanceHost): void {
  app.post(
    UNLINK_PATH,
    personForm(host, (_, person, fields) => unlinkAccount(host, person, fields)),
  )
}

/** The section of the page. Buttons need a recent sign-in; without one the page offers to sign in again. */
export async function accountLinksSection(
  host: InstanceHost,
  providers: SignInProviders,
  person: SignedIn,
): Promise<Html> {
  const accounts = await host.engine.read((tx) => linkedAccounts(tx, person.sub))
  const canChange = isRecent(host, person)
  const linkable = canChange ? [...providers.values()] : []
  return html`<h2 id="ways">Ways to sign in</h2>
<ul class="list">${accounts.map(
    (account) => html`<li><span class="what"><code>${account.sub}</code> ${account.name ?? ''}
<span class="muted">${account.email ?? ''}</span></span>${
      account.sub === person.sub
        ? html`<span class="muted">the account you act as</span>`
        : canChange
          ? unlinkForm(person, account.sub)
          : EMPTY_HTML
    }</li>`,
  )}</ul>
${
  canChange
    ? html`<p class="row">${linkable.map(
        ({ name, title }) =>
          html`<a class="button" href="${providerPath(name)}?link=${linkProof(host, person.session, name)}">Link ${title}</a>`,
      )}</p>`
    : html`<p class="hint"><a href="${signInAgainPath(ME_PATH)}">Sign in again</a> to link or unlink accounts.</p>`
}`
}

function unlinkForm({ csrf }: SignedIn, sub: string): Html {
  return html`<form method="post" action="${UNLINK_PATH}"><input type="hidden" name="csrf" value="${csrf}"><input type="hidden" name="sub" value="${sub}"><button class="quiet" aria-label="Unlink ${sub}">Unlink</button></form>`
}

/** Returns the id of the session that links. */
export async function mustBeLinkRequest(
  host: InstanceHost,
  c: Context,
  provider: string,
  proof: string,
): Promise<string> {
  const person = await findSignedIn(host, c)
  if (!person) refuse('unauthenticated', 'your session has ended', 'sign in and try again')
  const [expected, given] = [Buffer.from(linkProof(host, person.session, provider)), Buffer.from(proof)]
  if (given.length !== expected.length || !timingSafeEqual(given, expected))
    refuse('forbidden', 'this link was not started on your account page', `open ${ME_PATH} and try again`)
  mustBeRecent(host, person)
  return person.session
}

function mustBeRecent(host: InstanceHost, person: SignedIn): void {
  if (!isRecent(host, person))
    refuse('forbidden', 'linking accounts needs a sign-in of the last 15 minutes', 'sign in again, then try once more')
}

/** `session`: the one that started; another person may have signed in meanwhile. */
export async function linkAccount(
  host: InstanceHost,
  c: Context,
  account: ConfirmedAccount,
  session: string,
): Promise<Response> {
  const person = await findSignedIn(host, c)
  if (person?.session !== session)
    refuse('forbidden', 'the session that started this has ended', 'sign in and try again')
  mustBeRecent(host, person)
  await callVerb(person.request, identitiesResource.verbs.link_own, { account })
  return redirectTo(`${ME_PATH}#ways`)
}

async function unlinkAccount(host: InstanceHost, person: SignedIn, fields: FormFields): Promise<Response> {
  mustBeRecent(host, person)
  await callVerb(person.request, identitiesResource.verbs.unlink_own, { sub: fields.get('sub') ?? '' })
  return redirectTo(`${ME_PATH}#ways`)
}
