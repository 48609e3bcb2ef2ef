// /invite/<token>: shows who invites to what, and accepts the invite: with the session of the browser, after signing in, or with
// a new account of this server.
import type { Context, Hono } from 'hono'
import { accounts, LOCAL_ISSUER } from '../../core/people/accounts.ts'
import { revokeSession } from '../../core/people/sessions.ts'
import { line } from '../../core/values.ts'
import type { Random } from '../../lib/clock.ts'
import type { Log } from '../../lib/log/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import { isGlob } from '../../lib/text/glob.ts'
import { callVerb } from '../../registry/call.ts'
import type { RequestContext } from '../../registry/context.ts'
import { invitesResource, refuseInvite } from '../../resources/invites.ts'
import { openPersonChat } from '../../resources/route-tokens.ts'
import type { HtmlPage } from '../../web/chat/page.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import { renderPage } from '../../web/pages/page.ts'
import { mustBeOwnOriginForm, readForm, readSessionForm } from '../http/form-request.ts'
import { pageHandler, redirectTo, sendPage } from '../http/page-response.ts'
import { clientAddressOf } from '../http/request-middleware.ts'
import { formatCookie, inviteCookieName } from '../http/session-cookie.ts'
import { HOME_PATH, type SignInContext, type StartedSession, startSession } from '../http/sign-in.ts'
import { findSignedIn, type SignedIn } from '../http/signed-in.ts'
import { GuessLimit } from './guess-limit.ts'

const { preview, redeem } = invitesResource.verbs

/** How long signing in on the way may take. */
const COOKIE_MAX_AGE_S = 30 * 60
const NAME_MAX = 64
const Name = line(NAME_MAX)

interface InvitePagesContext extends SignInContext {
  readonly log: Log
}

interface InviteRequest {
  readonly token: string
  readonly person: SignedIn | undefined
  readonly invite: { readonly target_glob: string; readonly issued_by: string; readonly is_redeemed: boolean }
}

export function mountInvitePages(app: Hono, context: InvitePagesContext): void {
  const guesses = new GuessLimit(context.host.clock)
  app.get(
    '/invite/:token',
    pageHandler(async (c) => sendPage(c, renderInvite(await findInvite(context, guesses, c)))),
  )
  app.post(
    '/invite/:token',
    pageHandler(async (c) => {
      mustBeOwnOriginForm(context.host, c)
      return submit(context, c, await findInvite(context, guesses, c))
    }),
  )
}

/** Changes nothing. Counts unknown tokens of an address. */
async function findInvite({ host }: InvitePagesContext, guesses: GuessLimit, c: Context): Promise<InviteRequest> {
  const address = clientAddressOf(c)
  guesses.check(address)
  const token = c.req.param('token') ?? ''
  const person = await findSignedIn(host, c)
  // Holding the token is the right to see the invite; the caller only matters for the invites that they have accepted.
  const request = person?.request ?? ({ host, caller: { kind: 'person', sub: 'anon:invite' }, face: 'rest' } as const)
  try {
    return { token, person, invite: await callVerb(request, preview, { token }) }
  } catch (error) {
    if (!(error instanceof Refusal) || (error.code !== 'not_found' && error.code !== 'invalid')) throw error
    guesses.count(address)
    return refuseInvite()
  }
}

async function submit(context: InvitePagesContext, c: Context, request: InviteRequest): Promise<Response> {
  const { host } = context
  const { token, person } = request
  const page = `/invite/${token}`
  if (person) {
    await readSessionForm(host, c, person.session)
    await accept(context, person.request, token)
    const path = await landingPath(person.request, request.invite.target_glob)
    return redirectTo(path, { 'Set-Cookie': inviteCookie(context, '', 0) })
  }
  const fields = await readForm(c)
  if (fields.get('action') === 'sign_in')
    return redirectTo('/auth/sign-in', { 'Set-Cookie': inviteCookie(context, token, COOKIE_MAX_AGE_S) })
  // The session has ended since the page was shown.
  if (fields.get('action') !== 'create') return redirectTo(page)
  const name = fields.get('name')?.trim() ?? ''
  if (!Name.safeParse(name).success) {
    const fault = `Enter a name of 1 to ${NAME_MAX} characters.`
    return sendPage(c, { ...renderInvite(request, fault), status: 400 })
  }
  const started = await createAccount(context, c, name, token)
  const response = redirectTo(page, { 'Set-Cookie': started.cookie })
  response.headers.append('Set-Cookie', inviteCookie(context, '', 0))
  return response
}

function inviteCookie({ host }: InvitePagesContext, token: string, maxAgeS: number): string {
  return formatCookie(host, inviteCookieName(host), token, { maxAgeS })
}

