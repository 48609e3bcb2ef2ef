// Reach of a message, decided once when it is routed: by its link and by the person who sent it.
import { claimsOf } from '../access/caller.ts'
import { checkAccess, type Policy } from '../access/policy.ts'
import { defaultReach, largerReach, type Reach } from '../access/reach.ts'
import { isLinkChat } from '../delivery/channel.ts'
import type { Envelope } from './envelopes.ts'
import type { Message } from './messages.ts'

export interface MessageOrigin {
  readonly message: Pick<Message, 'jid' | 'sender' | 'reach'>
  readonly envelope?: Envelope | undefined
}

/** The reach of a message to this folder. The policy is read only for people who have signed in. */
export async function reachOfMessage(
  origin: MessageOrigin,
  { folder, verb }: { readonly folder?: string | undefined; readonly verb: string },
  policy: () => Promise<Policy>,
): Promise<Reach> {
  // Routing assigns this verb only to operators.
  if (verb === 'root') return 'all'
  const { jid, sender, reach = defaultReach(jid) } = origin.message
  if (reach === 'all' || !isFromPerson(origin)) return reach
  return largerReach(reach, reachOfPerson(await policy(), sender, folder))
}

/** Whether its reach is `chat`; needs no policy. */
export function isVisitorMessage(origin: MessageOrigin): boolean {
  const { jid, reach = defaultReach(jid) } = origin.message
  return reach === 'chat' && !isFromPerson(origin)
}

/** Whether a signed-in person sent it through a link. Messages with an envelope come from a tool or a schedule instead. */
function isFromPerson({ message: { jid, sender }, envelope }: MessageOrigin): boolean {
  return envelope === undefined && isLinkChat(jid) && !jid.startsWith('hook:') && !sender.startsWith('anon:')
}

/** A signed-in person has reach `all` in folders that they administer. */
export function reachOfPerson(policy: Policy, sub: string, folder: string | undefined): Reach {
  if (folder === undefined) return 'work'
  const person = { principal: sub, claims: claimsOf({ kind: 'person', sub }) }
  return checkAccess(policy, person, { action: 'admin', scope: folder }).allow ? 'all' : 'work'
}
