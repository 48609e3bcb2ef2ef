// Batches waiting messages into a turn: consecutive messages of one sender in one topic of a chat, with the same verb and
// reach.
import type { Envelope } from '../messages/envelopes.ts'
import type { InboxRow } from '../messages/inbox.ts'

export interface WaitingMessage {
  readonly row: InboxRow
  readonly envelope: Envelope | undefined
  readonly bytes: number
}

const BYTES_MAX = 256 * 1024
const MESSAGES_MAX = 100

/** The number of messages, from the first on, that form one turn. */
export function countBatch(waiting: readonly WaitingMessage[]): number {
  const [first] = waiting
  if (!first) return 0
  let [count, bytes] = [1, first.bytes]
  for (const next of waiting.slice(1)) {
    bytes += next.bytes
    if (count >= MESSAGES_MAX || bytes > BYTES_MAX || !canBatch(first, next)) break
    count++
  }
  return count
}

/** Messages of tasks and other agents get a reply of their own. */
function needsOwnTurn({ envelope }: WaitingMessage): boolean {
  return envelope?.task_id !== undefined || envelope?.return_jid !== undefined || envelope?.from_turn !== undefined
}

function canBatch(first: WaitingMessage, next: WaitingMessage): boolean {
  if (needsOwnTurn(first) || needsOwnTurn(next)) return false
  if (first.row.jid !== next.row.jid || first.row.chat_topic !== next.row.chat_topic) return false
  return first.row.sender === next.row.sender && first.row.verb === next.row.verb && first.row.reach === next.row.reach
}