/** The visitor sees one answer for all reasons; the log and the audit row have the right one. */
async function accept({ log }: InvitePagesContext, request: RequestContext, token: string): Promise<void> {
  try {
    await callVerb(request, redeem, { token })
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'forbidden') throw error
    log.warn({ request: request.requestId, reason: error.message }, 'invite refused')
    refuseInvite()
  }
}

/** The account exists only together with the grant: it is removed again if another person was faster. */
async function createAccount(
  context: InvitePagesContext,
  c: Context,
  name: string,
  token: string,
): Promise<StartedSession> {
  const { host } = context
  const started = await startAccount(context, c, name, token)
  const { sub, session } = started
  const sourceIp = clientAddressOf(c)
  const request: RequestContext = {
    host,
    caller: { kind: 'person', sub, session },
    face: 'dash',
    requestId: c.get('requestId'),
    ...(sourceIp === undefined ? {} : { sourceIp }),
  }
  try {
    await accept(context, request, token)
  } catch (error) {
    await host.engine.transaction(async (tx) => {
      await revokeSession(tx, session)
      await accounts.remove(tx, { sub })
    })
    throw error
  }
  return started
}

const TRIES_MAX = 5

/** Another account may have the random name already. */
async function startAccount(
  context: InvitePagesContext,
  c: Context,
  name: string,
  inviteToken: string,
): Promise<StartedSession> {
  for (let attempt = 1; ; attempt++) {
    const sub = localSub(name, context.host.random)
    const account = { sub, issuer: LOCAL_ISSUER, subject: sub, name, email_verified: false }
    try {
      return await startSession(context, c, { account, method: 'invite', inviteToken })
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'conflict' || attempt === TRIES_MAX) throw error
    }
  }
}

/** `Ada Lovelace` becomes `local:ada-lovelace-x7k2`. */
function localSub(name: string, random: Random): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 32)
    .replace(/^-|-$/g, '')
  const suffix = Array.from(random.bytes(4), (byte) => 'abcdefghijkmnpqrstuvwxyz23456789'[byte % 32]).join('')
  return `${LOCAL_ISSUER}:${slug || 'guest'}-${suffix}`
}

function renderInvite({ person, invite }: InviteRequest, fault?: string): HtmlPage {
  const { issued_by, target_glob, is_redeemed } = invite
  const title = is_redeemed ? 'Invite accepted' : 'You are invited'
  const target = describeTarget(target_glob)
  const main =
    is_redeemed && person
      ? html`<p>You administer ${target} now.</p>
${acceptForm(person, 'Continue')}
<p class="hint"><a href="/auth/passkeys">Add a passkey</a> to sign in again later, on this device or another.</p>`
      : html`<p>${issued_by} invites you to administer ${target} on this server.</p>
${person ? acceptForm(person, 'Accept') : signInForms(fault)}`
  const page = renderPage({ title, person: person?.sub, main })
  // No Referer contains the token. With no-referrer, forms would have the origin null, which plain HTTP cannot confirm.
  return { ...page, headers: { ...page.headers, 'Referrer-Policy': 'strict-origin' } }
}

function describeTarget(glob: string): Html {
  const folder = glob.replace(/\/\*\*$/, '')
  if (glob === '**') return html`<strong>every folder</strong>`
  return folder === glob ? html`<code>${glob}</code>` : html`the folder <code>${folder}</code> and the folders below it`
}

/** Accepting again changes nothing and leads to the folder. */
function acceptForm({ csrf }: SignedIn, label: string): Html {
  return html`<form method="post"><input type="hidden" name="csrf" value="${csrf}">
<button class="primary wide" name="action" value="accept" autofocus>${label}</button></form>`
}

function signInForms(fault: string | undefined): Html {
  return html`<form method="post"><button class="primary wide" name="action" value="sign_in">Sign in to accept</button></form>
<h2>No account yet?</h2>
<form method="post">
<label for="name">Your name</label>
<input id="name" name="name" maxlength="${NAME_MAX}" autocomplete="name" required>
${fault === undefined ? EMPTY_HTML : html`<p class="fault" role="alert">${fault}</p>`}
<button class="wide" name="action" value="create">Create an account here</button>
</form>`
}

/** The chat with the folder of the invite; the account page if there is no such group, or if the glob means several. */
async function landingPath(request: RequestContext, glob: string): Promise<string> {
  const folder = glob.replace(/\/\*\*$/, '')
  if (isGlob(folder)) return HOME_PATH
  try {
    return await openPersonChat(request, folder)
  } catch (error) {
    if (error instanceof Refusal && (error.code === 'not_found' || error.code === 'forbidden')) return HOME_PATH
    throw error
  }
}
