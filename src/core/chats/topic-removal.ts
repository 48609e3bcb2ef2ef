// Deletes a conversation of a chat, a topic with its branches. It leaves the list at once; its messages are removed in small steps,
// which another process continues if this one ends. See docs/decisions.md#topics-and-branches.
import { z } from 'zod'
import { type Clock, timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import { pauseAfterStep } from '../../lib/step-pause.ts'
import type { Dialect, Engine, Tx } from '../../store/engine.ts'
import { execute, flag, integer, optional, placeholders, query, queryOne, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import type { ChatFile } from '../files/chat-files.ts'
import { removeChatFiles } from '../files/stray-files.ts'
import type { Layout } from '../layout.ts'
import { isVisitorChat } from '../links/visitor-chats.ts'
import { lockMessageOrder } from '../messages/messages.ts'
import { type EmptiedChat, findUnfinished, removeEmptyChats, removeMessageRows } from '../messages/retention.ts'
import { conversationName, visitorConversation } from '../routing/routing-decision.ts'
import { removeTasksOfTopics } from '../schedule/tasks.ts'
import { conversations, resetSessions, sessionLog, workSessions } from '../turns/conversations.ts'
import { conversationsOfChat } from '../turns/turns.ts'
import { ChatName, Folder } from '../values.ts'
import { lastEventNumbers, removeChatEvents } from './chat-events.ts'
import { removeChatDirectories } from './chat-home.ts'
import { type ChatTopic, chatTopics } from './chat-topics.ts'

const STEP_EVENTS = 100
/** Answers that are being written belong to the newest messages. */
const NEWEST = 50

interface ChatScope {
  readonly jid: string
  readonly folder: string
}

/** Deleted topics whose messages are not all removed yet. Later messages with the same topic are a new one. */
export const topicRemovals = new Table({
  name: 'topic_removals',
  row: z.object({
    jid: ChatName,
    topic: z.string(),
    folder: Folder,
    until_seq: z.int().describe('Number of the last event to remove'),
  }),
  key: ['jid', 'topic'],
  storage: [
    `create table topic_removals (
       jid text not null, topic text not null, folder text not null, until_seq bigint not null, primary key (jid, topic))`,
  ],
})
type TopicRemoval = z.output<typeof topicRemovals.row>

/** The row of the conversation that has this topic, which people may rename and delete. */
export async function mustFindConversation(tx: Tx, { jid, folder }: ChatScope, topic: string): Promise<ChatTopic> {
  const row = await chatTopics.find(tx, { jid, topic })
  if (!row || (row.folder !== undefined && row.folder !== folder)) return refuse('not_found', 'there is no such topic')
  if (row.root === '') refuse('conflict', 'the main topic and its branches cannot be renamed or deleted')
  return (await chatTopics.find(tx, { jid, topic: row.root })) ?? row
}

/** Whether a topic was deleted, but has messages that are not removed yet. */
export async function isBeingRemoved(tx: Tx, { jid, folder }: ChatScope, topic: string): Promise<boolean> {
  if (await chatTopics.find(tx, { jid, topic })) return false
  return (await topicRemovals.find(tx, { jid, topic, folder })) !== undefined
}

/** Refuses a conversation with an answer that has not ended, also to an earlier message. */
export async function mustBeIdle(tx: Tx, folder: string, conversation: ChatTopic): Promise<void> {
  for (const topic of await mustHaveEnded(tx, folder, conversation)) {
    const sql = `select message_seq from chat_events where jid = $1 and topic = $2 and message_seq is not null
      order by seq desc limit ${NEWEST}`
    const rows = await query(tx, { message_seq: integer }, sql, [conversation.jid, topic])
    const newest = rows.map(({ message_seq }) => message_seq)
    if ((await findUnfinished(tx, newest)).size > 0) refuseRunning()
  }
}

/** Names of its topics. Refuses a conversation if the last message of one is not answered, or if messages wait. */
async function mustHaveEnded(tx: Tx, folder: string, { jid, root }: ChatTopic): Promise<string[]> {
  const sql = `select t.topic, e.message_seq from chat_topics t left join chat_events e on e.jid = t.jid and e.seq = t.last_seq
    where t.jid = $1 and t.root = $2`
  const rows = await query(tx, { topic: text, message_seq: optional(integer) }, sql, [jid, root])
  const topics = rows.map(({ topic }) => topic)
  if (topics.length === 0) return topics
  const last = rows.flatMap(({ message_seq }) => message_seq ?? [])
  if ((await hasWaiting(tx, { jid, folder }, topics)) || (await findUnfinished(tx, last)).size > 0) refuseRunning()
  return topics
}

function refuseRunning(): never {
  return refuse('conflict', 'an answer in this topic has not ended', 'stop it, or try again when it has ended')
}

/** Messages that are acknowledged, but not in their chat yet, and those that wait in the visitor's conversations. */
async function hasWaiting(tx: Tx, { jid, folder }: ChatScope, topics: readonly string[]): Promise<boolean> {
  const names = topics.map((topic) => visitorConversation(jid, topic))
  const sql = `select exists (select 1 from messages where seq > (select last_seq from filing where id = 1)
      and direction = 'in' and jid = $1 and topic in (${placeholders(topics.length, 2)}))
    or exists (select 1 from conversations where folder = $2 and topic in (${placeholders(names.length, 2 + topics.length)})
      and (waiting > 0 or turn_id is not null)) as found`
  return (await queryOne(tx, { found: flag }, sql, [jid, folder, ...topics, ...names])).found
}

interface NewRemoval extends ChatScope {
  readonly conversation: ChatTopic
  readonly now: number
}

/** Forgets the conversation. Call `finishTopicRemovals` after the commit. */
export async function beginTopicRemoval(
  tx: Tx,
  dialect: Dialect,
  { jid, folder, conversation, now }: NewRemoval,
): Promise<void> {
  await lockMessageOrder(tx, dialect)
  const { root } = conversation
  const topics = await mustHaveEnded(tx, folder, conversation)
  // Another request has deleted it.
  if (topics.length === 0) return
  const until_seq = (await lastEventNumbers(tx, [jid])).get(jid) ?? 0
  await execute(tx, BEGIN, [jid, root, folder, until_seq])
  await forgetSessions(tx, { jid, folder }, topics, timestamp(now))
  await removeTasksOfTopics(tx, jid, topics)
  await chatTopics.remove(tx, { jid, root })
}

const BEGIN = `insert into topic_removals (jid, topic, folder, until_seq)
  select jid, topic, $3, cast($4 as bigint) from chat_topics where jid = $1 and root = $2
  on conflict (jid, topic) do update set folder = excluded.folder, until_seq = excluded.until_seq`

/** Chats of one folder share the conversation of a topic, except those of visitors, so that of other chats stays. */
async function forgetSessions(
  tx: Tx,
  { jid, folder }: ChatScope,
  topics: readonly string[],
  now: string,
): Promise<void> {
  const own = topics.map((topic) => visitorConversation(jid, topic))
  for (const { name } of [conversations, workSessions, sessionLog]) {
    const sql = `delete from ${name} where folder = $1 and topic in (${placeholders(own.length, 1)})`
    await execute(tx, sql, [folder, ...own])
  }
  if (isVisitorChat(jid)) return
  const shared = topics.map((topic) => conversationName(topic))
  const sql = `delete from work_sessions where folder = $1 and jid = $2 and topic in (${placeholders(shared.length, 2)})`
  await execute(tx, sql, [folder, jid, ...shared])
  for (const topic of await conversationsOfChat(tx, { folder, jid }, shared))
    await resetSessions(tx, folder, topic, now)
}

interface RemovalHost {
  readonly engine: Pick<Engine, 'read' | 'transaction' | 'dialect'>
  readonly clock: Clock
  /** Without it, another process ends the removals, because chats of visitors have directories. */
  readonly layout?: Layout | undefined
}

/** Removes the messages of deleted topics, of one chat or of all. */
export async function finishTopicRemovals(host: RemovalHost, jid?: string, signal?: AbortSignal): Promise<void> {
  const removals = await host.engine.read((tx) => topicRemovals.list(tx, jid === undefined ? {} : { jid }))
  for (const removal of removals)
    for (let after: number | undefined = 0; after !== undefined && !signal?.aborted; ) {
      const started = performance.now()
      after = await removeStep(host, removal, after)
      await pauseAfterStep(started, signal)
    }
}

/** Returns the number of the last event that it has examined; undefined at the end. */
async function removeStep(
  { engine, clock, layout }: RemovalHost,
  removal: TopicRemoval,
  after: number,
): Promise<number | undefined> {
  const step = { removal, after, now: clock.now(), mayEnd: layout !== undefined }
  const { last, files, emptied } = await engine.transaction((tx) => removeTopicStep(tx, engine.dialect, step))
  if (!layout) return last
  await removeChatFiles(layout, files)
  for (const chat of emptied) await removeChatDirectories(layout, chat)
  return last
}

interface RemovalStep {
  readonly removal: TopicRemoval
  /** Number of the last event that an earlier step has examined. */
  readonly after: number
  readonly now: number
  readonly mayEnd: boolean
}

interface RemovedStep {
  /** Number of the last event that it has examined; undefined if it was the last step. */
  readonly last: number | undefined
  /** To be removed from the disk after the commit. */
  readonly files: readonly ChatFile[]
  readonly emptied: readonly EmptiedChat[]
}

/** Messages that are not answered or delivered yet are left to a later call, as are their events. */
export async function removeTopicStep(
  tx: Tx,
  dialect: Dialect,
  { removal, after, now, mayEnd }: RemovalStep,
): Promise<RemovedStep> {
  await lockMessageOrder(tx, dialect)
  const { jid, topic, until_seq } = removal
  const events = await query(
    tx,
    { seq: integer, message_seq: optional(integer) },
    `select seq, message_seq from chat_events where jid = $1 and topic = $2 and seq > $3 and seq <= $4
     order by seq limit ${STEP_EVENTS}`,
    [jid, topic, after, until_seq],
  )
  const seqs = events.flatMap(({ message_seq }) => message_seq ?? [])
  const kept = await findUnfinished(tx, seqs)
  const files = await removeMessageRows(
    tx,
    seqs.filter((seq) => !kept.has(seq)),
    now,
  )
  const gone = events.filter(({ message_seq }) => message_seq === undefined || !kept.has(message_seq))
  await removeChatEvents(
    tx,
    jid,
    gone.map(({ seq }) => seq),
  )
  if (events.length === STEP_EVENTS) return { last: events.at(-1)?.seq, files, emptied: [] }
  return { last: undefined, files, emptied: mayEnd ? await endRemoval(tx, removal) : [] }
}

async function endRemoval(tx: Tx, { jid, topic, folder, until_seq }: TopicRemoval): Promise<readonly EmptiedChat[]> {
  const sql = 'select exists (select 1 from chat_events where jid = $1 and topic = $2 and seq <= $3) as found'
  if ((await queryOne(tx, { found: flag }, sql, [jid, topic, until_seq])).found) return []
  await topicRemovals.remove(tx, { jid, topic, until_seq })
  return removeEmptyChats(tx, [{ jid, folder }])
}
