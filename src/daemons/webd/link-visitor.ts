// Signed-in people at links. Most links are open to anyone; the chat of a person only to that person, while they have the right
// `interact` on its folder. See docs/decisions.md#person-chats.
import { type Caller, claimsOf } from '../../core/access/caller.ts'
import { checkAccess } from '../../core/access/policy.ts'
import { isTokenProof } from '../../core/links/link-token.ts'
import { isSessionActive } from '../../core/people/sessions.ts'
import { canOperate } from '../../registry/authorization.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { turnsResource } from '../../resources/turns.ts'
import type { Tx } from '../../store/engine.ts'
import { authenticate } from '../http/credentials.ts'
import { maySessionAct } from '../http/request-source.ts'
import { LinkRefusal, type LinkRequest } from './link-request.ts'

type Person = Extract<Caller, { kind: 'person' }>

export interface LinkVisitor {
  readonly caller: Person
  /** The Authorization header of a caller without a session. */
  readonly authorization: string | undefined
}

/** The person of a chat, and its folder. */
export interface PersonChatOwner {
  readonly sub: string
  readonly folder: string
}

/** One shared instance: capturing a stack for each guessed token would be wasted time. */
export const NO_LINK = new LinkRefusal(
  'This link does not work',
  'there is no such link, or it was revoked',
  'ask for a new one where you got it',
)

/** Looks like `NO_LINK`; browsers are sent to the sign-in page instead. */
export const SIGN_IN_NEEDED = new LinkRefusal(NO_LINK.title, NO_LINK.message, NO_LINK.hint)

/** Link URLs are open to pages of all sites, which must not speak as their visitor: their requests have no session. */
export async function findVisitor(host: InstanceHost, request: LinkRequest): Promise<LinkVisitor | undefined> {
  const { method, headers } = request.incoming
  const { authorization, cookie } = headers
  const credentials = maySessionAct(host, method, headers) ? { authorization, cookie } : { authorization }
  const { caller } = await authenticate(host, credentials)
  if (caller?.kind !== 'person') return undefined
  request.caller = caller.sub
  return { caller, authorization: caller.session === undefined ? authorization : undefined }
}

/** Other links need no visitor to be read: the token of a person's chat is not kept, so only its proof opens it. */
export async function findChatVisitor(host: InstanceHost, request: LinkRequest): Promise<LinkVisitor | undefined> {
  return isTokenProof(request.path.token) ? findVisitor(host, request) : undefined
}

/** May see the tool calls of a folder's turns: a person, or the operator with a proof. */
export interface CallReader {
  readonly folder: string
  readonly visitor?: LinkVisitor | undefined
}

/** See docs/decisions.md#what-readers-see-of-tool-calls. */
export async function findCallReader(
  host: InstanceHost,
  request: LinkRequest,
  { person, target_folder: folder }: LinkOwnership,
): Promise<CallReader | undefined> {
  if (folder === undefined) return undefined
  if (person === undefined && isTokenProof(request.path.token)) return { folder }
  if (request.incoming.headers.cookie === undefined) return undefined
  const reader = { folder, visitor: await findVisitor(host, request) }
  return (await mayStillReadCalls(host, reader)) ? reader : undefined
}

/** For open streams, too: whether the person is signed in and may see the log of a turn in the dashboard. */
export async function mayStillReadCalls(host: InstanceHost, { folder, visitor }: CallReader): Promise<boolean> {
  const { caller } = visitor ?? {}
  const session = caller?.session
  if (session === undefined || caller === undefined) return false
  return host.engine.read(async (tx) => {
    if (!(await isSessionActive(tx, session, host.clock.now()))) return false
    const tool = turnsResource.verbs.log.toolName
    return canOperate({ caller, tool, params: {}, policy: () => host.policies.read(tx) }, folder)
  })
}

export interface LinkOwnership {
  readonly person?: string | undefined
  readonly target_folder?: string | undefined
}

export function chatOwnerOf({ person, target_folder }: LinkOwnership): PersonChatOwner | undefined {
  return person === undefined ? undefined : { sub: person, folder: target_folder ?? '' }
}

/** Passes at links without an owner. */
export async function mustBeOwner(
  host: InstanceHost,
  tx: Tx,
  owner: PersonChatOwner | undefined,
  visitor: LinkVisitor | undefined,
): Promise<void> {
  if (!owner) return
  if (!visitor) throw SIGN_IN_NEEDED
  if (!(await isOwner(host, tx, owner, visitor.caller))) throw NO_LINK
}

async function isOwner(
  { policies }: InstanceHost,
  tx: Tx,
  { sub, folder }: PersonChatOwner,
  caller: Person,
): Promise<boolean> {
  const subject = { principal: caller.sub, claims: claimsOf(caller) }
  return (
    caller.sub === sub && checkAccess(await policies.read(tx), subject, { action: 'interact', scope: folder }).allow
  )
}

/** The page of the dashboard that the chat page links to. A bearer opens none. */
export async function dashboardPath(
  { policies }: InstanceHost,
  tx: Tx,
  { caller }: LinkVisitor,
  folder: string,
): Promise<string | undefined> {
  if (caller.session === undefined) return undefined
  const subject = { principal: caller.sub, claims: claimsOf(caller) }
  const isAdmin = checkAccess(await policies.read(tx), subject, { action: 'admin', scope: folder }).allow
  // Others have at least their account there.
  return isAdmin ? `/dash/folders/${folder}` : '/dash/'
}

/** For open streams: whether the session or bearer is still valid, and the person still has the right. */
export async function isStillOwner(host: InstanceHost, owner: PersonChatOwner, visitor: LinkVisitor): Promise<boolean> {
  const { caller, authorization } = visitor
  const { session } = caller
  if (session === undefined && !(await authenticate(host, { authorization })).caller) return false
  return host.engine.read(async (tx) => {
    if (session !== undefined && !(await isSessionActive(tx, session, host.clock.now()))) return false
    return isOwner(host, tx, owner, caller)
  })
}
