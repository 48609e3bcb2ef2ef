// /mcp as a resource that OAuth protects (RFC 9728): its name, its metadata, and the challenges that lead clients there.
import type { InstanceHost } from '../../registry/context.ts'

type Host = Pick<InstanceHost, 'webBase'>

export const RESOURCE_METADATA_PATH = '/.well-known/oauth-protected-resource'
/** The only scope of the resource: everything that the person may do. */
export const ACCOUNT_SCOPE = 'account'

/** The audience of bearers for /mcp alone. */
export function mcpAudience({ webBase }: Host): string {
  return `${webBase}/mcp`
}

/** The value of WWW-Authenticate. */
export function mcpChallenge({ webBase }: Host, error?: 'invalid_token' | 'insufficient_scope'): string {
  const scope = error === 'insufficient_scope' ? `scope="${ACCOUNT_SCOPE}", ` : ''
  const fault = error === undefined ? '' : `error="${error}", ${scope}`
  return `Bearer ${fault}resource_metadata="${webBase}${RESOURCE_METADATA_PATH}/mcp"`
}
