// The rows of a prompt: messages that were asked and messages that were overheard, with all that is known of them.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { chats } from '../chats/chats.ts'
import { platformOf } from '../delivery/channel.ts'
import { findOutbound } from '../delivery/outbox.ts'
import type { Envelope } from '../messages/envelopes.ts'
import { findInbound } from '../messages/inbox.ts'
import { decodeContent, type Message, messages } from '../messages/messages.ts'
import { mayUseDirectives, stripDirective } from '../routing/message-directive.ts'
import type { ClaimedMessage, ClaimedTurn } from '../turns/turn-claim.ts'
import type { ObservedMessage } from './observed-messages.ts'
import type { PromptRow } from './prompt.ts'

export async function claimedMessageRow(
  tx: Tx,
  assistantName: string | undefined,
  { turn }: ClaimedTurn,
  { row, message, envelope }: ClaimedMessage,
): Promise<PromptRow> {
  const { folder, topic } = turn
  const { jid, sender } = message
  const body = mayUseDirectives({ jid, sender, envelope })
    ? withBody(message.content, (text) => stripDirective(text, { folder, topic, assistantName }))
    : message.content
  const known = await commonRow(tx, message, envelope)
  return { ...known, content: body, thread: row.chat_topic, hasFailed: turn.attempts > 1 }
}

/** Cut off in front of the bytes, which may be something else than text. */
function withBody(content: Uint8Array, bodyFrom: (text: string) => string): Uint8Array {
  const text = decodeContent(content)
  const prefix = text.slice(0, text.lastIndexOf(bodyFrom(text)))
  const isText = !prefix.includes('\ufffd')
  return isText ? content.subarray(Buffer.byteLength(prefix)) : content
}

export async function observedRow(tx: Tx, { row, message, envelope, text }: ObservedMessage): Promise<PromptRow> {
  const isCut = text !== decodeContent(message.content)
  const known = await commonRow(tx, message, envelope)
  return {
    ...known,
    content: isCut ? text : message.content,
    thread: row.chat_topic,
    observedBy: row.folder ?? row.jid,
  }
}

async function commonRow(
  tx: Tx,
  message: Message,
  envelope: Envelope | undefined,
): Promise<Omit<PromptRow, 'content' | 'thread'>> {
  const { seq, id, jid, sender, created_at, event } = message
  const chatName = envelope?.chat_name ?? (jid.includes(':') ? (await chats.find(tx, { jid }))?.name : undefined)
  return {
    seq,
    id,
    sender,
    senderName: envelope?.sender_name,
    time: Date.parse(created_at),
    jid,
    chatName,
    platform: platformOf(jid),
    platformId: envelope?.platform_id,
    verb: envelope?.verb ?? 'message',
    event,
    forwardedFrom: envelope?.forwarded_from,
    attachments: attachmentsOf(envelope?.attachments),
    ...(envelope?.reply_to_id === undefined ? {} : { replyTo: await replyOf(tx, jid, envelope, envelope.reply_to_id) }),
  }
}

/** So many characters of what is answered are enough to know it again. */
const EXCERPT_MAX = 1000

/** What is answered: as the platform says, else as it stands in the store. */
async function replyOf(
  tx: Tx,
  jid: string,
  { reply_to_sender, reply_to_text }: Envelope,
  id: string,
): Promise<NonNullable<PromptRow['replyTo']>> {
  if (reply_to_sender !== undefined && reply_to_text !== undefined)
    return { id, sender: reply_to_sender, text: excerpt(reply_to_text) }
  const known = (await findOutbound(tx, id, jid)) ?? (await findInbound(tx, id, jid))
  const message = known?.jid === jid ? await messages.find(tx, { seq: known.message_seq }) : undefined
  const text = reply_to_text ?? (message && decodeContent(message.content))
  return { id, sender: reply_to_sender ?? message?.sender, text: text === undefined ? undefined : excerpt(text) }
}

function excerpt(text: string): string {
  const characters = [...text.slice(0, 2 * EXCERPT_MAX + 2)]
  return characters.length <= EXCERPT_MAX ? text : `${characters.slice(0, EXCERPT_MAX).join('')}…`
}

const Attachments = z.array(
  z.object({
    path: z.string().optional(),
    url: z.string().optional(),
    mime: z.string().optional(),
    filename: z.string().optional(),
    transcript: z.string().optional(),
  }),
)

function attachmentsOf(json: string | undefined): PromptRow['attachments'] {
  if (json === undefined) return undefined
  try {
    return Attachments.parse(JSON.parse(json))
  } catch {
    // A platform said something else: the message is worth more than its list of files.
    return undefined
  }
}
