// POST /auth/token and /auth/revoke: codes and refresh tokens for access tokens, and their end (RFC 6749, RFC 7009).

import type { Context, Hono } from 'hono'
import { issueBearer, verifyBearer } from '../../../core/access/bearers.ts'
import { accountsOfPerson } from '../../../core/people/accounts.ts'
import { findClientSession, isLocalAccount } from '../../../core/people/client-sessions.ts'
import { CODE_GRANT, DEVICE_GRANT, REFRESH_GRANT } from '../../../core/people/oauth-clients.ts'
import { sessions } from '../../../core/people/sessions.ts'
import { Refusal } from '../../../lib/refusal.ts'
import { callVerb } from '../../../registry/call.ts'
import { oauthClientsResource, type TokenGrantReply } from '../../../resources/oauth-clients.ts'
import { type FormFields, readForm } from '../../http/form-request.ts'
import { mcpAudience } from '../../http/mcp-resource.ts'
import { clientAddressOf } from '../../http/request-middleware.ts'
import { requestedAudience } from './audiences.ts'
import { clientRequest, mustHave, mustNameClient, type OauthContext } from './oauth-context.ts'
import { allowEveryOrigin, jsonResponse, OauthError, oauthHandler } from './oauth-response.ts'
import { limitAddress } from './request-limits.ts'

const ACCESS_TTL_MS = 3_600_000
const { exchange_code, poll_device, refresh, revoke } = oauthClientsResource.verbs

export function mountTokenEndpoint(app: Hono, context: OauthContext): void {
  for (const path of ['/auth/token', '/auth/revoke']) allowEveryOrigin(app, path)
  app.post(
    '/auth/token',
    oauthHandler(async (c) => {
      limitAddress(context.limits.tokens, c)
      const fields = await readForm(c)
      const grant = GRANTS.get(mustHave(fields, 'grant_type'))
      if (!grant) throw new OauthError('unsupported_grant_type', 'unknown grant_type')
      const clientId = await mustNameClient(context, fields)
      return sendTokens(context, await grant(context, c, clientId, fields))
    }),
  )
  app.post(
    '/auth/revoke',
    oauthHandler(async (c) => {
      limitAddress(context.limits.tokens, c)
      return revokeToken(context, c, await readForm(c))
    }),
  )
}

type GrantHandler = (
  context: OauthContext,
  c: Context,
  clientId: string,
  fields: FormFields,
) => Promise<TokenGrantReply>

const GRANTS: ReadonlyMap<string, GrantHandler> = new Map([
  [CODE_GRANT, exchangeCode],
  [DEVICE_GRANT, pollDevice],
  [REFRESH_GRANT, refreshSession],
])

async function exchangeCode(...[{ host }, c, client_id, fields]: Parameters<GrantHandler>): Promise<TokenGrantReply> {
  return callVerb(clientRequest(host, c), exchange_code, {
    client_id,
    code: mustHave(fields, 'code'),
    redirect_uri: mustHave(fields, 'redirect_uri'),
    code_verifier: mustHave(fields, 'code_verifier'),
    aud: requestedAudience(host, fields),
    address: clientAddressOf(c),
  })
}

async function pollDevice(...[{ host }, c, client_id, fields]: Parameters<GrantHandler>): Promise<TokenGrantReply> {
  return callVerb(clientRequest(host, c), poll_device, {
    client_id,
    device_code: mustHave(fields, 'device_code'),
    aud: requestedAudience(host, fields),
    address: clientAddressOf(c),
  })
}

async function refreshSession(...[context, c, client_id, fields]: Parameters<GrantHandler>): Promise<TokenGrantReply> {
  const refresh_token = mustHave(fields, 'refresh_token')
  return callVerb(clientRequest(context.host, c), refresh, {
    client_id,
    refresh_token,
    aud: requestedAudience(context.host, fields),
    is_allowed: await mayStillEnter(context, refresh_token),
  })
}

/** Whether the person of a refresh token may sign in without a grant. */
async function mayStillEnter({ host, isAllowed }: OauthContext, token: string): Promise<boolean> {
  const found = await host.engine.read(async (tx) => {
    const session = await findClientSession(tx, token)
    return session ? accountsOfPerson(tx, session.sub) : []
  })
  return found.some((account) => isLocalAccount(account) || isAllowed(account))
}

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  invalid_grant: 'the code or token is not valid: it was used, has expired, or belongs to another client',
  invalid_target: 'the authorization is for another resource',
  authorization_pending: 'the person has not decided yet',
  slow_down: 'wait 5 seconds longer between requests',
  expired_token: 'the device code has expired',
  access_denied: 'the person did not allow it',
}

async function sendTokens({ host }: OauthContext, grant: TokenGrantReply): Promise<Response> {
  const { error, sub, family_id: sid, aud: audience, scope, refresh_token } = grant
  if (error !== undefined || sub === undefined || sid === undefined)
    throw new OauthError(error ?? 'invalid_grant', DESCRIPTIONS[error ?? ''] ?? 'not valid')
  const access_token = await issueBearer(host, { sub, sid, audience, ttlMs: ACCESS_TTL_MS })
  return jsonResponse({
    access_token,
    token_type: 'Bearer',
    expires_in: ACCESS_TTL_MS / 1000,
    refresh_token,
    scope,
  })
}

/** An unknown token is already revoked. */
async function revokeToken({ host }: OauthContext, c: Context, fields: FormFields): Promise<Response> {
  const [token, clientId] = [mustHave(fields, 'token'), fields.get('client_id')]
  const session = await host.engine.read((tx) => findClientSession(tx, token))
  const accessSession = session ? undefined : await sessionOfAccessToken(host, token)
  const found = session ?? accessSession
  if (found && clientId !== undefined && found.client_id !== clientId)
    throw new OauthError('invalid_grant', 'the token belongs to another client')
  if (found) await callVerb(clientRequest(host, c), revoke, { family_id: found.family_id })
  return jsonResponse({})
}

async function sessionOfAccessToken(host: OauthContext['host'], token: string) {
  try {
    await verifyBearer(host, token, [mcpAudience(host)])
  } catch (error) {
    if (error instanceof Refusal && error.code === 'unauthenticated') return undefined
    throw error
  }
  const { decodeJwt } = await import('jose')
  const { sid } = decodeJwt(token)
  return typeof sid === 'string' ? host.engine.read((tx) => sessions.find(tx, { family_id: sid })) : undefined
}
