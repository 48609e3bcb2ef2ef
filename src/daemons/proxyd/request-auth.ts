// Authentication and authorization of requests to paths of rows, and the identity headers for their backends.
import type { IncomingMessage } from 'node:http'
import type { Context } from 'hono'
import { claimsOf } from '../../core/access/caller.ts'
import { checkAccess, isOperator } from '../../core/access/policy.ts'
import { findIdentityName } from '../../core/people/identities.ts'
import { refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { type Authentication, authenticate, authenticateRequest } from '../http/credentials.ts'
import { maySessionAct, requestSource } from '../http/request-source.ts'
import type { ForwardedHeaders } from '../http/upstream-headers.ts'
import type { RequiredAuth } from './route-table.ts'

/** Backends know no CSRF token of ours, so a session changes something there only from pages of this origin. */
export async function authenticateVisitor(
  host: InstanceHost,
  c: Context,
  { method, headers }: IncomingMessage,
  auth: RequiredAuth,
): Promise<Authentication> {
  if (maySessionAct(host, method, headers)) return authenticateRequest(host, c)
  const found = await authenticate(host, headers)
  const { caller } = found
  if (caller?.kind === 'person' && caller.session !== undefined) {
    if (auth !== 'public' && requestSource(host, headers) === 'foreign')
      refuse('forbidden', 'this request was sent from another site', 'open the page on this server and try again')
    return {}
  }
  if (caller) c.set('caller', caller)
  return found
}

/** Checks the current policy. `folder` is the folder of the files. */
export async function authorize(
  host: InstanceHost,
  { caller, fault }: Authentication,
  auth: RequiredAuth,
  folder = '',
): Promise<void> {
  if (auth === 'public') return
  if (!caller) {
    if (fault) throw fault
    refuse('unauthenticated', 'sign in to open this path', 'send the header Authorization: Bearer <bearer>')
  }
  if (caller.kind !== 'person') refuse('forbidden', 'this path is for people, not for services')
  if (auth === 'user') return
  const policy = await host.engine.read((tx) => host.policies.read(tx))
  const subject = { principal: caller.sub, claims: claimsOf(caller) }
  if (auth === 'operator') {
    if (!isOperator(policy, caller.sub)) refuse('forbidden', 'this path is for operators')
  } else if (!checkAccess(policy, subject, { action: 'interact', scope: folder }).allow) {
    refuse('forbidden', 'these pages are for people who may interact with their folder')
  }
}

/** Identity of a signed-in person for backends; empty for all others. */
export async function identityHeaders({ engine }: InstanceHost, { caller }: Authentication): Promise<ForwardedHeaders> {
  if (caller?.kind !== 'person') return {}
  const { sub } = caller
  const name = await engine.read((tx) => findIdentityName(tx, sub))
  return { 'X-User-Sub': sub, 'X-User-Name': name }
}
