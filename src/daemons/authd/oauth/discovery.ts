// Discovery documents: of the authorization server (RFC 8414 and OpenID), and of /mcp as its resource (RFC 9728). Public, and built
// from the public URL alone.
import type { Hono } from 'hono'
import { GRANT_TYPES } from '../../../core/people/oauth-clients.ts'
import type { InstanceHost } from '../../../registry/context.ts'
import { ACCOUNT_SCOPE, mcpAudience, RESOURCE_METADATA_PATH } from '../../http/mcp-resource.ts'
import { OFFLINE_SCOPE } from './audiences.ts'
import type { OauthContext } from './oauth-context.ts'
import { allowEveryOrigin, jsonResponse } from './oauth-response.ts'

export function mountDiscovery(app: Hono, context: Pick<OauthContext, 'host' | 'documents'>): void {
  const server = (): object => serverMetadata(context)
  const resource = (): object => resourceMetadata(context.host)
  const metadata: Readonly<Record<string, () => object>> = {
    '/.well-known/oauth-authorization-server': server,
    '/.well-known/openid-configuration': server,
    [RESOURCE_METADATA_PATH]: resource,
    [`${RESOURCE_METADATA_PATH}/mcp`]: resource,
  }
  for (const [path, describe] of Object.entries(metadata)) {
    allowEveryOrigin(app, path)
    // Not longer: a client that could not use its document looks again.
    app.get(path, () => jsonResponse(describe(), 200, { 'Cache-Control': 'public, max-age=60' }))
  }
}

function serverMetadata({ host: { webBase }, documents }: Pick<OauthContext, 'host' | 'documents'>): object {
  return {
    issuer: webBase,
    authorization_endpoint: `${webBase}/auth/authorize`,
    token_endpoint: `${webBase}/auth/token`,
    device_authorization_endpoint: `${webBase}/auth/device_authorization`,
    registration_endpoint: `${webBase}/auth/register`,
    revocation_endpoint: `${webBase}/auth/revoke`,
    jwks_uri: `${webBase}/v1/keys`,
    scopes_supported: [ACCOUNT_SCOPE, OFFLINE_SCOPE],
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: GRANT_TYPES,
    token_endpoint_auth_methods_supported: ['none'],
    revocation_endpoint_auth_methods_supported: ['none'],
    code_challenge_methods_supported: ['S256'],
    // Clients prefer documents to registration if this member is present.
    ...(documents.areOffered ? { client_id_metadata_document_supported: true } : {}),
    authorization_response_iss_parameter_supported: true,
    // OpenID discovery requires these two; no id token is issued.
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['ES256'],
  }
}

/** `offline_access` is a scope of the authorization server only. */
function resourceMetadata(host: InstanceHost): object {
  return {
    resource: mcpAudience(host),
    authorization_servers: [host.webBase],
    scopes_supported: [ACCOUNT_SCOPE],
    bearer_methods_supported: ['header'],
    resource_name: 'svc',
  }
}
