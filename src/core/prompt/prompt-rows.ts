// Creates the message rows of a prompt, for messages of the turn and observed messages.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { chats } from '../chats/chats.ts'
import { platformOf } from '../delivery/channel.ts'
import { findOutbound } from '../delivery/outbox.ts'
import { type Envelope, envelopes } from '../messages/envelopes.ts'
import { findInbound } from '../messages/inbox.ts'
import { decodeContent, type Message, messages } from '../messages/messages.ts'
import { mayUseDirectives, stripDirective } from '../routing/message-directive.ts'
import type { ClaimedMessage, ClaimedTurn } from '../turns/turn-claim.ts'
import type { ObservedMessage } from './observed-messages.ts'
import type { PromptRow, RepliedMessage } from './prompt.ts'

export async function createClaimedRow(
  tx: Tx,
  assistantName: string | undefined,
  { turn }: ClaimedTurn,
  { row, message, envelope }: ClaimedMessage,
): Promise<PromptRow> {
  const { folder, topic } = turn
  const { jid, sender } = message
  const body = mayUseDirectives({ jid, sender, envelope })
    ? cutPrefix(message.content, (text) => stripDirective(text, { folder, topic, assistantName }))
    : message.content
  const common = await createCommonRow(tx, message, envelope)
  const clientContext = message.client_context
  return { ...common, content: body, thread: row.chat_topic, hasFailed: turn.attempts > 1, clientContext }
}

/** Removes the start of the content without decoding the rest, which may not be valid UTF-8. */
function cutPrefix(content: Uint8Array, findBody: (text: string) => string): Uint8Array {
  const text = decodeContent(content)
  const prefix = text.slice(0, text.lastIndexOf(findBody(text)))
  const isValid = !prefix.includes('\ufffd')
  return isValid ? content.subarray(Buffer.byteLength(prefix)) : content
}

/** A message before the fork of a branch. */
export async function createEarlierRow(tx: Tx, message: Message, text: string): Promise<PromptRow> {
  const common = await createCommonRow(tx, message, await envelopes.find(tx, { message_seq: message.seq }))
  return { ...common, content: text, thread: message.topic ?? '', observedBy: 'this conversation' }
}

export async function createObservedRow(tx: Tx, { row, message, envelope, text }: ObservedMessage): Promise<PromptRow> {
  const isCut = text !== decodeContent(message.content)
  const common = await createCommonRow(tx, message, envelope)
  const content = isCut ? text : message.content
  return { ...common, content, thread: row.chat_topic, observedBy: row.folder ?? row.jid }
}

async function createCommonRow(
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
    isDeleted: envelope?.deleted_at !== undefined,
    fromTurn: isQuestion(envelope) ? envelope?.from_turn : undefined,
    attachments: parseAttachments(envelope?.attachments),
    ...(envelope?.reply_to_id === undefined
      ? {}
      : { replyTo: await findRepliedMessage(tx, jid, envelope, envelope.reply_to_id) }),
  }
}

/** Whether another agent asks, for its own turn. */
export function isQuestion(envelope: Envelope | undefined): boolean {
  return envelope?.verb === 'delegate' || envelope?.verb === 'escalate'
}

const EXCERPT_MAX = 1000

/** The message that is replied to: from the platform, else from the store. */
async function findRepliedMessage(
  tx: Tx,
  jid: string,
  { reply_to_sender, reply_to_text }: Envelope,
  id: string,
): Promise<RepliedMessage> {
  if (reply_to_sender !== undefined && reply_to_text !== undefined)
    return { id, sender: reply_to_sender, text: cutExcerpt(reply_to_text) }
  const known = (await findOutbound(tx, id, jid)) ?? (await findInbound(tx, id, jid))
  const message = known?.jid === jid ? await messages.find(tx, { seq: known.message_seq }) : undefined
  const text = reply_to_text ?? (message && decodeContent(message.content))
  const sender = reply_to_sender ?? message?.sender
  return { id, seq: message?.seq, sender, text: text === undefined ? undefined : cutExcerpt(text) }
}

function cutExcerpt(text: string): string {
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

function parseAttachments(json: string | undefined): PromptRow['attachments'] {
  if (json === undefined) return undefined
  try {
    return Attachments.parse(JSON.parse(json))
  } catch {
    // An adapter sent a malformed list: show the message without it.
    return undefined
  }
}
