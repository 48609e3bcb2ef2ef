// Edits and deletions of messages on their platform, and removed reactions, in the transaction that records them. None starts
// a turn: a notice tells the conversation that has seen the message. See docs/decisions.md#edits-and-deletions-on-platforms.
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { addMessagesToChats } from '../chats/chat-events.ts'
import { type OutboxRow, outbox } from '../delivery/outbox.ts'
import { subtractMovedBytes } from '../links/storage-use.ts'
import { conversationName } from '../routing/routing-decision.ts'
import { addWaiting } from '../turns/conversations.ts'
import type { WriteContext } from '../turns/rounds.ts'
import { endMessages, turns } from '../turns/turns.ts'
import { type Envelope, envelopes } from './envelopes.ts'
import { inbox } from './inbox.ts'
import { deleteMessage, editMessage, isDeleted } from './message-changes.ts'
import { decodeContent, lockMessageOrder, type Message, messages } from './messages.ts'

export interface PlatformChange extends Pick<Envelope, 'event_id' | 'source' | 'sender_name' | 'attachments'> {
  /** `unlike`: a reaction was removed. */
  readonly verb: 'edit' | 'delete' | 'unlike'
  readonly jid: string
  /** Platform id of the message. */
  readonly target_id: string
  /** Who made the change. */
  readonly sender: string
  /** The new text, or the removed reaction. */
  readonly content?: string | undefined
  /** According to the platform. */
  readonly changed_at?: string | undefined
  /** Made by the agent's own account. */
  readonly is_from_me?: boolean | undefined
}

/** The id is that of the message. `ignored`: why nothing was changed. */
export type RecordedChange =
  | { readonly id: string; readonly isNew: boolean; readonly keys: readonly string[] }
  | { readonly ignored: string }

/** Reason of the final state of a message that was deleted before a turn had it. */
export const DELETED_REASON = 'it was deleted in its chat before a turn started'

export async function changeFromPlatform(
  tx: Tx,
  context: WriteContext,
  change: PlatformChange,
): Promise<RecordedChange> {
  await lockMessageOrder(tx, context.dialect)
  const { jid, target_id, event_id, verb } = change
  if (change.is_from_me) return { ignored: 'the agent did it' }
  const target = await findChangeTarget(tx, jid, target_id)
  if (!target) return { ignored: `there is no message ${target_id} in ${jid}` }
  const { id } = target.message
  const isRepeated = event_id !== undefined && (await envelopes.find(tx, { jid, event_id })) !== undefined
  const isNew = !isRepeated && (await isChange(tx, target, change))
  if (!isNew) return { id, isNew, keys: [] }
  if (verb !== 'unlike') await changeMessage(tx, context, target, change)
  const ended = verb === 'delete' && (await endUnanswered(tx, context, target.message))
  if (ended) return { id, isNew, keys: [jid, ...ended] }
  const audience = await findAudience(tx, target, verb)
  if (audience) await recordNotice(tx, context, { change, target, audience })
  return { id, isNew, keys: [jid] }
}

export interface ChangeTarget {
  readonly message: Message
  readonly envelope: Envelope | undefined
  /** Undefined for received messages. */
  readonly sent: OutboxRow | undefined
}

/** Finds a message of this chat that was received from its platform, or sent there. Svc's own ids do not count. */
export async function findChangeTarget(tx: Tx, jid: string, platform_id: string): Promise<ChangeTarget | undefined> {
  const sent = await outbox.find(tx, { jid, platform_id })
  const envelope = await envelopes.find(tx, sent ? { message_seq: sent.message_seq } : { jid, platform_id })
  const seq = sent?.message_seq ?? envelope?.message_seq
  const message = seq === undefined ? undefined : await messages.find(tx, { seq, jid })
  return message && { message, envelope, sent }
}

/** False for a repeated event, and for an edit that an event after it has overtaken. */
async function isChange(tx: Tx, { message, envelope }: ChangeTarget, change: PlatformChange): Promise<boolean> {
  if (change.verb === 'unlike') return true
  if (envelope?.deleted_at !== undefined || (await isDeleted(tx, message.seq))) return false
  if (change.verb === 'delete') return true
  const { changed_at, attachments } = change
  const { edited_at } = envelope ?? {}
  if (changed_at !== undefined && edited_at !== undefined && changed_at < edited_at) return false
  const hasSameFiles = attachments === undefined || attachments === envelope?.attachments
  // The stored attachments change when their contents are moved to files.
  const isSameEdit = hasSameFiles || (changed_at !== undefined && changed_at === edited_at)
  return !isSameEdit || decodeContent(message.content) !== change.content
}

