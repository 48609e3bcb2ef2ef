// Who comes to the front door, and whether they may go where they want to.
import { isOperator, judge } from '../../core/access.ts'
import { verifyBearer } from '../../core/bearers.ts'
import { type Caller, claimsOf } from '../../core/caller.ts'
import { identities, identityClaims } from '../../core/identities.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { Said } from '../headers.ts'
import { bearerOf } from '../request.ts'
import type { Auth } from './door.ts'

export interface Visitor {
  readonly caller?: Caller
  /** Why there is no caller. */
  readonly fault?: Refusal
}

const STRANGER: Visitor = {}

/** By the bearer. Another credential in its place is the business of whoever stands behind the door. */
export async function visitorOf(host: Host, authorization: string | undefined): Promise<Visitor> {
  if (authorization === undefined) return STRANGER
  try {
    return { caller: await verifyBearer(host, bearerOf(authorization)) }
  } catch (fault) {
    if (fault instanceof Refusal && fault.code === 'unauthenticated') return { fault }
    throw fault
  }
}

/** Rights are read now, whatever they were when the bearer was made. `folder` is what the files belong to. */
export async function mustPass(host: Host, { caller, fault }: Visitor, auth: Auth, folder = ''): Promise<void> {
  if (auth === 'public') return
  if (!caller) {
    if (fault) throw fault
    refuse(
      'unauthenticated',
      'this path is for people who are signed in',
      'send the header Authorization: Bearer <bearer>',
    )
  }
  // A service has a name, but nobody signed in with it.
  if (caller.kind !== 'person') refuse('forbidden', 'this path is for people, not for services')
  if (auth === 'user') return
  const policy = await host.engine.read((tx) => host.policies.read(tx))
  const asker = { principal: caller.sub, claims: claimsOf(caller) }
  if (auth === 'operator') {
    if (!isOperator(policy, caller.sub)) refuse('forbidden', 'this path is for operators')
  } else if (!judge(policy, asker, { action: 'interact', scope: folder }).allow) {
    refuse('forbidden', 'these pages are for those who may speak with their folder')
  }
}

/** Who it is, for whoever stands behind the door; nothing of those who are nobody. */
export async function identityOf({ engine }: Host, { caller }: Visitor): Promise<Said> {
  if (caller?.kind !== 'person') return {}
  const { sub } = caller
  const name = await engine.read(async (tx) => {
    const claim = await identityClaims.find(tx, { sub })
    return claim && (await identities.find(tx, { id: claim.identity_id }))?.name
  })
  return { 'X-User-Sub': sub, 'X-User-Name': name }
}
