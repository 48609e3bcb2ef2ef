// The earlier part of a branch, for its first turn: a branch has a session of its own, so the prompt shows the messages before
// the fork. See docs/decisions.md#topics-and-branches.
import type { Tx } from '../../store/engine.ts'
import { type ChatTopic, chatTopics } from '../chats/chat-topics.ts'
import { latestConversationEvents } from '../chats/topic-branches.ts'
import { decodeContent, type Message, messages } from '../messages/messages.ts'
import { rounds } from '../turns/rounds.ts'
import { codePoints } from '../values.ts'
import type { SystemEvent } from './prompt.ts'

interface EarlierMessage {
  readonly message: Message
  /** The content, possibly cut. */
  readonly text: string
}

interface BranchedPart {
  readonly event: SystemEvent
  /** Oldest first. */
  readonly rows: readonly EarlierMessage[]
}

export const EARLIER_MESSAGES_MAX = 50
export const EARLIER_CHARACTERS_MAX = 32 * 1024
/** Messages read at once; small, because each may be as large as a request body. */
const BATCH = 10
/** How many messages are searched for those of the folder. */
const SCANNED_MAX = 500

/** Undefined if the topic of the message is no branch. */
export async function readBranchedPart(tx: Tx, folder: string, message: Message): Promise<BranchedPart | undefined> {
  const { jid, topic } = message
  const branch = topic === undefined ? undefined : await chatTopics.find(tx, { jid, topic })
  if (branch?.parent === undefined) return undefined
  return { event: await branchEvent(tx, branch, message), rows: await readEarlier(tx, folder, branch) }
}

/** The newest messages before the fork that fit. */
async function readEarlier(tx: Tx, folder: string, { jid, parent, fork_seq }: ChatTopic): Promise<EarlierMessage[]> {
  const rows: EarlierMessage[] = []
  let [left, before] = [EARLIER_CHARACTERS_MAX, fork_seq]
  for (let scanned = 0; scanned < SCANNED_MAX; scanned += BATCH) {
    const events = await latestConversationEvents(tx, { jid, topic: parent, before, only: 'message', limit: BATCH })
    for (const { message } of events.toReversed()) {
      if (message?.target_folder !== folder) continue
      if (rows.length === EARLIER_MESSAGES_MAX || left <= 0) return rows.reverse()
      const text = cut(decodeContent(message.content), left)
      rows.push({ message, text })
      left -= codePoints(text)
    }
    if (events.length < BATCH) break
    before = events[0]?.seq
  }
  return rows.reverse()
}

function cut(text: string, max: number): string {
  const characters = [...text.slice(0, 2 * max + 2)]
  return characters.length <= max ? text : `${characters.slice(0, max - 1).join('')}…`
}

async function branchEvent(tx: Tx, { branch_of = '' }: ChatTopic, { content }: Message): Promise<SystemEvent> {
  const round = await rounds.find(tx, { id: branch_of })
  const original = round && (await messages.find(tx, { seq: round.message_seq }))
  const isSame = original !== undefined && Buffer.from(original.content).equals(content)
  const text = isSame
    ? 'The person wants another answer to this message. The earlier answer is not shown.'
    : 'The person edited an earlier message and sent it again. What followed the message is not shown.'
  return { event: 'branch', text }
}
