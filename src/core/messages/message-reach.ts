// What a message may ask for, decided once when it is routed: by the link that it came through, and by the person who sent it.

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

/** The reach of a message that goes to this folder. The policy is asked for only where a person has signed in. */
export async function reachOfMessage(
  sent: MessageOrigin,
  { folder, verb }: { readonly folder?: string | undefined; readonly verb: string },
  policy: () => Promise<Policy>,
): Promise<Reach> {
  // Routing gives this verb to operators alone.
  if (verb === 'root') return 'all'
  const { jid, sender, reach = defaultReach(jid) } = sent.message
  if (reach === 'all' || !isFromPerson(sent)) return reach
  return largerReach(reach, reachOfPerson(await policy(), sender, folder))
}

/** Whether its reach is `chat`, which is known without reading any rights. */
export function isVisitorMessage(sent: MessageOrigin): boolean {
  const { jid, reach = defaultReach(jid) } = sent.message
  return reach === 'chat' && !isFromPerson(sent)
}

/**
 * Whether the sender of a message through a link has proved who they are. One with an envelope was recorded by a tool or a
 * schedule, whatever it says of its sender.
 */
function isFromPerson({ message: { jid, sender }, envelope }: MessageOrigin): boolean {
  return envelope === undefined && isLinkChat(jid) && !jid.startsWith('hook:') && !sender.startsWith('anon:')
}

/** Of a person who has signed in: everything where they administer the folder. */
export function reachOfPerson(policy: Policy, sub: string, folder: string | undefined): Reach {
  if (folder === undefined) return 'work'
  const asker = { principal: sub, claims: claimsOf({ kind: 'person', sub }) }
  return checkAccess(policy, asker, { action: 'admin', scope: folder }).allow ? 'all' : 'work'
}
