// Notices of edits, deletions and removed reactions among the observed messages: decides which conversations are told of a
// change, and reads the text as it is now.
import type { Tx } from '../../store/engine.ts'
import type { Envelope } from '../messages/envelopes.ts'
import { type InboxRow, inbox } from '../messages/inbox.ts'
import { isDeleted } from '../messages/message-changes.ts'
import { decodeContent, type Message } from '../messages/messages.ts'
import { findChangeTarget } from '../messages/platform-changes.ts'

/** Of one conversation and one turn; notices are read newest first. */
export interface NoticeReader {
  readonly folder: string
  readonly topic: string
  /** The conversation has seen observed messages up to this one. */
  readonly after: number
  /** Messages whose last change was read. */
  readonly told: Set<number>
}

interface ChangeNotice {
  readonly row: InboxRow
  readonly message: Message
  readonly envelope: Envelope | undefined
}

/** The text that the turn is shown; undefined if it is not told of the change. */
export async function readNoticeText(
  tx: Tx,
  { folder, topic, after, told }: NoticeReader,
  { row, message, envelope }: ChangeNotice,
): Promise<string | undefined> {
  const { jid, verb } = row
  const target = await findChangeTarget(tx, jid, envelope?.reply_to_id ?? '')
  if (!target) return undefined
  const { seq, content } = target.message
  const isObserved = (await inbox.find(tx, { message_seq: seq, state: 'observed' })) !== undefined
  // An observed message was shown to all conversations that observe; any other one only to its own.
  if (!isObserved && (row.folder !== folder || row.topic !== topic)) return undefined
  if (verb === 'unlike') return decodeContent(message.content)
  // Not shown yet: it is read as it is now.
  if ((isObserved && seq > after) || told.has(seq)) return undefined
  told.add(seq)
  if (verb === 'delete') return ''
  return (await isDeleted(tx, seq)) ? undefined : decodeContent(content)
}
