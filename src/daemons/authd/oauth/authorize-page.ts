// GET /auth/authorize shows who asks for what; POST carries the decision. Errors about the client or its redirect are pages: a
// redirect would lead to an unchecked place. All others go back to the client.
import type { Context, Hono } from 'hono'
import { isCodeChallenge } from '../../../core/people/authorization-codes.ts'
import type { OauthClient } from '../../../core/people/oauth-clients.ts'
import { matchRedirectUri, parseRedirectUri, type RedirectUri } from '../../../core/people/redirect-uri.ts'
import { ownPath } from '../../../lib/http/own-path.ts'
import { refuse } from '../../../lib/refusal.ts'
import { callVerb } from '../../../registry/call.ts'
import type { InstanceHost } from '../../../registry/context.ts'
import { oauthClientsResource } from '../../../resources/oauth-clients.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { renderPage } from '../../../web/pages/page.ts'
import { type FormFields, parseFormFields } from '../../http/form-request.ts'
import { mcpAudience } from '../../http/mcp-resource.ts'
import { pageHandler, redirectTo, sendPage } from '../../http/page-response.ts'
import { findSignedIn, personForm, type SignedIn } from '../../http/signed-in.ts'
import { accountKey } from '../attempt-limits.ts'
import { grantedScope, isMcpOnly, requestedAudience } from './audiences.ts'
import { isDocumentUrl } from './client-document.ts'
import { findStoredClient, type OauthContext } from './oauth-context.ts'
import { OauthError } from './oauth-response.ts'

const PARAMETERS = ['client_id', 'redirect_uri', 'response_type', 'response_mode', 'code_challenge'].concat(
  ...['code_challenge_method', 'scope', 'state', 'resource', 'prompt'],
)

export function mountAuthorize(app: Hono, context: OauthContext): void {
  app.get(
    '/auth/authorize',
    pageHandler((c) => showConsent(context, c)),
  )
  app.post(
    '/auth/authorize',
    personForm(context.host, (_c, person, fields) => decide(context, person, fields)),
  )
}

interface VerifiedClient {
  readonly client: OauthClient
  readonly redirect: RedirectUri
}

async function showConsent(context: OauthContext, c: Context): Promise<Response> {
  const { host } = context
  const fields = parseFormFields(new URL(c.req.url).searchParams)
  const person = await findSignedIn(host, c)
  // A stranger must not make this server fetch a document.
  if (!person && isDocumentUrl(fields.get('client_id') ?? '')) return redirectTo(signInFirst(fields))
  const verified = await verifyClient(context, fields, person?.sub)
  return answerErrors(host, verified, fields, () => {
    const request = readAuthorization(host, fields)
    if (fields.get('prompt') === 'none')
      throw new OauthError(person ? 'consent_required' : 'login_required', 'this server asks at every sign-in')
    return person ? sendPage(c, consentPage(host, verified, request, person, fields)) : redirectTo(signInFirst(fields))
  })
}

async function decide(context: OauthContext, person: SignedIn, fields: FormFields): Promise<Response> {
  const { host } = context
  const verified = await verifyClient(context, fields, person.sub)
  const { client, redirect } = verified
  return answerErrors(host, verified, fields, async () => {
    const request = readAuthorization(host, fields)
    if (fields.get('decision') !== 'allow') throw new OauthError('access_denied', 'the person did not allow it')
    const { code } = await callVerb(person.request, oauthClientsResource.verbs.allow, {
      client_id: client.client_id,
      client_name: client.client_name,
      redirect_uri: redirect.text,
      ...request,
    })
    return redirectTo(answerUrl(host, redirect, { code, ...stateOf(fields) }))
  })
}

/** Refuses with a page. */
async function verifyClient(
  { host, documents, limits }: OauthContext,
  fields: FormFields,
  sub: string | undefined,
): Promise<VerifiedClient> {
  const id = fields.get('client_id') ?? refuse('invalid', 'client_id is missing')
  if (isDocumentUrl(id)) limits.documents.take(accountKey(sub ?? ''))
  const client = isDocumentUrl(id) ? await documents.find(id) : await findStoredClient(host, id)
  if (!client)
    refuse('invalid', 'the program that sent you here is not registered', 'remove its saved sign-in and try again')
  const redirect = matchRedirectUri(fields.get('redirect_uri') ?? '', client.redirect_uris)
  return redirect
    ? { client, redirect }
    : refuse('invalid', 'redirect_uri is not one that this program has registered', 'report this to its maker')
}

