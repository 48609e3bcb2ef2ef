// Messages that no folder has: those that a route sends elsewhere, those that lead to a folder which does not exist, and
// those of chats that nobody has yet.
import { timestamp } from '../lib/clock.ts'
import type { Tx } from '../store/engine.ts'
import { rememberChat } from './chat-state.ts'
import type { Chatting } from './holder.ts'
import { type Message, textOf } from './messages.ts'
import { onboarding } from './onboarding.ts'
import { type Decision, isGroup, type Place, type RoutingWorld } from './routed.ts'
import type { Matched } from './routing.ts'
import type { Steering } from './steering.ts'
import { parentOf } from './tiers.ts'

/** No folder of this instance has it. */
export async function unheld(
  tx: Tx,
  world: RoutingWorld,
  chatting: Chatting,
  steering: Steering | undefined,
): Promise<Decision> {
  const { matched, place, row } = chatting
  const { jid } = row.message
  if (matched?.target.kind === 'daemon') return { ...place, kind: 'daemon', name: matched.target.name }
  if (matched?.target.kind === 'builtin') return builtIn(place, matched.target.name, row.message)
  if (steering?.kind === 'command' && steering.name === 'chatid')
    return { ...place, kind: 'end', outcome: 'answered', say: jid }
  return matched ? ghost(tx, world, place, matched, jid) : miss(tx, world, chatting)
}

function builtIn(place: Place, name: string, { content }: Message): Decision {
  if (name === 'echo' && content.byteLength > 0)
    return { ...place, kind: 'end', outcome: 'answered', say: textOf(content) }
  return { ...place, kind: 'end', outcome: 'silent', reason: `a route sends it to builtin:${name}` }
}

/** A route to a folder that nobody has made. */
async function ghost(
  tx: Tx,
  { instance }: RoutingWorld,
  place: Place,
  matched: Matched,
  jid: string,
): Promise<Decision> {
  const { name, fragment } = matched.target
  const parent = parentOf(name)
  const isOwn = matched.route.target.includes('{sender}') && parent !== undefined && (await isGroup(tx, parent))
  const reason = `route ${matched.route.id} leads to the folder ${name}, which does not exist`
  const command = `svc group ${instance} add ${jid} ${name}`
  const say = isOwn
    ? `You have no place of your own here yet. An operator makes it with: ${command}`
    : `This chat leads to the folder ${name}, which does not exist. An operator makes it with: ${command}`
  // Where the agent only listens, each message of the room would bring a notice.
  return { ...place, kind: 'end', outcome: 'failed', reason, ...(fragment === 'observe' ? {} : { say }) }
}

/** Nobody has this chat: it waits for somebody to take it, and is told so once. */
async function miss(tx: Tx, { instance }: RoutingWorld, { row, now, chat, place }: Chatting): Promise<Decision> {
  const { jid } = row.message
  const isRoom = row.envelope?.is_group ?? chat?.is_group ?? false
  if (isRoom && place.verb !== 'mention')
    return { ...place, kind: 'end', outcome: 'silent', reason: 'no route has this room, and it was not said to us' }
  const created = timestamp(now)
  await onboarding.insertIfMissing(tx, { jid, status: 'awaiting_message', created })
  const end = { ...place, kind: 'end', outcome: 'onboarding', reason: 'no route has this chat' } as const
  if (chat?.noticed_at !== undefined) return end
  await rememberChat(tx, jid, { noticed_at: created })
  return {
    ...end,
    say: `Nobody has this chat yet. An operator takes it in with: svc group ${instance} add ${jid} <folder>`,
  }
}
