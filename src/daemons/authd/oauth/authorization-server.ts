// The OAuth authorization server: how programs sign in for a person. See docs/oauth.md.
import type { Hono } from 'hono'
import type { InstanceHost } from '../../../registry/context.ts'
import type { SignInAllowlist } from '../../http/sign-in-allowlist.ts'
import { mountAuthorize } from './authorize-page.ts'
import { ClientDocuments, type DocumentDialer } from './client-document.ts'
import { mountDevice } from './device-pages.ts'
import { mountDiscovery } from './discovery.ts'
import type { OauthContext } from './oauth-context.ts'
import { mountRegistration } from './registration.ts'
import { openOauthLimits } from './request-limits.ts'
import { mountTokenEndpoint } from './token-endpoint.ts'

export interface AuthorizationServerOptions {
  readonly host: InstanceHost
  readonly isAllowed: SignInAllowlist
  /** Whether clients with a metadata document may sign in; by default they may. */
  acceptsDocuments?(): boolean
  /** Replaced by tests. */
  readonly dialer?: DocumentDialer
}

export function mountAuthorizationServer(app: Hono, options: AuthorizationServerOptions): void {
  const { host, isAllowed, acceptsDocuments, dialer } = options
  const documents = new ClientDocuments(host.clock, dialer, acceptsDocuments)
  const context: OauthContext = { host, isAllowed, documents, limits: openOauthLimits(host.clock) }
  mountDiscovery(app, context)
  mountAuthorize(app, context)
  mountTokenEndpoint(app, context)
  mountRegistration(app, context)
  mountDevice(app, context)
}
