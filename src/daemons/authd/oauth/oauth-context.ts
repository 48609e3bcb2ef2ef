// What the OAuth endpoints share, and how they find clients and call verbs.
import type { Context } from 'hono'
import { CLI_CLIENT, findRegisteredClient, type OauthClient } from '../../../core/people/oauth-clients.ts'
import type { InstanceHost, RequestContext } from '../../../registry/context.ts'
import type { FormFields } from '../../http/form-request.ts'
import { clientAddressOf } from '../../http/request-middleware.ts'
import type { SignInAllowlist } from '../../http/sign-in-allowlist.ts'
import { type ClientDocuments, isDocumentUrl } from './client-document.ts'
import { OauthError } from './oauth-response.ts'
import type { OauthLimits } from './request-limits.ts'

export interface OauthContext {
  readonly host: InstanceHost
  readonly isAllowed: SignInAllowlist
  readonly documents: ClientDocuments
  readonly limits: OauthLimits
}

/** The built-in client or a registered one; clients with a document are not looked up. */
export async function findStoredClient(host: InstanceHost, id: string): Promise<OauthClient | undefined> {
  if (id === CLI_CLIENT.client_id) return CLI_CLIENT
  return host.engine.read((tx) => findRegisteredClient(tx, id, host.clock.now()))
}

/** The id of a client that calls an endpoint. A document is not fetched again: codes and tokens name their client. */
export async function mustNameClient({ host }: OauthContext, fields: FormFields): Promise<string> {
  const id = mustHave(fields, 'client_id')
  if (isDocumentUrl(id) || (await findStoredClient(host, id))) return id
  throw new OauthError('invalid_client', 'unknown client_id: it may have expired, so register again', 401)
}

export function mustHave(fields: FormFields, name: string): string {
  const value = fields.get(name)
  if (value) return value
  throw new OauthError('invalid_request', `${name} is required`)
}

/** Clients are not callers with rights: what they present decides. */
export function clientRequest(host: InstanceHost, c: Context): RequestContext {
  const sourceIp = clientAddressOf(c)
  return {
    host,
    caller: { kind: 'service', sub: 'service:authd' },
    face: 'rest',
    requestId: c.get('requestId'),
    ...(sourceIp === undefined ? {} : { sourceIp }),
  }
}
