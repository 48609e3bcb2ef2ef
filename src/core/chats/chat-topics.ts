// Topics of chats: their titles, their last activity, and from where a branch continues the conversation of another topic.
// Events of the main topic are not recorded here, so that webhooks cost nothing. See docs/decisions.md#topics-and-branches.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { BEFORE_FIRST_EVENT, contentStart, decodeContent, isTaskPromptSql } from '../messages/messages.ts'
import { Bytes, ChatName, Folder, line, Timestamp } from '../values.ts'

/** Characters of a title that is derived from the first message. */
const DERIVED_TITLE_MAX = 48
/** Enough for these characters in UTF-8, after some white space. */
const START_BYTES = 256

export const TopicTitle = line(128).refine((title) => title.trim() !== '', 'must not be empty')

export const ChatTopic = z.object({
  jid: ChatName,
  topic: z.string().describe('Empty for the main topic, which has a row only if it has branches'),
  root: z.string().describe('Topic that it branches from, over all levels; itself if it is no branch'),
  title: TopicTitle.optional().describe('Set by a person'),
  start: Bytes.optional().describe('First bytes of the first message that readers see'),
  first_seq: z.int().describe('Number of the first event; 0 before there is one'),
  last_seq: z.int().describe('Number of the last message; 0 before there is one'),
  updated_at: Timestamp,
  parent: z.string().optional().describe('Topic that a branch continues'),
  fork_seq: z.int().optional().describe('Number of the event of the parent before which the branch begins'),
  branch_of: z.string().optional().describe('Message that a person edited or wants another answer to'),
  depth: z.int().describe('Number of topics that a branch continues'),
  folder: Folder.optional().describe('Folder of the last message, as the chat may have belonged to another one'),
})
export type ChatTopic = z.output<typeof ChatTopic>

/**
 * Events that were added before: updates the topic, or creates it. If the chat belongs to another folder now, its readers must not
 * see the earlier title.
 */
const ON_CONFLICT_ADD = `on conflict (jid, topic) do update set last_seq = excluded.last_seq, updated_at = excluded.updated_at,
    folder = excluded.folder,
    title = case when chat_topics.folder <> excluded.folder then null else chat_topics.title end,
    start = case when chat_topics.folder <> excluded.folder then excluded.start
      else coalesce(chat_topics.start, excluded.start) end,
    first_seq = case when chat_topics.first_seq = 0 then excluded.first_seq else chat_topics.first_seq end`

const INSERT = 'insert into chat_topics (jid, topic, root, start, first_seq, last_seq, updated_at, depth, folder)'
const START = contentStart(START_BYTES)

export const chatTopics = new Table({
  name: 'chat_topics',
  row: ChatTopic,
  key: ['jid', 'topic'],
  storage: [
    `create table chat_topics (
       jid text not null, topic text not null, root text not null, title text, start bytea, first_seq bigint not null,
       last_seq bigint not null, updated_at text not null, parent text, fork_seq bigint, branch_of text,
       depth integer not null, folder text, primary key (jid, topic))`,
    // Reads only the events of topics, by their index.
    `${INSERT} select t.jid, t.topic, t.topic, ${START}, t.first_seq, t.last_seq, l.created_at, 0, l.target_folder
     from (select jid, topic, min(seq) as first_seq, max(seq) as last_seq, min(message_seq) as first_message,
         max(message_seq) as last_message from chat_events where topic is not null group by jid, topic) as t
       join messages m on m.seq = t.first_message join messages l on l.seq = t.last_message`,
    'create index chat_topics_latest on chat_topics (jid, last_seq)',
    'create index chat_topics_of_root on chat_topics (jid, root, last_seq)',
    // Before this step, the title could be the prompt of a task.
    `update chat_topics set start = (select ${START} from chat_events e join messages m on m.seq = e.message_seq
         where e.jid = chat_topics.jid and e.topic = chat_topics.topic and not ${isTaskPromptSql('m')} order by e.seq limit 1)
       where exists (select 1 from chat_events e join messages m on m.seq = e.message_seq
         where e.jid = chat_topics.jid and e.seq = chat_topics.first_seq and ${isTaskPromptSql('m')})`,
  ],
})

/** Messages get the numbers that `ADD_MESSAGES` of chat-events.ts gives them afterwards. */
const ADD_RECEIVED = `with fresh as materialized (
    select seq, jid, topic, created_at, row_number() over (partition by jid order by seq) as n,
      ${isTaskPromptSql('messages')} as is_hidden
    from messages where seq > $1 and seq <= $2 and direction = 'in'),
  chat as materialized (
    select c.jid, coalesce((select e.seq from chat_events e where e.jid = c.jid order by e.seq desc limit 1), ${BEFORE_FIRST_EVENT}) as last
    from (select distinct jid from fresh) as c),
  topics as (
    select jid, topic, min(n) as first_n, max(n) as last_n, min(case when is_hidden then null else seq end) as first_shown,
      max(seq) as last_message, max(created_at) as at
    from fresh where topic is not null group by jid, topic)
  ${INSERT}
  select t.jid, t.topic, t.topic, ${START}, t.first_n + c.last, t.last_n + c.last, t.at, 0, l.target_folder
  from topics t join chat c on c.jid = t.jid join messages l on l.seq = t.last_message
    left join messages m on m.seq = t.first_shown where true ${ON_CONFLICT_ADD}`

/** Call before the messages of the range are added to their chats. */
export async function addReceivedTopics(tx: Tx, since: number, until: number): Promise<void> {
  await execute(tx, ADD_RECEIVED, [since, until])
}

const ADD_APPENDED = `${INSERT} select $1, $2, $2, ${START}, e.seq, e.seq, m.created_at, 0, m.target_folder
  from messages m join (select seq from chat_events where jid = $1 order by seq desc limit 1) as e on true
  where m.seq = $3 ${ON_CONFLICT_ADD}`

/** Call after the event of the message was appended to its chat. */
export async function addAppendedTopic(tx: Tx, jid: string, topic: string, message_seq: number): Promise<void> {
  await execute(tx, ADD_APPENDED, [jid, topic, message_seq])
}

/** Derives the title from this content, if this is the first message of the topic. Without content, from the next message. */
export async function updateTopicStart(
  tx: Tx,
  { jid, topic, message_seq, content }: { jid: string; topic: string; message_seq: number; content: Uint8Array },
): Promise<void> {
  const start = content.byteLength === 0 ? null : content.subarray(0, START_BYTES)
  await execute(
    tx,
    `update chat_topics set start = $4 where jid = $1 and topic = $2 and exists (
       select 1 from chat_events e where e.jid = $1 and e.seq = chat_topics.first_seq and e.message_seq = $3)`,
    [jid, topic, message_seq, start],
  )
}

/** The title that a person set, else the start of the first line. */
export function titleOf({ title, start }: Pick<ChatTopic, 'title' | 'start'>): string {
  if (title !== undefined) return title
  const [first = ''] = decodeContent(start ?? new Uint8Array())
    .trim()
    .split(/[\n\r]/)
  return [...first].slice(0, DERIVED_TITLE_MAX).join('')
}
