// POST /auth/register: dynamic client registration (RFC 7591). A registration proves nothing, so it is limited and expires.
import type { Hono } from 'hono'
import { z } from 'zod'
import { GRANT_TYPES } from '../../../core/people/oauth-clients.ts'
import { parseRedirectUri } from '../../../core/people/redirect-uri.ts'
import { readJsonObject } from '../../../lib/http/http.ts'
import { callVerb } from '../../../registry/call.ts'
import { oauthClientsResource } from '../../../resources/oauth-clients.ts'
import { clientAddressOf } from '../../http/request-middleware.ts'
import { cleanClientName, supportedGrants } from './client-metadata.ts'
import { clientRequest, type OauthContext } from './oauth-context.ts'
import { allowEveryOrigin, jsonResponse, OauthError, oauthHandler } from './oauth-response.ts'
import { limitAddress } from './request-limits.ts'

const BODY_MAX = 16 * 1024
const REDIRECTS_MAX = 20

/** Other members are ignored, `scope` too: a scope is asked for with each authorization. */
const Registration = z.object({
  client_name: z.string().optional(),
  redirect_uris: z.array(z.string()).min(1).max(REDIRECTS_MAX),
  grant_types: z.array(z.string()).optional(),
})

export function mountRegistration(app: Hono, { host, limits }: OauthContext): void {
  allowEveryOrigin(app, '/auth/register')
  app.post(
    '/auth/register',
    oauthHandler(async (c) => {
      limitAddress(limits.registrations, c)
      const read = Registration.safeParse(await readJsonObject(c.req.raw, BODY_MAX))
      if (!read.success)
        throw new OauthError('invalid_client_metadata', `redirect_uris must be a list of 1 to ${REDIRECTS_MAX} URIs`)
      const { client_name = '', redirect_uris, grant_types = [] } = read.data
      if (!redirect_uris.every((uri) => parseRedirectUri(uri)))
        throw new OauthError(
          'invalid_redirect_uri',
          'redirect_uris must be https, http on loopback, or of a scheme of its own, without user, fragment and encoded dots',
        )
      const client = await callVerb(clientRequest(host, c), oauthClientsResource.verbs.register, {
        client_name: cleanClientName(client_name),
        redirect_uris,
        grant_types: supportedGrants(grant_types.filter((grant) => GRANT_TYPES.includes(grant))),
        address: clientAddressOf(c),
      })
      const answer = {
        client_id: client.client_id,
        client_id_issued_at: Math.floor(Date.parse(client.created_at) / 1000),
        client_name: client.client_name,
        redirect_uris: client.redirect_uris,
        grant_types: client.grant_types,
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
      }
      return jsonResponse(answer, 201)
    }),
  )
}