async function changeMessage(
  tx: Tx,
  { clock }: WriteContext,
  { message, envelope }: ChangeTarget,
  { verb, content = '', attachments, changed_at }: PlatformChange,
): Promise<void> {
  const { seq: message_seq } = message
  const now = timestamp(clock.now())
  // A time in the future would make all later edits look outdated.
  const at = changed_at === undefined || changed_at > now ? now : changed_at
  const patch: Partial<Envelope> | { attachments: undefined } =
    verb === 'edit'
      ? { edited_at: at, ...(attachments === undefined ? {} : { attachments }) }
      : { deleted_at: at, attachments: undefined }
  await (verb === 'edit' ? editMessage(tx, message_seq, content, now) : deleteMessage(tx, message_seq, now))
  await envelopes.update(tx, { message_seq }, patch)
  if (message.direction === 'out') return
  const kept = 'attachments' in patch ? patch.attachments : envelope?.attachments
  const before = message.content.byteLength + bytesOf(message.link_context) + bytesOf(envelope?.attachments)
  const after = bytesOf(content) + (verb === 'edit' ? bytesOf(message.link_context) : 0) + bytesOf(kept)
  await subtractMovedBytes(tx, message_seq, before - after)
}

function bytesOf(text = ''): number {
  return Buffer.byteLength(text)
}

/** Ends a message that waits. Returns the keys to signal; undefined if it does not wait, or is not routed yet. */
async function endUnanswered(tx: Tx, context: WriteContext, { seq }: Message): Promise<string[] | undefined> {
  const row = await inbox.find(tx, { message_seq: seq })
  if (row?.state !== 'waiting' && row?.state !== 'onboarding') return undefined
  const { id, state, folder, topic } = row
  const now = timestamp(context.clock.now())
  if (state === 'waiting' && folder !== undefined) await addWaiting(tx, { folder, topic, count: -1, now })
  return endMessages(tx, context, [id], { outcome: 'silent', reason: DELETED_REASON })
}

/** The conversation whose agent has seen a message. */
interface ChangeAudience {
  readonly folder: string
  readonly topic: string
  readonly chat_topic: string
}

/** Undefined if no agent has seen the message, or a turn will be shown it as it is now. */
async function findAudience(
  tx: Tx,
  { message, sent }: ChangeTarget,
  verb: PlatformChange['verb'],
): Promise<ChangeAudience | undefined> {
  if (!sent) {
    const { folder, topic, chat_topic, state } = (await inbox.find(tx, { message_seq: message.seq })) ?? {}
    if (folder === undefined || topic === undefined || chat_topic === undefined) return undefined
    return state === 'waiting' && verb !== 'unlike' ? undefined : { folder, topic, chat_topic }
  }
  const { turn_id, topic: chat_topic } = sent
  const turn = turn_id === undefined ? undefined : await turns.find(tx, { id: turn_id })
  // The session of an isolated turn has ended.
  if (turn && !turn.is_isolated) return { folder: turn.folder, topic: turn.topic, chat_topic }
  return sent.folder === undefined
    ? undefined
    : { folder: sent.folder, topic: conversationName(chat_topic), chat_topic }
}

/** Characters of the message that a notice about a reaction shows. */
const EXCERPT = 1000

/**
 * Adds a row that the next turn of the conversation is shown as observed. It is routed at once, so it is never a command, and its
 * kind keeps it out of histories and searches. It has no copy of the text, which may be changed or deleted later.
 */
async function recordNotice(
  tx: Tx,
  { clock, random }: WriteContext,
  notice: { readonly change: PlatformChange; readonly target: ChangeTarget; readonly audience: ChangeAudience },
): Promise<void> {
  const { change, target, audience } = notice
  const { jid, sender, verb, content = '', source, sender_name, event_id, target_id, changed_at } = change
  const [id, now] = [uuidv7(clock, random), timestamp(clock.now())]
  const isReaction = verb === 'unlike'
  const { seq } = await messages.insertReturning(tx, {
    ...{ id, jid, sender, direction: 'in', kind: 'status', reach: 'all', created_at: now },
    content: Buffer.from(isReaction ? content : ''),
  })
  const text = decodeContent(target.message.content)
  await envelopes.insert(tx, {
    ...{ message_seq: seq, jid, verb, source, sender_name, event_id, depth: 0, sent_at: changed_at },
    reply_to_id: target_id,
    reply_to_sender: target.message.sender,
    reply_to_text: isReaction ? [...text].slice(0, EXCERPT).join('').replaceAll('\u0000', '') : '',
  })
  const reason = `message ${target.message.id} ${CHANGES[verb]}`
  await inbox.insert(tx, {
    ...{ message_seq: seq, id, jid, sender, verb, state: 'observed', reason, updated_at: now, reach: 'all' },
    ...audience,
  })
  await addMessagesToChats(tx)
}

const CHANGES: Readonly<Record<PlatformChange['verb'], string>> = {
  edit: 'was edited',
  delete: 'was deleted',
  unlike: 'lost a reaction',
}

/** Whether a received message only tells of a change of another one. */
export function isChangeNotice({ direction, kind }: Pick<Message, 'direction' | 'kind'>): boolean {
  return direction === 'in' && kind === 'status'
}
