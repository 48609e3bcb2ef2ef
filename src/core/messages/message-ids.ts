// Which message an agent means: it may give our own id or the one that the platform gave.
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { findOutbound, type OutboxRow } from '../delivery/outbox.ts'
import { line } from '../values.ts'
import { findEnvelope } from './envelopes.ts'
import { findInbound } from './inbox.ts'
import { isDeleted } from './message-changes.ts'

export const MessageId = line(1100).describe('Id of a message: ours, or the one of its platform')

export interface LocatedMessage {
  readonly message_seq: number
  readonly id: string
  readonly jid: string
  /** Absent while it is not sent, and for ever where the platform tells none. */
  readonly platform_id: string | undefined
  /** Of what was said here; absent for what arrived. */
  readonly outboxRow: OutboxRow | undefined
}

/** The message of this own id, wherever it is, or of this platform's id in the chat. */
export async function findMessage(tx: Tx, id: string, jid?: string): Promise<LocatedMessage | undefined> {
  const said = await findOutbound(tx, id, jid)
  if (said) return { ...said, platform_id: said.platform_id, outboxRow: said }
  const arrived = await findInbound(tx, id, jid)
  if (!arrived) return undefined
  const platform_id = (await findEnvelope(tx, arrived.message_seq))?.platform_id
  const { message_seq, id: own } = arrived
  return { message_seq, id: own, jid: arrived.jid, platform_id, outboxRow: undefined }
}

/** The message of the chat, or nothing where it is none that we know. One of another chat, or a deleted one, is refused. */
export async function findMessageInChat(tx: Tx, jid: string, id: string): Promise<LocatedMessage | undefined> {
  const found = await findMessage(tx, id, jid)
  if (found && (found.jid !== jid || (await isDeleted(tx, found.message_seq)))) return refuseMissing(id, jid)
  return found
}

export function refuseMissing(id: string, jid: string): never {
  return refuse('not_found', `there is no message ${id} in ${jid}`)
}

/** What the platform calls it. What we do not know may be known there: it is passed on as it is. */
export async function platformIdIn(tx: Tx, jid: string, id: string): Promise<string> {
  const found = await findMessageInChat(tx, jid, id)
  return found ? requirePlatformId(found) : id
}

/** The platform's id of a message that can be pointed at there. */
export function requirePlatformId({ id, platform_id, outboxRow }: LocatedMessage): string {
  if (platform_id !== undefined) return platform_id
  if (outboxRow && ['pending', 'sending'].includes(outboxRow.state))
    refuse('conflict', `the message ${id} is not sent yet`)
  if (outboxRow && outboxRow.state !== 'sent')
    refuse('conflict', `the message ${id} was not sent: ${outboxRow.error ?? outboxRow.state}`)
  return refuse('unprocessable', `the platform gave no id for the message ${id}`)
}
