// Resolves message ids given by agents: ids of svc or of a platform.
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { findOutbound, type OutboxRow } from '../delivery/outbox.ts'
import { line } from '../values.ts'
import { envelopes } from './envelopes.ts'
import { findInbound } from './inbox.ts'
import { isDeleted } from './message-changes.ts'

export const MessageId = line(1100).describe('Id of a message, given by svc or by its platform')

interface LocatedMessage {
  readonly message_seq: number
  readonly id: string
  readonly jid: string
  /** Undefined while it is not sent, and if the platform returned none. */
  readonly platform_id: string | undefined
  /** Undefined for received messages. */
  readonly outboxRow: OutboxRow | undefined
}

/** Finds a message by its own id in any chat, or by its platform id in this chat. */
export async function findMessage(tx: Tx, id: string, jid?: string): Promise<LocatedMessage | undefined> {
  const sent = await findOutbound(tx, id, jid)
  if (sent) return { ...sent, platform_id: sent.platform_id, outboxRow: sent }
  const received = await findInbound(tx, id, jid)
  if (!received) return undefined
  const { message_seq } = received
  const { platform_id } = (await envelopes.find(tx, { message_seq })) ?? {}
  return { message_seq, id: received.id, jid: received.jid, platform_id, outboxRow: undefined }
}

/** Finds a message of this chat; undefined if it is unknown. Refuses deleted messages and those of another chat. */
export async function findMessageInChat(tx: Tx, jid: string, id: string): Promise<LocatedMessage | undefined> {
  const found = await findMessage(tx, id, jid)
  if (found && (found.jid !== jid || (await isDeleted(tx, found.message_seq)))) return refuseMissing(id, jid)
  return found
}

export function refuseMissing(id: string, jid: string): never {
  return refuse('not_found', `there is no message ${id} in ${jid}`)
}

/** The platform id of a message. An unknown id is returned unchanged: the platform may know it. */
export async function resolvePlatformId(tx: Tx, jid: string, id: string): Promise<string> {
  const found = await findMessageInChat(tx, jid, id)
  return found ? requirePlatformId(found) : id
}

export function requirePlatformId({ id, platform_id, outboxRow }: LocatedMessage): string {
  if (platform_id !== undefined) return platform_id
  if (outboxRow && ['pending', 'sending'].includes(outboxRow.state))
    refuse('conflict', `the message ${id} has not been sent yet`)
  if (outboxRow && outboxRow.state !== 'sent')
    refuse('conflict', `the message ${id} was not sent: ${outboxRow.error ?? outboxRow.state}`)
  return refuse('unprocessable', `the platform returned no id for the message ${id}`)
}