interface AuthorizationRequest {
  readonly challenge: string
  readonly aud: string
  readonly scope: string
}

function readAuthorization(host: InstanceHost, fields: FormFields): AuthorizationRequest {
  if (fields.get('response_type') !== 'code')
    throw new OauthError('unsupported_response_type', 'response_type must be code')
  if ((fields.get('response_mode') ?? 'query') !== 'query')
    throw new OauthError('invalid_request', 'response_mode must be query')
  const challenge = fields.get('code_challenge') ?? ''
  if (fields.get('code_challenge_method') !== 'S256' || !isCodeChallenge(challenge))
    throw new OauthError('invalid_request', 'PKCE with code_challenge_method S256 is required')
  return { challenge, aud: requestedAudience(host, fields) ?? mcpAudience(host), scope: grantedScope(fields) }
}

async function answerErrors(
  host: InstanceHost,
  { redirect }: VerifiedClient,
  fields: FormFields,
  answer: () => Response | Promise<Response>,
): Promise<Response> {
  try {
    return await answer()
  } catch (error) {
    if (!(error instanceof OauthError)) throw error
    const answered = { error: error.error, error_description: error.message, ...stateOf(fields) }
    return redirectTo(answerUrl(host, redirect, answered))
  }
}

function stateOf(fields: FormFields): { state?: string } {
  const state = fields.get('state')
  return state === undefined ? {} : { state }
}

/** Every answer names its issuer (RFC 9207). */
function answerUrl({ webBase }: InstanceHost, { text }: RedirectUri, answer: Record<string, string>): string {
  return `${text}${text.includes('?') ? '&' : '?'}${new URLSearchParams({ ...answer, iss: webBase })}`
}

/** The sign-in page, which leads back to this request. */
function signInFirst(fields: FormFields): string {
  const next = `/auth/authorize?${new URLSearchParams(knownParameters(fields))}`
  if (ownPath(next) === undefined) refuse('invalid', 'the request of this program is too long', 'sign in first')
  return `/auth/sign-in?next=${encodeURIComponent(next)}`
}

function knownParameters(fields: FormFields): Record<string, string> {
  return Object.fromEntries([...fields].filter(([name]) => PARAMETERS.includes(name)))
}

function consentPage(
  host: InstanceHost,
  { client, redirect }: VerifiedClient,
  { aud }: AuthorizationRequest,
  { sub, csrf }: SignedIn,
  fields: FormFields,
) {
  const hidden = Object.entries({ ...knownParameters(fields), csrf })
  return renderPage({
    title: 'Allow access?',
    person: sub,
    formTargets: [redirect.formTarget],
    main: html`<p><strong>${client.client_name}</strong> wants to act for you, <code>${sub}</code>.</p>
${clientFacts(client, redirect)}
<p>${isMcpOnly(host, aud) ? MCP_RIGHTS : REST_RIGHTS} It keeps access until you end it among your <a href="/auth/devices">devices</a>.</p>
<form method="post" action="/auth/authorize">
${hidden.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
<div class="row"><button class="primary" name="decision" value="allow">Allow</button><button name="decision" value="deny">Deny</button></div>
</form>`,
  })
}

const MCP_RIGHTS =
  'It may list your groups, read their messages and write to them, and use the other tools that you may use.'
const REST_RIGHTS = 'It may do everything that you may do on this server.'

/** The name is what the client calls itself; only hosts can be trusted. */
function clientFacts({ client_id, redirect_uris }: OauthClient, { destination }: RedirectUri): Html {
  const isLocal = redirect_uris.every((uri) => parseRedirectUri(uri)?.kind === 'loopback')
  const publisher = isDocumentUrl(client_id)
    ? html`It is published by <code>${new URL(client_id).host}</code>. `
    : EMPTY_HTML
  const warning = isLocal
    ? html`<p class="notice">It runs on the computer of the person who started it. Allow it only if you started it yourself, just now.</p>`
    : EMPTY_HTML
  return html`<p>${publisher}Afterwards you are sent to <code>${destination}</code>.</p>
${warning}`
}
