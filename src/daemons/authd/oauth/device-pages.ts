// Device authorization (RFC 8628): a program asks for a code, and a signed-in person types it at /auth/device.
import type { Context, Hono } from 'hono'
import {
  DEVICE_CODE_TTL_MS,
  DEVICE_USER_CODE_LENGTH,
  findDeviceRequest,
  formatUserCode,
  POLL_INTERVAL_S,
} from '../../../core/people/device-codes.ts'
import { DEVICE_GRANT } from '../../../core/people/oauth-clients.ts'
import { canonicalUserCode } from '../../../core/people/user-codes.ts'
import { callVerb } from '../../../registry/call.ts'
import { oauthClientsResource, refuseUserCode } from '../../../resources/oauth-clients.ts'
import { html } from '../../../web/html.ts'
import { messagePage, renderPage } from '../../../web/pages/page.ts'
import { type FormFields, readForm } from '../../http/form-request.ts'
import { mcpAudience } from '../../http/mcp-resource.ts'
import { sendPage } from '../../http/page-response.ts'
import { clientAddressOf } from '../../http/request-middleware.ts'
import { personForm, personPage, type SignedIn } from '../../http/signed-in.ts'
import { accountKey } from '../attempt-limits.ts'
import { grantedScope, isMcpOnly, requestedAudience } from './audiences.ts'
import { clientRequest, findStoredClient, mustHave, type OauthContext } from './oauth-context.ts'
import { allowEveryOrigin, jsonResponse, OauthError, oauthHandler } from './oauth-response.ts'
import { limitAddress } from './request-limits.ts'

const DEVICE_PATH = '/auth/device'

export function mountDevice(app: Hono, context: OauthContext): void {
  allowEveryOrigin(app, '/auth/device_authorization')
  app.post(
    '/auth/device_authorization',
    oauthHandler(async (c) => {
      limitAddress(context.limits.devices, c)
      return requestDevice(context, c, await readForm(c))
    }),
  )
  app.get(
    DEVICE_PATH,
    personPage(context.host, (c, person) => askForCode(c, person)),
  )
  app.post(
    DEVICE_PATH,
    personForm(context.host, (c, person, fields) => submitCode(context, c, person, fields)),
  )
}

/** Clients with a metadata document are not fetched here, because strangers may call this. */
async function requestDevice({ host }: OauthContext, c: Context, fields: FormFields): Promise<Response> {
  const client = await findStoredClient(host, mustHave(fields, 'client_id'))
  if (!client) throw new OauthError('invalid_client', 'unknown client_id', 401)
  const { client_id, client_name, grant_types } = client
  if (!grant_types.includes(DEVICE_GRANT))
    throw new OauthError('unauthorized_client', `the client has not registered the grant type ${DEVICE_GRANT}`)
  const aud = requestedAudience(host, fields) ?? mcpAudience(host)
  const request = { client_id, client_name, aud, scope: grantedScope(fields), address: clientAddressOf(c) }
  const codes = await callVerb(clientRequest(host, c), oauthClientsResource.verbs.request_device, request)
  const page = `${host.webBase}${DEVICE_PATH}`
  return jsonResponse({
    ...codes,
    verification_uri: page,
    verification_uri_complete: `${page}?user_code=${codes.user_code}`,
    expires_in: DEVICE_CODE_TTL_MS / 1000,
    interval: POLL_INTERVAL_S,
  })
}

function askForCode(c: Context, { sub, csrf }: SignedIn): Response {
  const given = canonicalUserCode(c.req.query('user_code') ?? '', DEVICE_USER_CODE_LENGTH)
  return sendPage(
    c,
    renderPage({
      title: 'Connect a program',
      person: sub,
      main: html`<p>Type the code that the program shows.</p>
<form method="post" action="${DEVICE_PATH}"><input type="hidden" name="csrf" value="${csrf}">
<label for="user_code">Code</label>
<input id="user_code" name="user_code" value="${given === undefined ? '' : formatUserCode(given)}" placeholder="XXXX-XXXX" maxlength="20" autocomplete="off" autocapitalize="characters" spellcheck="false" required autofocus>
<button class="primary wide">Continue</button></form>`,
    }),
  )
}

/** Each typed code counts, because codes are short. */
async function submitCode(
  { host, limits }: OauthContext,
  c: Context,
  person: SignedIn,
  fields: FormFields,
): Promise<Response> {
  limitAddress(limits.userCodes, c)
  limits.userCodes.take(accountKey(person.sub))
  const code = canonicalUserCode(fields.get('user_code') ?? '', DEVICE_USER_CODE_LENGTH)
  const request = code === undefined ? undefined : await host.engine.read((tx) => findDeviceRequest(tx, host, code))
  if (code === undefined || !request) refuseUserCode()
  const decision = fields.get('decision')
  if (decision === undefined)
    return sendPage(c, confirmPage(code, request.client_name, isMcpOnly(host, request.aud), person))
  const isAllowed = decision === 'allow'
  await callVerb(person.request, oauthClientsResource.verbs.decide_device, { user_code: code, is_allowed: isAllowed })
  const [title, text] = isAllowed
    ? ['Connected', 'You can close this page and go back to the program.']
    : ['Not connected', 'The program got no access.']
  return sendPage(c, messagePage({ title, text, person: person.sub }))
}

function confirmPage(code: string, name: string, isMcp: boolean, { sub, csrf }: SignedIn) {
  return renderPage({
    title: 'Allow access?',
    person: sub,
    main: html`<p><strong>${name}</strong> wants to act for you, <code>${sub}</code>, and shows the code <code>${formatUserCode(code)}</code>.</p>
<p>${isMcp ? 'It may use the tools that you may use.' : 'It may do everything that you may do on this server.'} It keeps access until you end it among your <a href="/auth/devices">devices</a>.</p>
<p class="notice">Allow it only if you started it yourself, just now. Never type a code that another person sent you.</p>
<form method="post" action="${DEVICE_PATH}"><input type="hidden" name="csrf" value="${csrf}"><input type="hidden" name="user_code" value="${code}">
<div class="row"><button class="primary" name="decision" value="allow">Allow</button><button name="decision" value="deny">Deny</button></div></form>`,
  })
}
