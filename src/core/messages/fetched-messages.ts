// What was fetched from a platform's history: messages with the platform's own time that nobody asked an agent anything
// with. They stand beside the chat's events, are found like all others, and never become a turn.
import { z } from 'zod'
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { senderFault } from '../access/namespaces.ts'
import { addMessagesToChats } from '../chats/chat-events.ts'
import { type PlatformMessage, platformOf } from '../delivery/channel.ts'
import { INSTANCE_SENDER, outbox } from '../delivery/outbox.ts'
import type { WriteContext } from '../turns/rounds.ts'
import { ChatName, line, Timestamp } from '../values.ts'
import { envelopes } from './envelopes.ts'
import { inbox } from './inbox.ts'
import { lockMessageOrder, messages, Topic } from './messages.ts'

export const fetched = new Table({
  name: 'fetched',
  row: z.object({ message_seq: z.int(), jid: ChatName, created_at: Timestamp }),
  key: 'message_seq',
  storage: [
    'create table fetched (message_seq bigint primary key, jid text not null, created_at text not null)',
    'create index fetched_of_chat on fetched (jid, created_at, message_seq)',
  ],
})

export interface FetchedBatch {
  readonly jid: string
  /** Whose chat it is. */
  readonly folder: string | undefined
  readonly source: string
  readonly messages: readonly PlatformMessage[]
}

/** A platform may say anything; what is no message of ours is left out. */
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

/** Keeps those that are not known yet, by the platform's id; how many that were. */
export async function storeFetchedMessages(
  tx: Tx,
  speaking: WriteContext,
  { jid, folder, source, ...rest }: FetchedBatch,
): Promise<number> {
  await lockMessageOrder(tx, speaking.dialect)
  // What came before stands in the chat first: behind it there is nothing left to file but what is kept here.
  for (let isMore = true; isMore; ) ({ isMore } = await addMessagesToChats(tx))
  let [kept, last] = [0, 0]
  for (const each of rest.messages) {
    const said = FetchedMessage.safeParse(each)
    if (!said.success || (!said.data.isFromMe && senderFault(said.data.sender, platformOf(jid)))) continue
    if (await envelopes.find(tx, { jid, platform_id: said.data.id })) continue
    last = await keep(tx, speaking, { jid, folder, source }, said.data)
    kept++
  }
  if (kept > 0) await execute(tx, 'update filing set last_seq = $1 where id = 1 and last_seq < $1', [last])
  return kept
}

async function keep(
  tx: Tx,
  { clock, random }: WriteContext,
  { jid, folder, source }: Omit<FetchedBatch, 'messages'>,
  said: z.output<typeof FetchedMessage>,
): Promise<number> {
  const { isFromMe = false, topic } = said
  const id = uuidv7(clock, random)
  const sent_at = timestamp(Date.parse(said.timestamp))
  const updated_at = timestamp(clock.now())
  const { seq } = await messages.insertReturning(tx, {
    id,
    jid,
    target_folder: folder,
    direction: isFromMe ? 'out' : 'in',
    kind: 'message',
    sender: isFromMe ? (folder ?? INSTANCE_SENDER) : said.sender,
    topic,
    content: Buffer.from(said.content),
    created_at: sent_at,
  })
  await fetched.insert(tx, { message_seq: seq, jid, created_at: sent_at })
  await envelopes.insert(tx, {
    message_seq: seq,
    jid,
    platform_id: said.id,
    verb: 'message',
    source,
    sender_name: said.senderName,
    reply_to_id: said.replyTo,
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
      platform_id: said.id,
      created_at: sent_at,
      updated_at,
    })
    return seq
  }
  // Nobody's: an agent that observes the chat is not shown now what was said long ago.
  await inbox.insert(tx, {
    message_seq: seq,
    id,
    jid,
    topic: '',
    chat_topic: topic ?? '',
    sender: said.sender,
    verb: 'message',
    state: 'observed',
    reason: 'it is history that was fetched from the platform',
    updated_at,
  })
  return seq
}
