// Which messages of a conversation are handled together: consecutive messages of one sender in one
// topic of a chat. Messages of another reach, and those for the root, are turns of their own.
import type { Envelope } from '../messages/envelopes.ts'
import type { InboxRow } from '../messages/inbox.ts'

/** A message that waits, and how large it is. */
export interface WaitingMessage {
  readonly row: InboxRow
  readonly envelope: Envelope | undefined
  readonly bytes: number
}

/** So much content is enough for one turn. */
const BYTES_MAX = 256 * 1024
const MESSAGES_MAX = 100

/** How many of these, from the first on, are one turn. */
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

/** What a schedule or another agent asks has an answer of its own. */
function isAlone({ envelope }: WaitingMessage): boolean {
  return envelope?.task_id !== undefined || envelope?.return_jid !== undefined || envelope?.from_turn !== undefined
}

function canBatch(first: WaitingMessage, next: WaitingMessage): boolean {
  if (isAlone(first) || isAlone(next)) return false
  if (first.row.jid !== next.row.jid || first.row.chat_topic !== next.row.chat_topic) return false
  return first.row.sender === next.row.sender && first.row.verb === next.row.verb && first.row.reach === next.row.reach
}
