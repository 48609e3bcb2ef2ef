// Messages fetched from a platform's history, with the platform's timestamps. They are not chat events and never start a
// turn, but search finds them.
import { z } from 'zod'
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { senderFault } from '../access/namespaces.ts'
import { addMessagesToChats } from '../chats/chat-events.ts'
import { type PlatformMessage, platformOf } from '../delivery/channel.ts'
import { personNamespaceOf } from '../delivery/channel-accounts.ts'
import { channelRegistrations } from '../delivery/channel-registrations.ts'
import { INSTANCE_SENDER, outbox } from '../delivery/outbox.ts'
import type { WriteContext } from '../turns/rounds.ts'
import { ChatName, line, Timestamp } from '../values.ts'
import { envelopes } from './envelopes.ts'
import { inbox } from './inbox.ts'
import { lockMessageOrder, messages, Topic } from './messages.ts'

export const fetchedMessages = new Table({
  name: 'fetched',
  row: z.object({ message_seq: z.int(), jid: ChatName, created_at: Timestamp }),
  key: 'message_seq',
  storage: [
    'create table fetched (message_seq bigint primary key, jid text not null, created_at text not null)',
    'create index fetched_of_chat on fetched (jid, created_at, message_seq)',
  ],
})

interface FetchedBatch {
  readonly jid: string
  /** Folder of the chat. */
  readonly folder: string | undefined
  readonly source: string
  readonly messages: readonly PlatformMessage[]
}

/** Platforms may return anything; invalid messages are skipped. */
const FetchedMessage = z.object({
  id: line(512),
  sender: line(256),
  senderName: line(256).optional(),
  content: z.string(),
  timestamp: Timestamp,
  topic: Topic.optional(),
  replyTo: line(512).optional(),
  isFromMe: z.boolean().optional(),
})

/** Stores messages whose platform id is new and returns their number. */
export async function storeFetchedMessages(tx: Tx, context: WriteContext, batch: FetchedBatch): Promise<number> {
  const { jid, source } = batch
  const platform = platformOf(jid)
  const adapter = await channelRegistrations.find(tx, { name: source })
  const namespace = adapter && (await personNamespaceOf(tx, adapter.secret_name, platform))
  await lockMessageOrder(tx, context.dialect)
  // Add all earlier messages to their chats first, so that `filing` can skip those that are stored here.
  for (let isMore = true; isMore; ) ({ isMore } = await addMessagesToChats(tx))
  let [count, last] = [0, 0]
  for (const each of batch.messages) {
    const { data: message } = FetchedMessage.safeParse(each)
    if (!message || (!message.isFromMe && senderFault(message.sender, platform, namespace))) continue
    if (await envelopes.find(tx, { jid, platform_id: message.id })) continue
    last = await storeMessage(tx, context, batch, message)
    count++
  }
  if (count > 0) await execute(tx, 'update filing set last_seq = $1 where id = 1 and last_seq < $1', [last])
  return count
}

async function storeMessage(
  tx: Tx,
  { clock, random }: WriteContext,
  { jid, folder, source }: FetchedBatch,
  message: z.output<typeof FetchedMessage>,
): Promise<number> {
  const { isFromMe = false, topic } = message
  const id = uuidv7(clock, random)
  const sent_at = timestamp(Date.parse(message.timestamp))
  const updated_at = timestamp(clock.now())
  const { seq } = await messages.insertReturning(tx, {
    id,
    jid,
    target_folder: folder,
    direction: isFromMe ? 'out' : 'in',
    kind: 'message',
    sender: isFromMe ? (folder ?? INSTANCE_SENDER) : message.sender,
    topic,
    content: Buffer.from(message.content),
    created_at: sent_at,
  })
  await fetchedMessages.insert(tx, { message_seq: seq, jid, created_at: sent_at })
  await envelopes.insert(tx, {
    message_seq: seq,
    jid,
    platform_id: message.id,
    verb: 'message',
    source,
    sender_name: message.senderName,
    reply_to_id: message.replyTo,
    depth: 0,
    sent_at,
  })
  if (isFromMe) {
    await outbox.append(tx, {
      message_seq: seq,
      id,
      jid,
      topic: topic ?? '',
      folder,
      action: 'send',
      payload: '{}',
      engages: false,
      state: 'sent',
      attempts: 0,
      next_at: 0,
      fence: 0,
      leased_until: 0,
      platform_id: message.id,
      created_at: sent_at,
      updated_at,
    })
    return seq
  }
  // Without a folder, so that agents that observe the chat are not shown old messages.
  await inbox.insert(tx, {
    message_seq: seq,
    id,
    jid,
    topic: '',
    chat_topic: topic ?? '',
    sender: message.sender,
    verb: 'message',
    state: 'observed',
    reason: 'it was fetched from the history of the platform',
    updated_at,
  })
  return seq
}
