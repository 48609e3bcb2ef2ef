// Deletes a conversation of a chat, a topic with its branches, in small steps. See docs/decisions.md#topics-and-branches.
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Dialect, Tx } from '../../store/engine.ts'
import { execute, integer, optional, placeholders, query, text } from '../../store/statement.ts'
import type { ChatFile } from '../files/chat-files.ts'
import { lockMessageOrder } from '../messages/messages.ts'
import { areOver, removeMessageRows } from '../messages/retention.ts'
import { conversationName, visitorConversation } from '../routing/routing-decision.ts'
import { resetSessions } from '../turns/conversations.ts'
import { lastEventNumbers } from './chat-events.ts'
import { type ChatTopic, chatTopics } from './chat-topics.ts'

const STEP_EVENTS = 200
/** Answers that are being written belong to the newest messages. */
const NEWEST = 50

interface ChatScope {
  readonly jid: string
  readonly folder: string
}

/** The row of the conversation that has this topic, which people may rename and delete. */
export async function mustFindConversation(tx: Tx, { jid, folder }: ChatScope, topic: string): Promise<ChatTopic> {
  const row = await chatTopics.find(tx, { jid, topic })
  if (!row || (row.folder !== undefined && row.folder !== folder)) return refuse('not_found', 'there is no such topic')
  if (row.root === '') refuse('conflict', 'the main topic and its branches cannot be renamed or deleted')
  return (await chatTopics.find(tx, { jid, topic: row.root })) ?? row
}

/** Names of its topics. Refuses a conversation with an answer that has not ended. */
export async function mustBeIdle(tx: Tx, dialect: Dialect, { jid, root }: ChatTopic): Promise<string[]> {
  await lockMessageOrder(tx, dialect)
  const rows = await query(tx, { topic: text }, 'select topic from chat_topics where jid = $1 and root = $2', [
    jid,
    root,
  ])
  const topics = rows.map(({ topic }) => topic)
  for (const topic of topics) {
    const sql = `select message_seq from chat_events where jid = $1 and topic = $2 and message_seq is not null
      order by seq desc limit ${NEWEST}`
    const newest = await query(tx, { message_seq: integer }, sql, [jid, topic])
    await mustBeOver(
      tx,
      newest.map(({ message_seq }) => message_seq),
    )
  }
  return topics
}

async function mustBeOver(tx: Tx, seqs: readonly number[]): Promise<void> {
  if (seqs.length > 0 && !(await areOver(tx, seqs)))
    refuse('conflict', 'an answer in this topic has not ended', 'stop it, or try again when it has ended')
}

interface RemovalStep extends ChatScope {
  readonly topic: string
  readonly now: number
}

/** The caller removes the files from the disk after the commit. */
export async function removeTopicStep(
  tx: Tx,
  dialect: Dialect,
  { jid, folder, topic, now }: RemovalStep,
): Promise<{ readonly isMore: boolean; readonly files: readonly ChatFile[] }> {
  await lockMessageOrder(tx, dialect)
  const events = await query(
    tx,
    { seq: integer, message_seq: optional(integer) },
    `select seq, message_seq from chat_events where jid = $1 and topic = $2 order by seq limit ${STEP_EVENTS}`,
    [jid, topic],
  )
  const messages = events.flatMap(({ message_seq }) => message_seq ?? [])
  await mustBeOver(tx, messages)
  const files = await removeMessageRows(tx, messages, now)
  await removeEvents(
    tx,
    jid,
    events.map(({ seq }) => seq),
  )
  if (events.length === STEP_EVENTS) return { isMore: true, files }
  for (const name of [conversationName(topic), visitorConversation(jid, topic)])
    await resetSessions(tx, folder, name, timestamp(now))
  await chatTopics.remove(tx, { jid, topic })
  return { isMore: false, files }
}

/** The last event of a chat stays, empty, as its number must not be given to another one. */
async function removeEvents(tx: Tx, jid: string, seqs: readonly number[]): Promise<void> {
  if (seqs.length === 0) return
  const last = (await lastEventNumbers(tx, [jid])).get(jid) ?? 0
  const sql = `update chat_events set kind = 'status', message_seq = null, turn_id = null, topic = null
    where jid = $1 and seq = $2`
  if (seqs.includes(last)) await execute(tx, sql, [jid, last])
  const removed = seqs.filter((seq) => seq !== last)
  if (removed.length > 0)
    await execute(tx, `delete from chat_events where jid = $1 and seq in (${placeholders(removed.length, 1)})`, [
      jid,
      ...removed,
    ])
}
