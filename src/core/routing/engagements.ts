// Engagements: after a folder has written in a chat and topic, the next messages there go to that folder for a while, even
// without a route. Also remembers the message that a reply answers. Used by chat-owner.ts, step 4 of routing.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { isLinkChat } from '../delivery/channel.ts'
import { ChatName, Folder, Timestamp } from '../values.ts'

export const engagements = new Table({
  name: 'engagements',
  row: z.object({
    jid: ChatName,
    topic: z.string().describe('Empty for the main topic'),
    last_reply_id: z.string().optional(),
    engaged_folder: Folder.optional(),
    engaged_until: Timestamp.optional(),
  }),
  key: ['jid', 'topic'],
  storage: [
    `create table engagements (
       jid text not null, topic text not null, last_reply_id text, engaged_folder text, engaged_until text,
       primary key (jid, topic))`,
    'create index engagements_of_folder on engagements (engaged_folder) where engaged_folder is not null',
  ],
})

/** The engaged folder of this topic, else of the main topic. */
export async function findLiveEngagement(tx: Tx, jid: string, topic: string, now: number): Promise<string | undefined> {
  for (const each of new Set([topic, ''])) {
    const row = await engagements.find(tx, { jid, topic: each })
    if (row?.engaged_folder !== undefined && row.engaged_until !== undefined && row.engaged_until > timestamp(now))
      return row.engaged_folder
  }
  return undefined
}

export interface Engagement {
  readonly jid: string
  readonly topic: string
  readonly folder: string
  readonly until: number
}

export async function engage(tx: Tx, { jid, topic, folder, until }: Engagement): Promise<void> {
  const engaged = { engaged_folder: folder, engaged_until: timestamp(until) }
  const changed = await engagements.update(tx, { jid, topic }, engaged)
  if (changed === 0) await engagements.insert(tx, { jid, topic, ...engaged })
}

export async function disengage(tx: Tx, jid: string, topic: string): Promise<void> {
  await engagements.update(tx, { jid, topic }, { engaged_folder: undefined, engaged_until: undefined })
}

/** The message that a reply without `replyToId` answers. In link chats it is the newest message and is not stored here. */
export async function findLastReplyId(tx: Tx, jid: string, topic: string): Promise<string | undefined> {
  if (isLinkChat(jid)) return newestMessageId(tx, jid, topic)
  return (await engagements.find(tx, { jid, topic }))?.last_reply_id
}

async function newestMessageId(tx: Tx, jid: string, topic: string): Promise<string | undefined> {
  const inTopic = topic === '' ? 'e.topic is null' : 'e.topic = $2'
  const [newest] = await query(
    tx,
    { id: text },
    `select m.id from chat_events e join messages m on m.seq = e.message_seq
     where e.jid = $1 and e.kind = 'message' and ${inTopic} order by e.seq desc limit 1`,
    topic === '' ? [jid] : [jid, topic],
  )
  return newest?.id
}

export async function setLastReply(tx: Tx, jid: string, topic: string, last_reply_id: string): Promise<void> {
  if (isLinkChat(jid)) return
  const changed = await engagements.update(tx, { jid, topic }, { last_reply_id })
  if (changed === 0) await engagements.insert(tx, { jid, topic, last_reply_id })
}
