// Which tokens an authorization is for (RFC 8707): the tools at /mcp, or the REST interface as well.
import { audienceOf } from '../../../core/access/bearers.ts'
import type { InstanceHost } from '../../../registry/context.ts'
import type { FormFields } from '../../http/form-request.ts'
import { ACCOUNT_SCOPE, mcpAudience } from '../../http/mcp-resource.ts'
import { OauthError } from './oauth-response.ts'

export const OFFLINE_SCOPE = 'offline_access'

/** The audience that the request names; undefined if it names none. */
export function requestedAudience(host: InstanceHost, fields: FormFields): string | undefined {
  const resource = fields.get('resource')
  if (resource === undefined) return undefined
  const { webBase } = host
  if (resource === mcpAudience(host)) return resource
  // A parser writes the bare origin with a slash.
  if ([webBase, `${webBase}/`, `${webBase}/v1`].includes(resource)) return audienceOf(host)
  throw new OauthError('invalid_target', `resource must be ${mcpAudience(host)} or ${webBase}/v1`)
}

/** Unknown scopes are ignored: clients ask for what other servers have. */
export function grantedScope(fields: FormFields): string {
  const isOffline = (fields.get('scope') ?? '').split(' ').includes(OFFLINE_SCOPE)
  return isOffline ? `${ACCOUNT_SCOPE} ${OFFLINE_SCOPE}` : ACCOUNT_SCOPE
}

export function isMcpOnly(host: InstanceHost, audience: string): boolean {
  return audience === mcpAudience(host)
}
